#pragma once
// Every statistic of every head, over one text or over a corpus with intervals.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/head_reading.h"
#include "analysis/text_pass.h"
#include "protocol/messages/heads.h"
#include "protocol/progress.h"
#include "protocol/reply.h"

namespace phasescope::analysis {

struct HeadsOptions {
  std::string stack;                 // for stack_named()
  std::vector<std::string> metrics;  // keys; empty for all numbers a head
  std::int64_t thumbnails = 0;       // side of each head's picture; 0 for none
  std::int64_t period = 0;           // S of the repeated random tokens; 0: chosen by the context
  std::uint64_t seed = 0;
  // Gives the pass of ids through the same model, where somebody keeps passes; may be empty.
  std::function<std::shared_ptr<TextPass>(const std::vector<std::int64_t>& ids)> open_pass;
};

struct HeadsOutput {
  protocol::HeadsResult result;
  std::vector<protocol::TensorRef> tensors;
};

// One pass a text; of an encoder-decoder the heads of one stack. Over a corpus every number is a
// mean over texts (induction, duplicate_token and induction_loss: over draws of random tokens) with
// the interval of mean_interval(); a single text has none. The thumbnails and js_divergence
// are of the first one. The induction loss is NaN, and the result's note says why, where the model
// has no loss of the next token. Throws Error "bad_usage" for a metric that does not exist.
HeadsOutput analyse_heads(const std::vector<std::shared_ptr<TextPass>>& passes,
                          const HeadsOptions& options, protocol::Progress& progress);

// What every statistic of a head is computed from; sums by distance in the buckets of these edges.
model::ProbeRequest head_probes(std::vector<std::int64_t> bucket_edges);
// What one layer's probes, those of head_probes(), say of each head. `kernels`, here and below:
// gathers what measured it; null for nobody.
std::vector<HeadReading> read_heads(const model::LayerAttention& attention,
                                    const model::ProbeRequest& probes,
                                    model::AllRan* kernels = nullptr);

// (H, S, S) pictures of a layer's heads: weights pooled by their maximum, -inf where masked.
at::Tensor layer_thumbnails(const model::LayerAttention& attention, std::int64_t side,
                            model::AllRan* kernels = nullptr);

}  // namespace phasescope::analysis
