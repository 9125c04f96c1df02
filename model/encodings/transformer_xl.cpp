#include "model/encodings/transformer_xl.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& transformer_xl_info() {
  static const EncodingInfo info = {
      .key = "transformer_xl",
      .title = "Transformer-XL (relative sinusoids)",
      .formula =
          "s_ij = ((q_i + u).k_j + (q_i + v).W_R r_{i-j}) / sqrt(d), r sinusoidal of width C",
      .source = "arXiv 1901.02860, Section 3.3",
      .departure = "",
      .options = {base_option("base of the sinusoids' frequencies")},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
  };
  return info;
}

struct RelativeTerm {
  at::Tensor q, k;  // (B, H, N, d)
  at::Tensor w;     // (H d, C)
  at::Tensor u, v;  // (H, d)
  double base = 0, scale = 1, step = 1;

  // v . W_R r of every distance of a text, and u.k of every key: what does not go by q alone.
  RelativeKeysProgram keys_by_distance(std::int64_t length, bool causal) const {
    const at::ScalarType dtype = table_dtype(q.scalar_type());
    const std::int64_t first = causal ? 0 : 1 - length;
    const at::Tensor all = at::arange(first, length, q.options().dtype(at::kLong));
    return {.r = q.to(dtype) + v.to(dtype).unsqueeze(1),
            .keys = relative_keys(all, dtype).permute({1, 2, 0}) * scale,
            .first_distance = first};
  }
  at::Tensor key_bias() const {
    const at::ScalarType dtype = table_dtype(q.scalar_type());
    return at::matmul(k.to(dtype), u.to(dtype).unsqueeze(-1)).squeeze(-1) * scale;
  }

  at::Tensor operator()(const TermRegion& region) const {
    const at::Tensor& content = region.content;
    const auto heads = [&](const at::Tensor& x, std::int64_t dim) {
      return x.slice(dim, region.first_head, region.first_head + content.size(1));
    };
    const at::ScalarType dtype = content.scalar_type();
    const at::Tensor rows =
        heads(q, 1).slice(2, region.first_row, region.first_row + content.size(2));
    const at::Tensor columns =
        heads(k, 1).slice(2, region.first_column, region.first_column + content.size(3));
    const at::Tensor of_key = at::matmul(columns, heads(u, 0).unsqueeze(-1)).transpose(-1, -2);
    const at::Tensor distance = region.query_id - region.key_id;  // (B or 1, rows, columns)
    const at::Tensor queries = rows.to(dtype) + heads(v, 0).unsqueeze(1);
    const DistanceRange range = region.distance_range();
    // Few pairs may lie far apart: a key of every distance between them would be one too many.
    if (range.greatest - range.least >= distance.numel()) {
      const at::Tensor keys = heads(relative_keys(distance, dtype).permute({0, 3, 1, 2, 4}), 1);
      return content + (of_key + (queries.unsqueeze(3) * keys).sum(-1)) * scale;
    }
    const std::int64_t first = range.least;
    const at::Tensor all = at::arange(first, range.greatest + 1, distance.options());
    const at::Tensor keys = heads(relative_keys(all, dtype).transpose(0, 1), 0);
    const at::Tensor by_distance = at::matmul(queries, keys.transpose(-1, -2));
    const at::Tensor of_pair =
        by_distance.gather(-1, (distance - first).unsqueeze(1).expand(content.sizes()));
    return content + (of_key + of_pair) * scale;
  }

 private:
  // W_R r of distances (..): (.., H, d).
  at::Tensor relative_keys(const at::Tensor& distance, at::ScalarType dtype) const {
    const at::Tensor r = sinusoids(distance.to(at::kDouble) * step, base, w.size(1)).to(dtype);
    return at::matmul(r, w.to(dtype).t()).unflatten(-1, {u.size(0), -1});
  }
};

class TransformerXl final : public Encoding {
 public:
  TransformerXl(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (width_ % 2 != 0 || kv_heads_ != heads_) {
      throw formats::bad_input("transformer_xl needs an even width and a key head for every head");
    }
    if (model.attention.scale_by_layer) {
      throw formats::bad_input("transformer_xl has one scale of scores for all layers",
                               "attention.scale_by_layer");
    }
  }

  const EncodingInfo& info() const override { return transformer_xl_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "r_proj", .shape = {heads_ * head_dim_, width_}},
            {.name = "u", .shape = {heads_, head_dim_}, .decays = false},
            {.name = "v", .shape = {heads_, head_dim_}, .decays = false}};
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const RelativeTerm term{
        q, k, layer.at("r_proj"), layer.at("u"), layer.at("v"), number("base"), scale_, step_};
    if (state.positions.consecutive()) {
      program.variant = term.keys_by_distance(state.positions.length, causal_);
      program.tokens.key = term.key_bias();
      return program;
    }
    program.variant =
        TermProgram{.score = term,
                    .arrays = 5 * heads_,
                    .no_table = "a product of each query with a key of every distance"};
    return program;
  }

  // One relative key for each distance of the text.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {token_cost("relative keys", s, s.width * s.heads * s.head_dim),
            pair_cost("products with relative keys", s, s.heads * s.head_dim)};
  }
};

std::unique_ptr<Encoding> make_transformer_xl(const Json& options, const ModelConfig& model) {
  return std::make_unique<TransformerXl>(options, model);
}

}  // namespace

EncodingEntry transformer_xl_entry() { return {&transformer_xl_info(), &make_transformer_xl}; }

}  // namespace phasescope::model
