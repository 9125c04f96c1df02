#include "analysis/theory/tape_real_shift.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/random.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kTapeRealShiftTokens = 48;

// z (..., N, 2, M) turned by angles (N or 1, M).
at::Tensor turned(const at::Tensor& z, const at::Tensor& angles) {
  const at::Tensor c = at::cos(angles), s = at::sin(angles);
  const at::Tensor re = z.select(-2, 0), im = z.select(-2, 1);
  return at::stack({re * c - im * s, re * s + im * c}, -2);
}

at::Tensor frequencies_of(const model::Decoder& decoder, std::int64_t tokens) {
  return decoder.encoding().frequencies(start_context(decoder, tokens, at::kDouble));
}

at::Tensor last_state(TextPass& pass) {
  at::Tensor last;
  pass.visit_positions(
      [&last](std::int64_t, const model::PositionState& state) { last = state.z; });
  return last;
}

TextPass pass_from(const std::shared_ptr<const model::Model>& model, const at::Tensor& ids,
                   const at::Tensor& state) {
  model::ForwardOptions options;
  options.backend = model::Backend::plain;
  options.initial_state = state;
  return TextPass(model, ids, options);
}

CheckResult run_tape_real_shift(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  const model::Decoder& decoder = context.model->decoder;
  const model::Encoding& encoding = decoder.encoding();
  const bool fixed = !encoding.has_state() || !frequencies_of(decoder, 2).defined();
  if (fixed || encoding.options().value("tensor_form", "LR22") != std::string("LR22")) {
    return not_measured(Verdict::premise_not_met,
                        "premise: a state of one complex number a token, head and plane; this "
                        "model's encoding has none");
  }
  const at::Tensor ids = first_ids(context, kTapeRealShiftTokens);
  const auto model64 = in_float64(context.model);
  std::vector<RealShift> shifts;
  for (const double shift : {0.5, 1.0 / 3, -7.25, std::numbers::pi, 1000.1, 1e6 + 0.5}) {
    context.progress->throw_if_cancelled();
    context.progress->progress(static_cast<double>(shifts.size()) / 6,
                               "shifting by " + short_number(shift));
    shifts.push_back(measure_real_shift(model64, ids, shift, start_at, context.seed));
  }
  CheckResult result = judge_real_shifts(shifts);
  const RealShift single = measure_real_shift(context.model, ids, 0.5, start_at, context.seed);
  result.noise = rounding_noise(context, ids).largest();
  result.detail += "; float32 at 1/2: " + short_number(single.moved.largest()) +
                   " (rounding of sums: " + short_number(*result.noise) + ")";
  // Angles and their sines are rounded too, by as much as a sum.
  if (!(single.moved.largest() <= 6 * *result.noise)) result.verdict = name_of(Verdict::fails);
  return result;
}

}  // namespace

at::Tensor start_at(const model::Decoder& decoder, const at::Tensor& positions) {
  const std::int64_t tokens = positions.size(0);
  const at::Tensor z =
      decoder.encoding().start(start_context(decoder, tokens, at::kDouble)).z.to(at::kDouble);
  const at::Tensor off = (positions - at::arange(tokens, at::kDouble)).unsqueeze(1);
  return turned(z, off.to(z.device()) * frequencies_of(decoder, tokens)).to(decoder.dtype());
}

double RealShift::largest() const {
  return worst_of(worst_of(moved.largest(), irregular), worst_of(enters, leaves));
}

RealShift measure_real_shift(const std::shared_ptr<const model::Model>& model,
                             const at::Tensor& ids, double shift, StartAt start,
                             std::uint64_t seed) {
  const model::Decoder& decoder = model->decoder;
  const std::int64_t tokens = ids.size(1);
  const at::Tensor whole = at::arange(tokens, at::kDouble);
  at::Tensor irregular = at::empty({tokens}, at::kDouble);
  Random random(seed);
  for (std::int64_t n = 0; n < tokens; ++n) irregular[n] = 40 * random.uniform();
  irregular = std::get<0>(irregular.sort());
  const at::Tensor angle = (shift * frequencies_of(decoder, tokens)).unsqueeze(0);
  RealShift out;
  out.shift = shift;
  const at::Tensor base = start(decoder, whole), moved = start(decoder, whole + shift);
  const auto off = [&](const at::Tensor& got, const at::Tensor& from) {
    return relative_difference(got.to(at::kDouble), turned(from.to(at::kDouble), angle));
  };
  out.enters = off(moved, base);
  TextPass here = pass_from(model, ids, base), there = pass_from(model, ids, moved);
  out.moved = residuals_of(here, there);
  out.leaves = off(last_state(there), last_state(here));
  TextPass odd = pass_from(model, ids, start(decoder, irregular));
  TextPass odd_moved = pass_from(model, ids, start(decoder, irregular + shift));
  out.irregular = residuals_of(odd, odd_moved).largest();
  return out;
}

double real_shift_bound(double shift) { return std::max(1e-10, 64 * std::abs(shift) * 0x1p-53); }

CheckResult judge_real_shifts(const std::vector<RealShift>& shifts) {
  Measured worst{0, 0, 0, static_cast<std::int64_t>(shifts.size())};
  double share = -1;
  std::string detail;
  CheckCurve outputs =
      curve_of("outputs, attention, PE products", {"shift", "residual", true, true}, {}, {});
  CheckCurve states =
      curve_of("states that enter and leave", {"shift", "residual", true, true}, {}, {});
  for (const RealShift& one : shifts) {
    const double bound = real_shift_bound(one.shift), value = one.largest();
    for (CheckCurve* curve : {&outputs, &states}) {
      curve->x.push_back(std::abs(one.shift)), curve->bound.push_back(bound);
    }
    outputs.y.push_back(worst_of(one.moved.largest(), one.irregular));
    states.y.push_back(worst_of(one.enters, one.leaves));
    if (std::isnan(share) || value / bound <= share) continue;
    share = value / bound, worst.value = value, worst.bound = bound;
    detail = "float64 at a shift of " + short_number(one.shift) +
             ": outputs, attention and PE "
             "products move by " +
             short_number(one.moved.largest()) +
             " (irregular positions: " + short_number(one.irregular) +
             "), the states that enter and leave are off their turn by " +
             short_number(one.enters) + " and " + short_number(one.leaves);
  }
  CheckResult result = answer(share <= 1 ? Verdict::holds : Verdict::fails, worst, detail);
  result.curves = {std::move(outputs), std::move(states)};
  return result;
}

TheoryCheck tape_real_shift() {
  return {{.id = "tape.real_shift",
           .statement = "Under a shift of all positions by a real Delta outputs, attention and PE "
                        "dot products stay what they are, and the states that enter and leave turn "
                        "by Delta theta_m.",
           .source = "arXiv 2501.00712, Proposition B.9, corrected",
           .title = "Positions may be moved by any real number",
           .needs = "a TAPE model",
           .rule = "holds where both parts are below max(1e-10, 64 |Delta| 2^-53) in float64 for "
                   "six shifts, at whole and at irregular positions, and float32 at 1/2 within 6 "
                   "times its rounding"},
          &run_tape_real_shift,
          On::model};
}

}  // namespace phasescope::analysis
