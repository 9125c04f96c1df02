#pragma once
// First weights as a function of a tensor's name: tensors of one name and shape start equal in any
// two models, whatever else these have.
#include <cstdint>
#include <string_view>

#include "model/checkpoints/weights.h"

namespace phasescope::model {

// Phi^-1(p) for 0 < p < 1, relative error about 1e-16 (Wichura, Algorithm AS 241, PPND16, Applied
// Statistics 37, 1988).
double normal_quantile(double p);

// FNV-1a, 64 bits, over the bytes of a name.
std::uint64_t name_hash(std::string_view name);

// As init_weights, with entry n (row-major) of a tensor being Phi^-1(CounterRandom(seed,
// name_hash(name)).unit(n)) times its deviation, uniform ones likewise; computed in float64 and
// rounded once. Neither the dtype of a run nor its threads change a bit.
Weights weights_by_name(const ModelConfig& config, const Encoding& encoding, std::uint64_t seed);

// Entries [begin, begin + count), row-major, of one of its tensors, (count) float32: what is larger
// than memory is drawn piece by piece.
at::Tensor entries_by_name(const TensorSpec& spec, const ModelConfig& config, std::uint64_t seed,
                           std::int64_t begin, std::int64_t count);

}  // namespace phasescope::model
