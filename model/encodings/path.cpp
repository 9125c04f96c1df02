#include "model/encodings/path.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "formats/error.h"
#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

const EncodingInfo& path_info() {
  static const EncodingInfo info = {
      .key = "path",
      .title = "PaTH (Householder products along the path)",
      .formula =
          "s_ij = k_j.(H_{j+1} ... H_i q_i) / sqrt(d), H_t = I - beta_t w_t w_t^T, w_t = W x_t of "
          "length 1, beta_t = 2 sigmoid(u_h.x_t + b_h)",
      .source =
          "Yang et al. 2025, PaTH Attention: Position Encoding via Accumulating Householder "
          "Transformations, arXiv 2505.16381",
      .departure =
          "w is one linear map of x: the public layer's low rank and short convolution in "
          "front of it are left out, and so is the forget gate of PaTH-FoX",
      .options = {},
      .under_shift = {UnderShift::Kind::stays,
                      "what lies between two tokens is their content; position ids do not enter"},
      .has_state = false,
      .reads_hidden = true,
  };
  return info;
}

// The keys of some rows one after the other, from the nearest back: at each the rows' queries have
// gone through the matrices of all tokens after it. A product has to be known before the next one,
// and differs from row to row, so there is no score that a block of keys could compute by itself.
struct PathTerm {
  at::Tensor q, k;     // (B, H, N, d)
  at::Tensor w, beta;  // (B, H, N, d), (B, H, N)
  double scale = 1;

  at::Tensor operator()(const TermRegion& region) const {
    const at::Tensor& content = region.content;
    const at::ScalarType dtype = content.scalar_type();
    const std::int64_t rows = content.size(2), keys = content.size(3);
    const at::Tensor row =
        at::arange(region.first_row, region.first_row + rows, content.options().dtype(at::kLong))
            .unsqueeze(1);
    at::Tensor u = q.slice(2, region.first_row, region.first_row + rows).to(dtype);
    std::vector<at::Tensor> columns(static_cast<std::size_t>(keys));
    for (std::int64_t j = keys - 1; j >= 0; --j) {
      at::Tensor& column = columns[static_cast<std::size_t>(j)];
      column = content.select(3, j);
      if (j >= region.first_row + rows) continue;  // no row sees it
      const auto of_key = [&](const at::Tensor& x) { return x.narrow(2, j, 1).to(dtype); };
      const at::Tensor seen = row >= j;  // (rows, 1)
      column = at::where(seen.squeeze(1), (u * of_key(k)).sum(-1) * scale, column);
      const at::Tensor along = (u * of_key(w)).sum(-1, true) * of_key(beta).unsqueeze(-1);
      u = at::where(seen, u - along * of_key(w), u);
    }
    return at::stack(columns, 3);
  }
};

class Path final : public Encoding {
 public:
  Path(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (kv_heads_ != heads_ || !causal_) {
      throw formats::bad_input("path needs the causal mask and a key head for every head");
    }
    if (model.attention.scale_by_layer) {
      throw formats::bad_input("path has one scale of scores for all layers",
                               "attention.scale_by_layer");
    }
  }

  const EncodingInfo& info() const override { return path_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "w_proj.weight", .shape = {heads_ * head_dim_, width_}},
            {.name = "beta_proj.weight", .shape = {heads_, width_}},
            {.name = "beta_proj.bias",
             .shape = {heads_},
             .init = ParameterSpec::Init::zeros,
             .decays = false}};
  }

  // w (B, H, N, d) and beta (B, H, N).
  void read_hidden(const Parameters& layer, const at::Tensor& x,
                   PositionState& state) const override {
    const at::ScalarType dtype = table_dtype(x.scalar_type());
    const at::Tensor w = at::linear(x, layer.at("w_proj.weight"))
                             .to(dtype)
                             .unflatten(-1, {heads_, head_dim_})
                             .transpose(1, 2);
    const at::Tensor beta =
        at::linear(x, layer.at("beta_proj.weight"), layer.at("beta_proj.bias")).to(dtype);
    state.read = {w / (w.square().sum(-1, true) + 1e-6).sqrt(),
                  2 * at::sigmoid(beta).transpose(1, 2)};
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (state.read.empty()) return program;
    TermProgram term;
    term.reads_rows = true;
    term.arrays = 2 * heads_;
    term.no_table = "a product of matrices of all tokens between a key and its query";
    term.score = PathTerm{q, k, state.read[0], state.read[1], scale_};
    program.variant = std::move(term);
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {token_cost("vectors and factors", s, s.width * s.heads * (s.head_dim + 1)),
            pair_cost("queries through the matrices", s, 2 * s.heads * s.head_dim)};
  }
};

std::unique_ptr<Encoding> make_path(const Json& options, const ModelConfig& model) {
  return std::make_unique<Path>(options, model);
}

}  // namespace

EncodingEntry path_entry() { return {&path_info(), &make_path}; }

}  // namespace phasescope::model
