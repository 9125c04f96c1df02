#include "model/encodings/liere.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/orthogonal_powers.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& liere_info() {
  static const EncodingInfo info = {
      .key = "liere",
      .title = "LieRE (rotations of whole heads)",
      .formula =
          "s_ij = (R_i q_i).(R_j k_j) / sqrt(d), R_n = exp(n (A - A^T)) of each layer and head; on "
          "a grid exp(r (A - A^T) + c (B - B^T)) of row r and column c",
      .source =
          "Ostmeier et al. 2024, LieRE: Lie Rotational Positional Encodings, arXiv 2406.10322",
      .departure = "",
      .options = {ape_base_option(),
                  start_option("exp(A - A^T)"),
                  {"columns",
                   0,
                   "of a grid whose cells position ids number row by row; 0: a line",
                   {},
                   0,
                   1 << 20}},
      .under_shift = {UnderShift::Kind::stays,
                      "the rotations of query and key leave one power of their distance"},
      .has_state = false,
  };
  return info;
}

class Liere final : public Encoding {
 public:
  Liere(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (head_dim_ % 2 != 0 || kv_heads_ != heads_) {
      throw formats::bad_input("liere needs an even head size and a key head for every head");
    }
    if (columns() > 0) refuse_interpolation("liere on a grid");
  }

  const EncodingInfo& info() const override { return liere_info(); }

  UnderShift under_shift() const override {
    if (columns() == 0) return info().under_shift;
    return {UnderShift::Kind::moves, "rotations of two axes do not commute"};
  }

  // The generators of one axis, or of rows and columns.
  std::vector<ParameterSpec> parameters() const override {
    ParameterSpec spec{.name = "generator",
                       .shape = {columns() > 0 ? 2 : 1, heads_, head_dim_, head_dim_},
                       .decays = false};
    spec.start = start_generator(text("start"), number("base"), head_dim_);
    return {spec};
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const at::Tensor& generator = layer.at("generator");
    if (columns() > 0) {
      const at::Tensor turns = turns_on_grid(generator, state.positions, q.scalar_type());
      program.transform(turned_by(turns, q), turned_by(turns, k));
      return program;
    }
    const Positions& positions = state.positions;
    const at::Tensor powers = orthogonal_powers(generator.select(0, 0) * step_,
                                                positions.largest_distance(), q.scalar_type());
    // They count from the text's first position: the score has their differences alone.
    const at::Tensor exponents = positions.consecutive()
                                     ? at::arange(positions.length, positions.options(at::kLong))
                                     : positions.ids - positions.ids.amin(-1, true);
    program.transform(raised(q, powers, exponents), raised(k, powers, exponents));
    return program;
  }

  // On a line W^n by the bits of n, as ape_sequence; on a grid a product of every token.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double bits =
        columns() > 0 ? 1 : std::max(1.0, std::ceil(std::log2(std::max(2.0, s.tokens))));
    return {token_cost("rotations of heads", s, 2 * bits * s.heads * s.head_dim * s.head_dim)};
  }

 private:
  std::int64_t columns() const { return integer("columns"); }

  // exp of every token's generator, (B or 1, H, N, d, d); made in float64.
  at::Tensor turns_on_grid(const at::Tensor& generator, const Positions& positions,
                           at::ScalarType dtype) const {
    const at::Tensor ids = position_ids(positions);
    const at::Tensor by_text = (ids.dim() == 2 ? ids : ids.unsqueeze(0)).to(at::kDouble);
    const at::Tensor a = generator.to(at::kDouble);
    const at::Tensor skew = a - a.transpose(-1, -2);  // (2, H, d, d)
    const auto along = [&](const at::Tensor& places, std::int64_t axis) {
      return places.view({places.size(0), 1, -1, 1, 1}) *
             skew.select(0, axis).unsqueeze(0).unsqueeze(2);
    };
    const auto width = static_cast<double>(columns());
    return at::linalg_matrix_exp(along(at::floor(by_text / width), 0) +
                                 along(at::remainder(by_text, width), 1))
        .to(dtype);
  }

  static at::Tensor turned_by(const at::Tensor& turns, const at::Tensor& x) {
    return at::matmul(turns, x.unsqueeze(-1)).squeeze(-1);
  }
};

std::unique_ptr<Encoding> make_liere(const Json& options, const ModelConfig& model) {
  return std::make_unique<Liere>(options, model);
}

}  // namespace

EncodingEntry liere_entry() { return {&liere_info(), &make_liere}; }

}  // namespace phasescope::model
