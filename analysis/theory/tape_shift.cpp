#include "analysis/theory/tape_shift.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "analysis/worst.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kTapeShiftTokens = 128;
constexpr std::int64_t kShifts[] = {1, 3, 16, 1000, 1000000};

TextPass pass_at(const std::shared_ptr<const model::Model>& model, const at::Tensor& ids,
                 std::int64_t shift, std::optional<at::ScalarType> angles = {}) {
  model::ForwardOptions options;
  options.angle_dtype = angles;
  options.backend = model::Backend::plain;  // one order of summation for both runs
  options.shift = shift;
  return {model, ids, options};
}

// One model in float64, in float64 on float32's angles and their sines, and in float32, without a
// shift.
class ShiftRuns {
 public:
  ShiftRuns(std::shared_ptr<const model::Model> model, at::Tensor ids)
      : model_(std::move(model)),
        model64_(in_float64(model_)),
        ids_(std::move(ids)),
        exact_(pass_at(model64_, ids_, 0)),
        single_(pass_at(model_, ids_, 0)),
        rounded_(pass_at(model64_, ids_, 0, at::kFloat)) {}

  ShiftMeasurement at(std::int64_t shift) {
    TextPass exact = pass_at(model64_, ids_, shift), single = pass_at(model_, ids_, shift);
    TextPass rounded = pass_at(model64_, ids_, shift, at::kFloat);
    return {shift, residuals_of(exact_, exact), residuals_of(rounded_, rounded),
            residuals_of(single_, single)};
  }
  const TextPass& pass() const { return single_; }

 private:
  std::shared_ptr<const model::Model> model_, model64_;
  at::Tensor ids_;
  TextPass exact_, single_, rounded_;
};

CheckCurve shift_curve(const std::string& label) {
  return {label, "shift of all position ids", "largest residual", true, true, {}, {}, {}};
}

double explained(const ShiftMeasurement& m, const Residuals& noise, double Residuals::*part) {
  return 3 * (m.float64_on_float32_angles.*part + noise.*part);
}

// The largest of a float32 residual over what explains it; above 1 fails.
double float32_excess(const ShiftMeasurement& m, const Residuals& noise) {
  double worst = 0;
  for (auto part : {&Residuals::logits, &Residuals::attention, &Residuals::products}) {
    const double allowed = explained(m, noise, part);
    const double residual = m.float32.*part;
    if (residual != 0) worst = worst_of(worst, residual / allowed);
  }
  return worst;
}

CheckResult run_tape_shift(const CheckContext& context) {
  const model::Encoding& encoding = context.model->encoding();
  const bool has_state = encoding.has_state();
  if (is_import(*context.model)) {
    return not_measured(Verdict::premise_not_met,
                        "premise: outputs; of an import the maps alone are known");
  }
  if (!has_state && !encoding.shift_invariant()) {  // a table may have no row for shifted positions
    CheckResult result;
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail =
        "premise: a position state that is updated; this encoding has none, and depends "
        "on the positions themselves";
    return result;
  }
  const at::Tensor ids = first_ids(context, kTapeShiftTokens);
  ShiftRuns runs(context.model, ids);
  std::vector<ShiftMeasurement> measured;
  try {
    for (const std::int64_t shift : kShifts) {
      context.progress->throw_if_cancelled();
      context.progress->progress(static_cast<double>(measured.size()) / 6,
                                 "shifting by " + std::to_string(shift));
      measured.push_back(runs.at(shift));
    }
    const model::AllRan& ran = runs.pass().kernels();
    if (context.kernels != nullptr) context.kernels->insert(ran.begin(), ran.end());
  } catch (const formats::Error& error) {
    if (error.code() != "bad_input") throw;
    CheckResult refused;
    refused.verdict = name_of(Verdict::premise_not_met);
    refused.detail = "positions cannot be shifted: " + error.message();
    return refused;
  }
  CheckResult result = judge_shift(measured, rounding_noise(context, ids));
  if (!context.model->config().head.present) {
    result.detail += "; the model has no head: logits stands for its last hidden states";
  }
  if (!has_state) {
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail =
        "premise: a position state that is updated; this encoding has none. Measured "
        "all the same: " +
        result.detail;
  }
  return result;
}

}  // namespace

double shift_bound(std::int64_t shift) {
  return std::max(1e-10, 64 * static_cast<double>(shift) * 0x1p-53);
}

CheckResult judge_shift(const std::vector<ShiftMeasurement>& measured, const Residuals& noise) {
  CheckResult result;
  CheckCurve exact = shift_curve("float64"), single = shift_curve("float32");
  double worst64 = 0, worst32 = 0;
  for (const ShiftMeasurement& m : measured) {
    const double residual = m.float64.largest(), bound = shift_bound(m.shift);
    exact.x.push_back(static_cast<double>(m.shift));
    exact.y.push_back(residual), exact.bound.push_back(bound);
    single.x.push_back(static_cast<double>(m.shift));
    single.y.push_back(m.float32.logits);
    single.bound.push_back(explained(m, noise, &Residuals::logits));
    worst32 = worst_of(worst32, float32_excess(m, noise));
    const double excess = residual / bound;
    const bool told = std::isnan(worst64) || (excess <= worst64 && !result.detail.empty());
    worst64 = worst_of(worst64, excess);
    if (!told) {
      result.value = residual, result.bound = bound;
      result.detail = "float64: largest residual " + short_number(residual) + " at shift " +
                      std::to_string(m.shift) + " (logits " + short_number(m.float64.logits) +
                      ", attention " + short_number(m.float64.attention) + ", PE products " +
                      short_number(m.float64.products) + ")";
    }
  }
  const ShiftMeasurement& last = measured.back();
  result.noise = noise.largest();
  result.detail += "; float32 logits at " + std::to_string(last.shift) + ": " +
                   short_number(last.float32.logits) +
                   ", of which rounded angles and their sines explain " +
                   short_number(last.float64_on_float32_angles.logits) +
                   " and the rounding of sums " + short_number(noise.logits);
  const bool holds = worst64 <= 1 && worst32 <= 1;
  result.verdict = name_of(holds ? Verdict::holds : Verdict::fails);
  result.samples = static_cast<std::int64_t>(measured.size());
  result.curves = {std::move(exact), std::move(single)};
  return result;
}

TheoryCheck tape_shift() {
  return {
      {"tape.shift",
       "Under a shift of all position ids the logits, every layer's attention and every layer's "
       "PE dot products stay what they are.",
       "arXiv 2501.00712, Proposition 4.2", "Positions may start anywhere",
       "a model whose positions layers update, and a text",
       "holds where every float64 residual is below max(1e-10, 64 s 2^-53), and float32's below 3 "
       "times what rounded angles, their sines and the rounding of sums explain"},
      &run_tape_shift,
      On::model,
      {},
      true};
}

}  // namespace phasescope::analysis
