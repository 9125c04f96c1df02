#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "training/run_config.h"

namespace phasescope::training {

// Metric -> layer -> head.
using HeadValues = std::map<std::string, std::vector<std::vector<double>>>;

// The metrics that eval.probe_metrics names. Throws Error "bad_usage" for one that does not exist.
void check_probe(const EvalSection& eval);

// What those metrics (docs/equations.md) are of every head of `decoder` over one text, `ids`, read
// as `options` says. The weights are shared, not copied; nothing is changed.
HeadValues head_values(const model::Decoder& decoder, const std::vector<std::int64_t>& ids,
                       const EvalSection& eval, const model::ForwardOptions& options);

}  // namespace phasescope::training
