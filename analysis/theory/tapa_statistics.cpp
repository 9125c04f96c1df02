#include "analysis/theory/tapa_statistics.h"

#include <cmath>
#include <map>
#include <numbers>

namespace phasescope::analysis {
namespace {

constexpr double kTapaStatisticsTwoPi = 2 * std::numbers::pi;

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TapaPairs tapa_pairs(double lambda, double alpha, const std::vector<double>& amplitude,
                     const std::vector<double>& phi, double damping) {
  TapaPairs out;
  out.distance = lambda;
  out.amplitude = amplitude;
  for (std::size_t n = 0; n < phi.size(); ++n) {
    out.angle.push_back(kTapaStatisticsTwoPi * std::pow(lambda, alpha) * phi[n]);
    out.score.push_back(damping * amplitude[n] * std::cos(out.angle[n]));
  }
  return out;
}

MeanError mean_error(const std::vector<double>& values, const std::vector<std::int64_t>& text) {
  const double mean = mean_of(values);
  const auto count = static_cast<double>(values.size());
  if (text.empty()) {
    double squares = 0;
    for (const double x : values) squares += (x - mean) * (x - mean);
    return {mean, std::sqrt(squares) / count};
  }
  std::map<std::int64_t, double> sums;
  for (std::size_t n = 0; n < values.size(); ++n) sums[text[n]] += values[n] - mean;
  double squares = 0;
  for (const auto& [which, sum] : sums) squares += sum * sum;
  const auto texts = static_cast<double>(sums.size());
  return {mean, std::sqrt(squares * texts / (texts - 1)) / count};
}

TapaRow tapa_row(const TapaPairs& pairs) {
  const std::size_t count = pairs.score.size();
  TapaRow row;
  row.distance = pairs.distance;
  row.amplitude = mean_error(pairs.amplitude, pairs.text);
  row.score = mean_error(pairs.score, pairs.text);
  std::vector<double> cosine(count), squared(count), doubled(count), plain(count);
  for (std::size_t n = 0; n < count; ++n) {
    const double a = pairs.amplitude[n];
    cosine[n] = std::cos(pairs.angle[n]);
    plain[n] = a * cosine[n];
    squared[n] = a * a;
    doubled[n] = a * a * std::cos(2 * pairs.angle[n]);
  }
  row.cosine = mean_error(cosine, pairs.text);
  const double c = mean_of(squared), half = c / 2;
  double variance = 0;
  for (const double s : pairs.score) variance += (s - row.score.mean) * (s - row.score.mean);
  variance /= static_cast<double>(count);
  row.ratio = variance / half;
  row.rest = (mean_of(doubled) / 2 - std::pow(mean_of(plain), 2)) / half;
  row.identity = std::abs(row.ratio - 1 - row.rest);
  std::vector<double> influence(count);
  for (std::size_t n = 0; n < count; ++n) {
    const double deviation = pairs.score[n] - row.score.mean;
    influence[n] = (deviation * deviation - variance) / half - row.ratio * (squared[n] / c - 1);
  }
  row.ratio_error = mean_error(influence, pairs.text).error;
  return row;
}

std::vector<TapaRow> tapa_rows(const std::vector<TapaPairs>& pairs) {
  std::vector<TapaRow> rows;
  for (const TapaPairs& one : pairs) rows.push_back(tapa_row(one));
  return rows;
}

CheckResult over_heads(const std::vector<std::pair<std::string, HeadVerdict>>& heads) {
  std::map<Verdict, std::int64_t> counts;
  const HeadVerdict* chosen = nullptr;
  std::string name;
  // fails before holds before undecided before premise not met.
  const auto rank = [](Verdict verdict) {
    return verdict == Verdict::fails       ? 3
           : verdict == Verdict::holds     ? 2
           : verdict == Verdict::undecided ? 1
                                           : 0;
  };
  std::int64_t samples = 0;
  for (const auto& [head, verdict] : heads) {
    ++counts[verdict.verdict];
    samples += verdict.measured.samples;
    if (chosen != nullptr && rank(verdict.verdict) <= rank(chosen->verdict)) continue;
    chosen = &verdict, name = head;
  }
  if (chosen == nullptr) return not_measured(Verdict::undecided, "no head was measured");
  std::string detail =
      name + ": " + chosen->why + "; of " + std::to_string(heads.size()) + " heads";
  for (const auto& [verdict, count] : counts) {
    detail += std::string(" ") + std::to_string(count) + " " + name_of(verdict);
  }
  CheckResult result = answer(chosen->verdict, chosen->measured, detail);
  result.samples = samples;
  return result;
}

double GaussianPhase::g(double lambda) const {
  const double w = kTapaStatisticsTwoPi * std::pow(lambda, alpha);
  return w * w * std::pow(sigma, 4) / static_cast<double>(dims);
}

double GaussianPhase::mean_cosine(double lambda) const {
  return std::exp(-0.5 * static_cast<double>(dims) * std::log1p(g(lambda)));
}

double GaussianPhase::slope(double lambda) const {
  const double x = g(lambda);
  return -alpha * static_cast<double>(dims) * x / (1 + x);
}

double GaussianPhase::bound(double lambda) const {
  const auto n = static_cast<double>(dims);
  return std::pow(std::sqrt(n) / (kTapaStatisticsTwoPi * sigma * sigma), n) *
         std::pow(lambda, -alpha * n);
}

}  // namespace phasescope::analysis
