#include "analysis/theory/cape_cost.h"

#include <algorithm>
#include <cmath>

#include "analysis/statistics.h"
#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"
#include "model/checkpoints/open_model.h"
#include "model/encoding_cost.h"

namespace phasescope::analysis {
namespace {

constexpr double kCapeCostBound = 1e-9;

double slope_of(const std::vector<double>& sizes, const std::function<double(double)>& count) {
  std::vector<double> x, y;
  for (const double size : sizes) x.push_back(std::log(size)), y.push_back(std::log(count(size)));
  return fit_line(x, y).slope;
}

// Beside attention's own 2 H N^2 d.
CheckCurve counts_by_tokens(const std::string& form, double heads, double hidden, double head_dim) {
  CheckCurve curve =
      curve_of("multiply-accumulates a layer", {"tokens", "count", true, true}, {}, {});
  for (const double tokens : {128., 512., 2048., 8192.}) {
    curve.x.push_back(tokens);
    curve.y.push_back(encoding_macs(form)({tokens, heads, hidden}));
    curve.bound.push_back(2 * heads * tokens * tokens * head_dim);
  }
  return curve;
}

CheckResult all_forms() {
  double worst = 0;
  bool hold = true;
  std::string detail;
  for (const char* form : {"concat", "concat_residual", "add_residual", "content", "conv"}) {
    const CheckResult one = judge_cost(encoding_macs(form), cape_constant(form));
    hold = hold && one.verdict == "holds";
    worst = worst_of(worst, *one.value);
    detail += std::string(detail.empty() ? "" : "; ") + form + ": " + one.detail;
  }
  for (const PublishedTime& time : published_times()) {
    detail += "; the paper's " + time.base + " at 2048 tokens: " + short_number(time.a_unit()) +
              " ms a unit of D and " + short_number(time.at_zero()) + " ms at D = 0";
  }
  CheckResult result =
      answer(hold ? Verdict::holds : Verdict::fails, {worst, kCapeCostBound, 0, 5}, detail);
  result.curves = {counts_by_tokens("concat_residual", 12, 32, 64)};
  return result;
}

CheckResult run_cape_cost(const CheckContext& context) {
  if (context.model == nullptr) return all_forms();
  if (context.model->config().encoding.key != "cape") {
    return not_measured(Verdict::premise_not_met,
                        "premise: scores that CAPE corrects; this model's encoding is " +
                            context.model->config().encoding.key);
  }
  const std::string form = context.model->encoding().options().at("form");
  const double hidden = context.model->encoding().options().at("hidden").get<double>();
  CheckResult result = judge_cost(encoding_macs(form), cape_constant(form));
  result.detail = form + ": " + result.detail + "; against attention's own 2 H N^2 d it is " +
                  short_number(cape_constant(form) * hidden /
                               (2 * static_cast<double>(context.model->config().head_dim)));
  result.curves = {counts_by_tokens(form, static_cast<double>(context.model->config().heads),
                                    hidden, static_cast<double>(context.model->config().head_dim))};
  return result;
}

}  // namespace

CapeMacs encoding_macs(const std::string& form) {
  return [form](const CapeSizes& sizes) {
    model::ModelConfig config;
    config.heads = config.kv_heads = static_cast<std::int64_t>(sizes.heads);
    config.head_dim = 64, config.width = config.heads * config.head_dim;
    config.encoding = {"cape",
                       {{"form", form}, {"hidden", static_cast<std::int64_t>(sizes.hidden)}}};
    model::CostSizes cost;
    cost.tokens = sizes.tokens, cost.layers = 1, cost.heads = cost.kv_heads = sizes.heads;
    cost.head_dim = 64, cost.width = static_cast<double>(config.width);
    cost.all_pairs = sizes.pairs(), cost.seen_pairs = sizes.tokens * (sizes.tokens + 1) / 2;
    double macs = 0;
    for (const model::EncodingCost& part : model::make_encoding(config)->cost(cost)) {
      if (part.name == "correction of the scores") macs += part.published_macs;
    }
    return macs;
  };
}

double cape_constant(const std::string& form) {
  if (form == "conv") return 9;
  return form == "concat" || form == "concat_residual" ? 3 : 2;
}

CostFit fit_cost(const CapeMacs& macs) {
  CostFit fit;
  fit.tokens = slope_of({128, 512, 2048, 8192}, [&](double n) { return macs({n, 12, 32}); });
  fit.heads = slope_of({4, 8, 12, 16}, [&](double h) { return macs({512, h, 32}); });
  fit.hidden = slope_of({4, 16, 32, 64}, [&](double d) { return macs({512, 12, d}); });
  double low = 1e300, high = 0;
  for (const CapeSizes& s : {CapeSizes{128, 4, 4}, {512, 12, 32}, {2048, 8, 16}, {8192, 16, 64}}) {
    const double c = macs(s) / (s.heads * s.hidden * s.pairs());
    low = std::min(low, c), high = std::max(high, c);
  }
  fit.constant = low, fit.spread = high - low;
  return fit;
}

CheckResult judge_cost(const CapeMacs& macs, double constant) {
  const CostFit fit = fit_cost(macs);
  const double off =
      std::max({std::abs(fit.tokens - 2), std::abs(fit.heads - 1), std::abs(fit.hidden - 1),
                std::abs(fit.constant - constant), fit.spread});
  return answer_below(
      {off, kCapeCostBound, 0, 12},
      "exponents of N, H, D " + short_number(fit.tokens) + ", " + short_number(fit.heads) + ", " +
          short_number(fit.hidden) + ", c = " + short_number(fit.constant) + " (spread " +
          short_number(fit.spread) + "), which should be 2, 1, 1 and " + short_number(constant));
}

std::vector<PublishedTime> published_times() {
  return {{"CAPE-Alibi", 463.00, 1685.45, 1950.39},
          {"CAPE-Kerple", 463.74, 1683.95, 1950.80},
          {"CAPE-FIRE", 734.01, 2192.95, 2457.05}};
}

TheoryCheck cape_cost() {
  return {{.id = "cape.cost",
           .statement = "f adds c H D P multiply-accumulates a layer, P the pairs: c = 3 where it "
                        "reads content and bias, 2 where it reads one, 9 for conv.",
           .source = "arXiv 2405.14722, Section 3.2, O(h N^2 D), corrected, and Table 1",
           .title = "What CAPE's correction costs",
           .needs = "nothing, or a CAPE model",
           .rule = "holds where exponents fitted to what the encoding counts are 2, 1, 1 and c is "
                   "constant, to 1e-9; the published times are numbers without verdict"},
          &run_cape_cost,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
