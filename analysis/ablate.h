#pragma once
// What a model loses where heads are taken out of it, held back, or its encoding is read otherwise:
// the same texts through the model and through readings of it (model/attention/repairs.h), the
// differences paired row by row.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "protocol/messages/ablate.h"
#include "protocol/model_reading.h"
#include "protocol/progress.h"
#include "protocol/tensor.h"

namespace phasescope::analysis {

struct AblateOptions {
  model::Backend backend = model::Backend::fused;
  std::vector<std::string> heads;  // "L3H1", "L3", "all"; empty: as AblateRequest has it
  std::string how = "zero";
  std::optional<double> limit;
  std::string by;
  std::string maps = "auto";
  protocol::Settings set;  // of every reading
  std::uint64_t seed = 0;
};

struct AblateOutput {
  protocol::AblateResult result;
  std::vector<protocol::TensorRef> tensors;
};

// Every change is one pass a text, and one more for all, means another one. Losses in nats over the
// N - 1 rows of a text that predict a token; the KL divergence of the guesses before from those
// after, and the share of rows whose first guess changes, over all N. Mean outputs are over all
// rows of all texts. Where a change runs plain, what it is compared with does too. Throws Error
// "bad_usage" for heads that are not there and limits that are missing or have no use,
// "not_applicable" for encoders and models without a head, and what opening a reading throws.
AblateOutput analyse_ablate(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                            const AblateOptions& options, protocol::Progress& progress);

}  // namespace phasescope::analysis
