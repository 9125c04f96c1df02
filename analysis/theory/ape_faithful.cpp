#include "analysis/theory/ape_faithful.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/theory/verdicts.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kFar = 1'000'000;

CheckResult of_words(const Matrices& branches);

CheckResult run_ape_faithful(const CheckContext& context) {
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  if (generators.kind == "tree") return of_words(generators.matrices);
  std::vector<std::vector<double>> heads;
  for (const at::Tensor& w : generators.matrices) heads.push_back(canonical_form(w).angles);
  // Every head of a model, in seconds.
  CheckResult result = judge_faithful(heads, context.model == nullptr ? kFar : 1 << 17);
  if (generators.kind == "periodic") {
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail = "premise: positions that do not repeat; these do after " +
                    std::to_string(generators.period) + ". Measured all the same: " + result.detail;
  }
  return result;
}

// Reduced words of the first two branches and their inverses, up to `length` letters.
struct Word {
  std::string name;
  int last = -1;
  at::Tensor map;
};

void extend(std::vector<Word>& words, const Matrices& letters, Word& nearest, double& least) {
  static constexpr int kInverse[] = {1, 0, 3, 2};
  std::vector<Word> longer;
  const at::Tensor identity = power_of(letters[0], 0);
  for (const Word& word : words) {
    for (int c = 0; c < 4; ++c) {
      if (word.last >= 0 && c == kInverse[word.last]) continue;
      Word& next = longer.emplace_back();
      next.name = word.name + "aAbB"[c];
      next.last = c;
      next.map = word.map.matmul(letters[static_cast<std::size_t>(c)]);
      const double distance = spectral_norm(next.map - identity);
      if (distance < least - 1e-12) least = distance, nearest = next;
    }
  }
  words = std::move(longer);
}

CheckResult of_words(const Matrices& branches) {
  constexpr int kLetters = 6;
  const at::Tensor &a = branches.at(0), &b = branches.at(branches.size() > 1 ? 1 : 0);
  const Matrices letters = {a, a.t(), b, b.t()};
  std::vector<Word> words = {{"", -1, power_of(a, 0)}};
  Word nearest;
  double least = 3;
  std::int64_t tried = 0;
  CheckCurve curve =
      curve_of("nearest word", {"letters at most", "spectral norm of W - I", false, true}, {}, {});
  for (int n = 0; n < kLetters; ++n) {
    extend(words, letters, nearest, least);
    tried += std::ssize(words);
    curve.x.push_back(n + 1), curve.y.push_back(least);
  }
  const double bound = power_rounding(a.size(0), kLetters);
  curve.bound.assign(curve.x.size(), bound);
  CheckResult result =
      answer(least > bound ? Verdict::holds : Verdict::fails, {least, bound, bound, tried},
             "the reduced word nearest to I of up to " + std::to_string(kLetters) + " letters is " +
                 nearest.name + " (capitals are inverses), at " + short_number(least));
  result.curves = {std::move(curve)};
  return result;
}

double rounding_of(std::size_t planes, std::int64_t p) {
  return power_rounding(2 * static_cast<std::int64_t>(planes), static_cast<double>(p));
}

}  // namespace

double return_distance(const std::vector<double>& angles, std::int64_t p) {
  double largest = 0;
  for (const double angle : angles) {
    largest = std::max(largest, std::abs(std::sin(static_cast<double>(p) * angle / 2)));
  }
  return 2 * largest;
}

double return_distance_frobenius(const std::vector<double>& angles, std::int64_t p) {
  double sum = 0;
  for (const double angle : angles) {
    sum += std::pow(std::sin(static_cast<double>(p) * angle / 2), 2);
  }
  return std::sqrt(8 * sum);
}

NearestReturn nearest_return(const std::vector<double>& angles, std::int64_t last) {
  NearestReturn out;
  for (std::int64_t p = 1; p <= last; ++p) {
    const double distance = return_distance(angles, p);
    if (out.exact == 0 && distance < rounding_of(angles.size(), p)) out.exact = p;
    if (distance < out.distance) out.distance = distance, out.at = p;
  }
  return out;
}

double dirichlet_bound(std::int64_t last, std::size_t planes) {
  const double share = std::pow(static_cast<double>(last), -1 / static_cast<double>(planes));
  return 2 * std::sin(std::numbers::pi * std::min(0.5, share));
}

CheckResult judge_faithful(const std::vector<std::vector<double>>& heads, std::int64_t last) {
  NearestReturn worst;
  double nearest_neighbour = 3;
  std::size_t head = 0, which = 0;
  std::int64_t exact = 0;
  std::vector<CheckCurve> curves;
  for (const std::vector<double>& angles : heads) {
    const NearestReturn got = nearest_return(angles, last);
    nearest_neighbour = std::min(nearest_neighbour, return_distance(angles, 1));
    if (exact == 0) exact = got.exact;
    if (got.distance < worst.distance) worst = got, which = head;
    CheckCurve& curve = curves.emplace_back(curve_of("nearest up to p, W " + std::to_string(head),
                                                     {"p", "|W^p - I|", true, true}, {}, {}));
    for (std::int64_t end = 10; end <= last; end *= 10) {
      curve.x.push_back(static_cast<double>(end));
      curve.y.push_back(nearest_return(angles, end).distance);
      curve.bound.push_back(dirichlet_bound(end, angles.size()));
    }
    ++head;
  }
  const double bound = rounding_of(heads[which].size(), worst.at);
  CheckResult result = answer(
      exact == 0 ? Verdict::holds : Verdict::fails,
      {worst.distance, bound, bound, static_cast<std::int64_t>(heads.size())},
      "up to " + std::to_string(last) + " the nearest power to I is W^" + std::to_string(worst.at) +
          ", at " + short_number(worst.distance) + " (any angles come within " +
          short_number(dirichlet_bound(last, heads[which].size())) + "); neighbours differ by " +
          short_number(nearest_neighbour) + " at least" +
          (exact == 0 ? "" : "; W^" + std::to_string(exact) + " = I: positions repeat"));
  result.curves = std::move(curves);
  return result;
}

TheoryCheck ape_faithful() {
  return {{.id = "ape.faithful",
           .statement = "Positions p apart are told apart by W^p: W^p differs from I for every p > "
                        "0. Near returns cannot be avoided: some p <= N has |W^p - I| <= 2 sin(pi "
                        "N^(-2/d)).",
           .source = "arXiv 2312.16045, Section 3.1, footnote 1, corrected",
           .title = "Different positions have different maps",
           .needs = "nothing, or an APE model",
           .rule = "holds where the smallest |W^p - I| up to N exceeds 4 d p 2^-53 in every head; "
                   "fails naming the period; premise not met for periodic positions"},
          &run_ape_faithful,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
