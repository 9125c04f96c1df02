#pragma once
// At which distances a head wants more weight: the gradient of the loss by a bias that is added to
// the softmax's input by distance.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/texts.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/demand.h"
#include "protocol/progress.h"
#include "protocol/tensor.h"

namespace phasescope::analysis {

// 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, ..: the edges below `tokens`.
std::vector<std::int64_t> distance_edges(std::int64_t tokens);

// A bias by layer, head and distance.
struct DistanceBias {
  at::Tensor table;                 // (layers, heads, K); undefined for none
  std::vector<std::int64_t> edges;  // (K)
};

// What one text of N tokens gives, N - 1 rows: sums over its rows, in bits.
struct TextDemand {
  at::Tensor demand;  // (layers, heads, N) float64, - d loss / d b(lambda); undefined if not wanted
  double loss = 0;
  double rows = 0;
};

struct DemandPass {
  model::Backend backend = model::Backend::fused;
  bool demand = true;
  model::AllRan* kernels = nullptr;
  // Told of each layer, where its gradients are made too, and asked whether to go on.
  protocol::Progress* progress = nullptr;
  std::string doing = "asking what the heads want";  // what it is told
  // A longer text keeps of a layer what it reads alone, and runs it again for its gradients.
  std::int64_t kept_tokens = 4096;
};
// One forward pass and, for the demand, one backward. Attention's gradients by score are made row
// block by row block from what it gave and the gradient that came in, so that no N x N exists; what
// runs plain computes the blocks of a long text again for them (model/attention/row_blocks.h).
TextDemand demand_of(const model::Model& model, const std::vector<std::int64_t>& ids,
                     const DistanceBias& bias, const DemandPass& pass);

// Sums over the distances of each bucket: (..., N) to (..., K).
at::Tensor by_bucket(const at::Tensor& values, const std::vector<std::int64_t>& edges);

struct DemandOptions {
  model::Backend backend = model::Backend::fused;
  std::vector<std::int64_t> layers, heads;
  bool fit = false;
  std::int64_t steps = 12;
  std::int64_t start_window = 0;  // keys this far start at -20; 0: none do
  std::uint64_t seed = 0;
};

struct DemandOutput {
  protocol::DemandResult result;
  std::vector<protocol::TensorRef> tensors;  // of a fit that helps
};

// Throws Error "not_applicable" for models without a loss of the next token, "bad_input" for texts
// of one token, and for a fit to fewer than 12 texts.
DemandOutput analyse_demand(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                            const DemandOptions& options, protocol::Progress& progress);

}  // namespace phasescope::analysis
