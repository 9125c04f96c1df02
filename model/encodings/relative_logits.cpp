#include "model/encodings/relative_logits.h"

#include <ATen/ATen.h>

#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

const EncodingInfo& relative_logits_info() {
  static const EncodingInfo info = {
      .key = "relative_logits",
      .title = "Relative logits from content",
      .formula =
          "s_ij = q_i.k_j / sqrt(d) + r_i.P[i - j] for 0 <= i - j < extent, r_i = (W_r x_i) of the "
          "head",
      .source = "Inkling's attention (Hugging Face transformers, model type inkling_text)",
      .departure = "",
      .options = {{"rank", 16, "of r and of P's rows", {}, 1, 1 << 16},
                  {"extent", 128, "distances that have a row of P", {}, 1, 1 << 20}},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
      .reads_hidden = true,
  };
  return info;
}

// r (B, H, N, rank), table (rank, extent).
at::Tensor with_relative_logits(const at::Tensor& r, const at::Tensor& table, double step,
                                const TermRegion& region) {
  const at::Tensor& content = region.content;
  const at::ScalarType dtype = content.scalar_type();
  const at::Tensor rows = r.slice(1, region.first_head, region.first_head + content.size(1))
                              .slice(2, region.first_row, region.first_row + content.size(2));
  const at::Tensor by_distance = at::matmul(rows.to(dtype), table.to(dtype));
  const at::Tensor distance =
      whole_places(region.query_id - region.key_id, step).unsqueeze(1).expand(content.sizes());
  const at::Tensor outside = (distance < 0) | (distance >= table.size(1));
  const at::Tensor found = by_distance.gather(-1, distance.clamp(0, table.size(1) - 1));
  return content + found.masked_fill(outside, 0.0);
}

// P of the distances 0, 1, .. of a text of `length` tokens that have a row of it: (1, rank, L).
at::Tensor keys_by_distance(const at::Tensor& table, double step, std::int64_t length) {
  // Places grow with distance; how many have a row is known to the host.
  const auto known = whole_places(at::arange(length, at::kLong), step)
                         .lt(table.size(1))
                         .sum()
                         .item<std::int64_t>();
  const at::Tensor rows = whole_places(at::arange(known, table.options().dtype(at::kLong)), step);
  return table.index_select(1, rows).unsqueeze(0);
}

class RelativeLogits final : public Encoding {
 public:
  RelativeLogits(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return relative_logits_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "r_proj.weight", .shape = {heads_ * integer("rank"), width_}},
            {.name = "proj", .shape = {integer("rank"), integer("extent")}}};
  }

  void read_hidden(const Parameters& layer, const at::Tensor& x,
                   PositionState& state) const override {
    state.read = {at::linear(x, layer.at("r_proj.weight"))
                      .unflatten(-1, {heads_, integer("rank")})
                      .transpose(1, 2)};
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (state.read.empty()) return program;
    // Interpolated, keys just after a query round to its own place.
    const bool one_sided = causal_ || step_ == 1.0;
    if (state.positions.consecutive() && one_sided) {
      program.variant = RelativeKeysProgram{
          state.read[0], keys_by_distance(layer.at("proj"), step_, state.positions.length)};
      return program;
    }
    TermProgram term;
    term.arrays = 3 * heads_;
    term.score = [r = state.read[0], table = layer.at("proj"), step = step_](const TermRegion& of) {
      return with_relative_logits(r, table, step, of);
    };
    program.variant = std::move(term);
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double rank = number("rank");
    return {token_cost("relative vectors", s, s.width * s.heads * rank),
            token_cost("products with distances", s, s.heads * rank * number("extent")),
            score_cost("relative logits on the scores", s, 1)};
  }
};

std::unique_ptr<Encoding> make_relative_logits(const Json& options, const ModelConfig& model) {
  return std::make_unique<RelativeLogits>(options, model);
}

}  // namespace

EncodingEntry relative_logits_entry() { return {&relative_logits_info(), &make_relative_logits}; }

}  // namespace phasescope::model
