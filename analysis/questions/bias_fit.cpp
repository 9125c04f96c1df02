#include "analysis/questions/bias_fit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/questions/common.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr double kFirstStep = 0.3;   // its largest entry
constexpr double kHidden = -20;      // in place of -inf, so that a fit can bring keys back
constexpr std::size_t kMemory = 10;  // pairs of L-BFGS

struct Value {
  double loss = 0;
  at::Tensor gradient;
};

// Limited-memory BFGS (Liu and Nocedal 1989), two-loop recursion, Armijo backtracking by halves.
class Descent {
 public:
  // -H g.
  at::Tensor direction(const at::Tensor& gradient) const {
    at::Tensor q = gradient.clone();
    std::vector<double> alphas;
    for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
      alphas.push_back(dot(pair->s, q) / dot(pair->s, pair->y));
      q = q - alphas.back() * pair->y;
    }
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      q = q * (dot(last.s, last.y) / dot(last.y, last.y));
    }
    for (const Pair& pair : pairs_) {
      const double beta = dot(pair.y, q) / dot(pair.s, pair.y);
      q = q + (alphas.back() - beta) * pair.s;
      alphas.pop_back();
    }
    return -q;
  }

  void add(const at::Tensor& s, const at::Tensor& y) {
    if (dot(s, y) <= 1e-10 * std::sqrt(dot(s, s) * dot(y, y))) return;
    pairs_.push_back({s, y});
    if (pairs_.size() > kMemory) pairs_.pop_front();
  }

  bool empty() const { return pairs_.empty(); }

  static double dot(const at::Tensor& a, const at::Tensor& b) {
    return (a * b).sum().item<double>();
  }

 private:
  struct Pair {
    at::Tensor s, y;
  };
  std::deque<Pair> pairs_;
};

class BiasFit {
 public:
  BiasFit(const model::Model& model, const Texts& texts, const std::vector<std::int64_t>& edges,
          const FitOptions& options, model::AllRan& kernels, protocol::Progress& progress)
      : model_(model),
        edges_(edges),
        options_(options),
        kernels_(kernels),
        progress_(progress),
        draws_(options.seed) {
    for (std::size_t n = 0; n < texts.items.size(); ++n) {
      (n % 4 == 0 ? fit_ : n % 4 == 1 ? choose_ : test_).push_back(texts.items[n].ids);
    }
  }

  FittedBias run() {
    const at::NoGradGuard no_gradients;
    const at::Tensor none = at::zeros(shape(), at::kDouble);
    best_ = none;
    begin_stage(0, "fitting a bias", choose_.size() + fit_.size());
    report_.choose.push_back(loss_on(choose_, none));
    descend(start());
    // Without a bias, with it, and with two windows.
    begin_stage(options_.steps + 1, "measuring the bias", 4 * test_.size());
    const Losses before = losses_on(test_, {}), after = losses_on(test_, {best_, edges_});
    report_.before = mean_of(before), report_.after = mean_of(after);
    report_.change = change_of(before, after);
    for (const std::int64_t window : {model_.config().context / 2, model_.config().context}) {
      if (window > 0) add_window(window, before, after);
    }
    judge();
    const at::Tensor table = best_ - best_.narrow(2, 0, 1);
    return {{table, edges_}, std::move(report_)};
  }

 private:
  // Sums over the rows of each text, in bits.
  struct Losses {
    std::vector<double> bits, rows;
  };

  std::vector<std::int64_t> shape() const {
    return {model_.config().layers, model_.config().heads,
            static_cast<std::int64_t>(edges_.size())};
  }

  // Buckets that begin at the window or beyond are hidden.
  at::Tensor hidden_from(std::int64_t window, double value) const {
    at::Tensor table = at::zeros(shape(), at::kDouble);
    for (std::size_t n = 0; n < edges_.size(); ++n) {
      if (edges_[n] >= window) table.select(2, static_cast<std::int64_t>(n)).fill_(value);
    }
    return table;
  }
  at::Tensor start() const {
    return options_.start_window > 0 ? hidden_from(options_.start_window, kHidden)
                                     : at::zeros(shape(), at::kDouble);
  }

  void descend(at::Tensor here) {
    Descent descent;
    Value now = value_of(here);
    // A start of its own is a step that can be chosen.
    if (options_.start_window > 0) keep_if_best(here);
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      // A loss and a gradient on those that are fitted to, where the first step is short enough.
      begin_stage(step + 1, "fitting a bias, step " + std::to_string(step + 1),
                  2 * fit_.size() + choose_.size());
      at::Tensor direction = descent.direction(now.gradient);
      if (descent.empty()) {
        const double largest = now.gradient.abs().max().item<double>();
        if (!(largest > 0)) return;
        direction = direction * (kFirstStep / largest);
      }
      const auto [next, value] = along(here, direction, now);
      if (!next.defined()) return;
      descent.add(next - here, value.gradient - now.gradient);
      here = next, now = value;
      keep_if_best(here);
    }
  }

  struct Found {
    at::Tensor at;
    Value value;
  };
  // The first of the direction's halves that lowers the loss enough; undefined where none does.
  Found along(const at::Tensor& from, const at::Tensor& direction, const Value& now) {
    const double slope = Descent::dot(now.gradient, direction);
    double length = 1;
    constexpr int kMost = 20;
    for (int n = 0; n < kMost; ++n, length /= 2) {
      const at::Tensor next = from + length * direction;
      if (loss_on(fit_, next) <= now.loss + 1e-4 * length * slope) return {next, value_of(next)};
    }
    return {};
  }

  void keep_if_best(const at::Tensor& table) {
    report_.choose.push_back(loss_on(choose_, table));
    const auto best = std::ranges::min_element(report_.choose);
    if (best != report_.choose.end() - 1) return;
    report_.step = static_cast<std::int64_t>(report_.choose.size()) - 1;
    best_ = table;
  }

  // Stage 0 is before all steps, and the last one behind them; `passes`: about how many it takes.
  void begin_stage(std::int64_t stage, std::string words, std::size_t passes) {
    progress_.throw_if_cancelled();
    stage_ = static_cast<double>(stage), doing_ = std::move(words);
    expected_ = static_cast<double>(passes), passes_ = 0;
  }

  TextDemand pass_of(const Ids& ids, const DistanceBias& bias, bool demand) {
    const auto stages = static_cast<double>(options_.steps + 2);
    protocol::PartOfProgress stage(progress_, stage_ / stages, (stage_ + 1) / stages);
    protocol::PartOfProgress part = part_of_pass(stage, passes_++, expected_);
    part.progress(0, doing_);
    return demand_of(model_, ids, bias, {options_.backend, demand, &kernels_, &part, doing_});
  }

  Value value_of(const at::Tensor& table) {
    Value value;
    at::Tensor sum = at::zeros(shape(), at::kDouble);
    double rows = 0;
    for (const Ids& ids : fit_) {
      const TextDemand text = pass_of(ids, {table, edges_}, true);
      value.loss += text.loss, rows += text.rows;
      sum = sum - by_bucket(text.demand, edges_);
    }
    value.loss /= rows;
    value.gradient = sum / rows;
    return value;
  }

  Losses losses_on(const std::vector<Ids>& texts, const DistanceBias& bias) {
    Losses losses;
    for (const Ids& ids : texts) {
      const TextDemand text = pass_of(ids, bias, false);
      losses.bits.push_back(text.loss), losses.rows.push_back(text.rows);
    }
    return losses;
  }
  double loss_on(const std::vector<Ids>& texts, const at::Tensor& table) {
    return mean_of(losses_on(texts, {table, edges_})).mean;
  }

  Interval mean_of(const Losses& losses) const { return bounded(kFromZero, ratio_of(losses)); }
  Interval ratio_of(const Losses& losses) const {
    std::vector<Part> parts;
    for (std::size_t n = 0; n < losses.bits.size(); ++n) {
      parts.push_back({losses.bits[n], losses.rows[n]});
    }
    return ratio_interval(parts, draws_);
  }
  // Text by text.
  Interval change_of(const Losses& before, const Losses& after) const {
    Losses change = after;
    for (std::size_t n = 0; n < change.bits.size(); ++n) change.bits[n] -= before.bits[n];
    return ratio_of(change);
  }

  void add_window(std::int64_t window, const Losses& before, const Losses& fitted) {
    const double hidden = -std::numeric_limits<double>::infinity();
    at::Tensor table = at::zeros({model_.config().layers, model_.config().heads, 2}, at::kDouble);
    table.select(2, 1).fill_(hidden);
    const Losses hiding = losses_on(test_, {table, {0, window}});
    report_.windows.push_back({window, change_of(before, hiding), change_of(fitted, hiding)});
  }

  void judge() {
    const Interval& change = report_.change;
    report_.helps = report_.step > 0 && change.high.has_value() && *change.high < 0;
    if (!report_.helps) {
      report_.why = "no bias by distance helps on texts it was not fitted to";
      return;
    }
    for (const protocol::DemandWindow& one : report_.windows) {
      if (!(one.over_fit.mean < 0)) continue;
      const bool sure = one.over_fit.high.has_value() && *one.over_fit.high < 0;
      report_.why = "a window of " + std::to_string(one.window) + " tokens lowers the loss " +
                    (sure ? "more: the fit is not the best repair"
                          : "as much, as far as these texts tell: the fit is no better repair");
    }
  }

  const model::Model& model_;
  const std::vector<std::int64_t>& edges_;
  const FitOptions& options_;
  model::AllRan& kernels_;
  protocol::Progress& progress_;
  Draws draws_;
  std::vector<Ids> fit_, choose_, test_;
  at::Tensor best_;
  double stage_ = 0, expected_ = 1;
  std::int64_t passes_ = 0;  // of the stage
  std::string doing_;
  protocol::DemandFit report_;
};

}  // namespace

FittedBias fit_bias(const model::Model& model, const Texts& texts,
                    const std::vector<std::int64_t>& edges, const FitOptions& options,
                    model::AllRan& kernels, protocol::Progress& progress) {
  if (texts.items.size() < kFewestTextsToFit) {
    throw formats::bad_input(
        "a bias is fitted on some texts, chosen on others and measured on others "
        "again, which takes 12 texts, and there are " +
            std::to_string(texts.items.size()),
        "texts", "give 12 or more");
  }
  return BiasFit(model, texts, edges, options, kernels, progress).run();
}

}  // namespace phasescope::analysis
