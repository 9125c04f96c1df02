#include "model/encodings/ape_periodic.h"

#include <ATen/ATen.h>

#include <numbers>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& ape_periodic_info() {
  static const EncodingInfo info = {
      .key = "ape_periodic",
      .title = "APE on periodic sequences",
      .formula =
          "s_ij = q_i.(W^(j-i) k_j) / sqrt(d), W = P Q P^T, Q turning plane m by turns_m whole "
          "2 pi / period, so that W^period = 1",
      .source = "arXiv 2312.16045, Section 4.1, periodic domains",
      .departure = "",
      .options = {base_option("base of RoPE's angles, to which the turns come nearest"),
                  {"period", 64, "tokens after which positions repeat", {}, 1, 1e9}},
      .under_shift = {UnderShift::Kind::stays,
                      "the matrices of query and key leave one power of their distance"},
      .has_state = true,
  };
  return info;
}

// The orthogonal matrix of a basis (H, d, d): its columns made orthonormal in turn. An orthogonal
// basis stays as it is.
at::Tensor orthonormal(const at::Tensor& basis) {
  const auto [q, r] = at::linalg_qr(basis);
  return q * r.diagonal(0, -2, -1).sign().unsqueeze(-2);
}

class ApePeriodic final : public Encoding {
 public:
  ApePeriodic(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (head_dim_ % 2 != 0 || kv_heads_ != heads_) {
      throw formats::bad_input(
          "ape_periodic needs an even head size and a key head for every head");
    }
  }

  const EncodingInfo& info() const override { return ape_periodic_info(); }

  // The turns are whole numbers.
  std::vector<ParameterSpec> shared_parameters() const override {
    const double period = static_cast<double>(integer("period"));
    const at::Tensor nearest = (rope_frequencies(number("base"), head_dim_, at::kDouble) *
                                (period / (2 * std::numbers::pi)))
                                   .round();
    return {{.name = "basis",
             .shape = {heads_, head_dim_, head_dim_},
             .decays = false,
             .start = at::eye(head_dim_, at::kDouble)},
            {.name = "turns",
             .shape = {heads_, head_dim_ / 2},
             .trainable = false,
             .decays = false,
             .start = nearest}};
  }

  // The state's table is P.
  PositionState start(const StartContext& context) const override {
    const at::Tensor places = position_ids(context).to(at::kDouble) * step_;
    const at::Tensor ids = places.remainder(static_cast<double>(integer("period")));
    const at::Tensor turns = context.shared->at("turns").to(context.angle_dtype);  // (H, d/2)
    const double angle = 2 * std::numbers::pi / static_cast<double>(integer("period"));
    const at::Tensor by_text = ids.dim() == 2 ? ids : ids.unsqueeze(0);
    const at::Tensor angles = by_text.unsqueeze(1).unsqueeze(-1).to(context.angle_dtype) *
                              turns.unsqueeze(1) * angle;  // (B or 1, H, N, d/2)
    PositionState state{context.positions, turned(angles, context.dtype)};
    // In float64, as powers of matrices are: LAPACK has no 16 bits either.
    state.table = orthonormal(context.shared->at("basis").to(at::kDouble)).to(context.dtype);
    return state;
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  // P in front of both cancels: (P Q^i P^T q).(P Q^j P^T k) = (Q^i P^T q).(Q^j P^T k).
  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    program.transform(rotate(at::matmul(q, state.table), state.z, RotationLayout::interleaved),
                      rotate(at::matmul(k, state.table), state.z, RotationLayout::interleaved));
    return program;
  }

  // The basis on both sides, then the rotation.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {token_cost("change of basis", s, 2 * s.heads * s.head_dim * s.head_dim),
            rotation_cost(s)};
  }
};

std::unique_ptr<Encoding> make_ape_periodic(const Json& options, const ModelConfig& model) {
  return std::make_unique<ApePeriodic>(options, model);
}

}  // namespace

EncodingEntry ape_periodic_entry() { return {&ape_periodic_info(), &make_ape_periodic}; }

}  // namespace phasescope::model
