#pragma once
// Whether the program finds what is true of the constructed models
// (model/checkpoints/constructed.h) by construction: their weights and every head statistic,
// against closed forms in float64.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/attention/attention.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/prove.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// The weights (L, H, N, N), float64, that a constructed model has by its definition on these ids.
// Throws Error "bad_usage" for a name that is none of theirs.
at::Tensor constructed_weights(const std::string& name, const std::vector<std::int64_t>& ids);

struct ProofOptions {
  at::ScalarType dtype;
  model::Backend backend = model::Backend::fused;
  std::uint64_t seed = 0;
};

// The claims of one constructed model, opened by its name: its weights on a text of random tokens
// behind [BOS], and every metric of analysis/metrics there (duplicate_token and induction on random
// tokens written twice). `kernels`: gathers what ran.
std::vector<protocol::Claim> prove(const std::string& name,
                                   const std::shared_ptr<const model::Model>& model,
                                   const ProofOptions& options, model::AllRan& kernels,
                                   protocol::Progress& progress);

// What a file says of a model: the constructed model that it is, the seed of its texts, and claims
// about it with their values and tolerances.
struct WrittenProof {
  std::string name;
  std::uint64_t seed = 0;
  std::vector<protocol::Claim> claims;
};
// The claims of a file against what is measured of a model. Throws Error "bad_input" for a claim
// about what is not measured.
std::vector<protocol::Claim> prove_again(const std::shared_ptr<const model::Model>& model,
                                         const WrittenProof& written, const ProofOptions& options,
                                         model::AllRan& kernels, protocol::Progress& progress);

}  // namespace phasescope::analysis
