#include "analysis/theory/tape_orthogonal.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kTapeOrthogonalBound = 1e-12;

CheckResult run_tape_orthogonal(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  const std::string missing = general_form_missing(*context.model);
  if (!missing.empty()) return not_measured(Verdict::premise_not_met, missing);
  const at::Tensor ids = first_ids(context, 48);
  const auto model64 = in_float64(context.model);
  const double form = general_difference(*model64, ids);
  Random random(context.seed);
  const GeneralTape single = general_tape(*context.model);
  const at::Tensor turn = orthogonal_turns(random, single.planes, 2).back().to(at::kFloat);
  const double float32 = turn_residual(single, general_input(*context.model, ids), turn).largest();
  const double noise = rounding_noise(context, ids).largest();
  CheckResult result = judge_turns(general_tape(*model64), general_input(*model64, ids), float32,
                                   noise, context.seed);
  result.detail += "; the general form is the model to " + short_number(form);
  if (!(form <= 1e-10)) result.verdict = name_of(Verdict::fails), result.value = form;
  return result;
}

}  // namespace

double TurnResidual::largest() const { return worst_of(x, e); }

TurnResidual turn_residual(const GeneralTape& tape, const GeneralInput& input,
                           const at::Tensor& turn) {
  const GeneralState base = run_general(tape, input);
  GeneralInput turned = input;
  turned.e = at::matmul(input.e, turn);
  const GeneralState got = run_general(tape, turned);
  return {relative_difference(got.x, base.x), relative_difference(got.e, at::matmul(base.e, turn))};
}

std::vector<at::Tensor> orthogonal_turns(Random& random, std::int64_t planes,
                                         std::int64_t columns) {
  std::vector<at::Tensor> turns;
  for (int n = 0; n < 6; ++n) turns.push_back(drawn_orthogonal(random, columns, n < 3 ? 1 : -1));
  for (int n = 0; n < 6; ++n) {
    std::vector<at::Tensor> by_plane;
    for (std::int64_t m = 0; m < planes; ++m) {
      by_plane.push_back(drawn_orthogonal(random, columns, random.uniform() < 0.5 ? 1 : -1));
    }
    turns.push_back(at::stack(by_plane));
  }
  // By plane, (M, R, R) against e (N, H, M, L, R).
  return turns;
}

CheckResult judge_turns(const GeneralTape& tape, const GeneralInput& input, double float32,
                        double noise, std::uint64_t seed) {
  Random random(seed);
  const std::int64_t columns = input.e.size(4);
  const std::vector<at::Tensor> turns = orthogonal_turns(random, tape.planes, columns);
  TurnResidual worst;
  CheckCurve curve = curve_of(
      "float64", {"matrix (six for all planes, six by plane)", "residual", false, true}, {}, {});
  for (const at::Tensor& turn : turns) {
    const TurnResidual got = turn_residual(tape, input, turn);
    worst = {worst_of(worst.x, got.x), worst_of(worst.e, got.e)};
    curve.x.push_back(static_cast<double>(curve.x.size())), curve.y.push_back(got.largest());
    curve.bound.push_back(kTapeOrthogonalBound);
  }
  std::vector<at::Tensor> by_head;
  for (std::int64_t h = 0; h < tape.heads; ++h) {
    by_head.push_back(drawn_orthogonal(random, columns));
  }
  const at::Tensor heads = at::stack(by_head).unsqueeze(1);  // (H, 1, R, R)
  const at::Tensor skew = turns[0] + 0.3 * normal_tensor(random, {columns, columns});
  Parts parts;
  parts.below("f(X, E R) - f(X, E), relative", worst.x, kTapeOrthogonalBound);
  parts.below("g(X, E R) - g(X, E) R, relative", worst.e, kTapeOrthogonalBound);
  parts.below("float32", float32, 3 * noise);
  parts.control("R not orthogonal", turn_residual(tape, input, skew).largest(), 1e-9);
  if (tape.heads > 1) parts.report("one R a head", turn_residual(tape, input, heads).largest());
  CheckResult result = parts.result(noise);
  result.samples = static_cast<std::int64_t>(turns.size());
  result.curves = {std::move(curve)};
  return result;
}

TheoryCheck tape_orthogonal() {
  return {{.id = "tape.orthogonal",
           .statement = "f(X, E R) = f(X, E) and g(X, E R) = g(X, E) R for every orthogonal R, "
                        "reflections included: one for all heads and tokens, which may differ by "
                        "plane.",
           .source = "arXiv 2501.00712, Proposition 3.1, Equation 5",
           .title = "One orthogonal matrix changes nothing",
           .needs = "a TAPE model",
           .rule = "holds where twelve matrices, three rotations and three reflections among them, "
                   "move f and g by at most 1e-12 in float64, float32 by at most 3 times its "
                   "rounding, and a matrix that is not orthogonal moves them by more"},
          &run_tape_orthogonal,
          On::model};
}

}  // namespace phasescope::analysis
