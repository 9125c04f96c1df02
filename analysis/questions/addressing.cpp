#include "analysis/questions/addressing.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/questions/by_distance.h"
#include "analysis/questions/common.h"
#include "analysis/tensors.h"
#include "model/attention/repairs.h"

namespace phasescope::analysis {
namespace {

using Vector = std::vector<double>;

// Entry n: the sum of the first n values.
Vector prefix_sums(const double* values, std::int64_t count) {
  Vector sums(static_cast<std::size_t>(count) + 1, 0.0);
  for (std::int64_t n = 0; n < count; ++n) {
    sums[static_cast<std::size_t>(n) + 1] = sums[static_cast<std::size_t>(n)] + values[n];
  }
  return sums;
}

// The normal equations of rows, distances and keys (those two where wanted), each (N), over the
// pairs of a causal triangle within W.
class NormalEquations {
 public:
  NormalEquations(std::int64_t tokens, std::int64_t within, bool distances, bool keys)
      : n_(tokens), w_(within), distances_(distances), keys_(keys) {}

  std::int64_t size() const { return 3 * n_; }
  double row_count(std::int64_t i) const { return static_cast<double>(std::min(i + 1, w_)); }
  double distance_count(std::int64_t d) const { return d < w_ ? static_cast<double>(n_ - d) : 0.0; }
  double key_count(std::int64_t j) const { return static_cast<double>(std::min(n_ - j, w_)); }

  // The counts on the diagonal; 1 for what is not fitted.
  double diagonal(std::int64_t at) const {
    if (at < n_) return row_count(at);
    if (at < 2 * n_) return distances_ && at - n_ < w_ ? distance_count(at - n_) : 1;
    return keys_ ? key_count(at - 2 * n_) : 1;
  }

  Vector times(const Vector& v) const {
    const double* r = v.data();
    const double* t = r + n_;
    const double* c = t + n_;
    const Vector rows = prefix_sums(r, n_), far = prefix_sums(t, n_), keys = prefix_sums(c, n_);
    const auto sum = [](const Vector& sums, std::int64_t begin, std::int64_t end) {
      return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(begin)];
    };
    Vector out(v.size(), 0.0);
    for (std::int64_t i = 0; i < n_; ++i) {
      const auto row = static_cast<std::size_t>(i), distance = static_cast<std::size_t>(n_ + i),
                 key = static_cast<std::size_t>(2 * n_ + i);
      out[row] = row_count(i) * r[i] + sum(far, 0, std::min(i + 1, w_)) +
                 sum(keys, std::max<std::int64_t>(0, i - w_ + 1), i + 1);
      if (distances_ && i < w_) {
        out[distance] = distance_count(i) * t[i] + sum(rows, i, n_) + sum(keys, 0, n_ - i);
      }
      if (keys_) {
        out[key] = key_count(i) * c[i] + sum(rows, i, std::min(n_, i + w_)) +
                   sum(far, 0, std::min(n_ - i, w_));
      }
    }
    return out;
  }

 private:
  std::int64_t n_, w_;
  bool distances_, keys_;
};

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The sum of squares that the effects fit, solution . right side. The equations are singular (the
// effects' constants may be shared out anyhow), and the right side lies in their range, where
// conjugate gradients stay.
double fitted_square(const NormalEquations& equations, const Vector& right) {
  Vector x(right.size(), 0.0), residual = right, scaled(right.size());
  const auto precondition = [&] {
    for (std::int64_t n = 0; n < equations.size(); ++n) {
      const auto at = static_cast<std::size_t>(n);
      scaled[at] = residual[at] / equations.diagonal(n);
    }
  };
  precondition();
  Vector direction = scaled;
  double now = dot(residual, scaled);
  // The squared residual: the fitted sum is off by its square, and a right side that rounding has
  // taken out of the range cannot be followed further.
  const double enough = now * 1e-24;
  constexpr int kMost = 300;  // 18 steps reach 1e-13 at N = 64 to 2048
  for (int step = 0; step < kMost && now > enough; ++step) {
    const Vector product = equations.times(direction);
    const double length = now / dot(direction, product);
    for (std::size_t n = 0; n < x.size(); ++n) {
      x[n] += length * direction[n], residual[n] -= length * product[n];
    }
    precondition();
    const double next = dot(residual, scaled);
    for (std::size_t n = 0; n < x.size(); ++n) {
      direction[n] = scaled[n] + next / now * direction[n];
    }
    now = next;
  }
  return dot(x, right);
}

// The sums over texts that the intervals are made of.
struct HeadParts {
  std::vector<AddressingSums> sums;
  std::vector<double> between_rows;
  double pairs = 0, rows = 0, distances = 0, keys = 0;  // and degrees of freedom
  double within = 0, raw_square = 0;

  void add(const ScoreMarginals& m) {
    sums.push_back(addressing_sums(m));
    between_rows.push_back(m.between_rows);
    pairs += m.pairs(), rows += static_cast<double>(m.tokens);
    distances += static_cast<double>(m.within - 1), keys += static_cast<double>(m.tokens - 2);
    within += m.square, raw_square += m.raw_square;
  }
};

class RowMaker {
 public:
  explicit RowMaker(std::uint64_t seed) : draws_(seed) {}

  protocol::AddressingRow row(std::int64_t layer, std::int64_t head, const HeadParts& parts) const {
    protocol::AddressingRow row;
    row.layer = layer, row.head = head;
    const double freedom = parts.pairs - parts.rows;
    if (parts.distances <= freedom && 0 <= parts.keys && parts.keys <= freedom && freedom > 0) {
      row.floor = {parts.distances / freedom, parts.keys / freedom};
    }
    // Rounding of a float64 sum leaves less of what is none.
    if (!std::isfinite(parts.raw_square)) {
      row.why = "a key that this head sees has no score";
      return row;
    }
    if (!(parts.within > 1e-12 * parts.raw_square)) {
      row.why = "the scores of this head do not vary within a row";
      return row;
    }
    using Sums = AddressingSums;
    const auto share = [&](auto sum) { return bounded(kShare, ratio(parts, sum)); };
    row.distance_first = share([](const Sums& s) { return s.distance_first; });
    row.key_first = share([](const Sums& s) { return s.key_first; });
    row.key_last = share([](const Sums& s) { return s.both - s.distance_first; });
    row.distance_last = share([](const Sums& s) { return s.both - s.key_first; });
    row.interaction = share([](const Sums& s) { return s.within - s.both; });
    row.trend = bounded(kDifference, ratio(parts, [](const Sums& s) {
                          return s.distance_first + s.key_first - s.both;
                        }));
    std::vector<Part> query;
    for (std::size_t n = 0; n < parts.sums.size(); ++n) {
      query.push_back({parts.between_rows[n], parts.between_rows[n] + parts.sums[n].within});
    }
    row.query = bounded(kShare, ratio_interval(query, draws_));
    return row;
  }

 private:
  template <class Sum>
  Interval ratio(const HeadParts& parts, Sum sum) const {
    std::vector<Part> texts;
    for (const AddressingSums& one : parts.sums) texts.push_back({sum(one), one.within});
    return ratio_interval(texts, draws_);
  }

  Draws draws_;
};

}  // namespace

double ScoreMarginals::pairs() const {
  const auto n = static_cast<double>(tokens), w = static_cast<double>(within);
  return w * n - w * (w - 1) / 2;
}

AddressingSums addressing_sums(const ScoreMarginals& m) {
  const auto fitted = [&](bool distances, bool keys) {
    // The rows' sums are 0: their means were taken off.
    Vector right(static_cast<std::size_t>(3 * m.tokens), 0.0);
    if (distances) std::ranges::copy(m.by_distance, right.begin() + m.tokens);
    if (keys) std::ranges::copy(m.by_key, right.begin() + 2 * m.tokens);
    return fitted_square(NormalEquations(m.tokens, m.within, distances, keys), right);
  };
  return {m.square, fitted(true, false), fitted(false, true), fitted(true, true)};
}

namespace {

// Takes off what float32's rounding has left of sums that are 0 because every row's is: of all
// scores less their row's mean by distance, by key, and times i - (i - j) - j. Else no effects fit
// the sums, and conjugate gradients do not end.
void balance(ScoreMarginals& m) {
  const NormalEquations equations(m.tokens, m.within, true, true);
  const auto spread = [&m](Vector& sums, const auto& weight) {
    double off = 0, all = 0;
    for (std::int64_t n = 0; n < m.tokens; ++n) {
      off += sums[static_cast<std::size_t>(n)], all += weight(n);
    }
    for (std::int64_t n = 0; n < m.tokens; ++n) {
      sums[static_cast<std::size_t>(n)] -= off / all * weight(n);
    }
  };
  spread(m.by_distance, [&](std::int64_t n) { return equations.distance_count(n); });
  spread(m.by_key, [&](std::int64_t n) { return equations.key_count(n); });
  double pairs = 0, mean = 0, trend = 0, square = 0;
  for (std::int64_t n = 0; n < m.tokens; ++n) {
    const auto at = static_cast<double>(n);
    pairs += equations.key_count(n), mean += equations.key_count(n) * at;
    trend +=
        at * (m.by_distance[static_cast<std::size_t>(n)] + m.by_key[static_cast<std::size_t>(n)]);
  }
  mean /= pairs;
  const auto along = [&](std::int64_t n) {
    return equations.key_count(n) * (static_cast<double>(n) - mean);
  };
  for (std::int64_t n = 0; n < m.tokens; ++n) square += along(n) * static_cast<double>(n);
  for (std::int64_t n = 0; n < m.tokens && square > 0; ++n) {
    m.by_key[static_cast<std::size_t>(n)] -= trend * along(n) / square;
  }
}

// The sums of one text by the kernel; nothing where the scores have no fused form, or rows see
// other pairs than those of a causal triangle, which the equations count on.
std::optional<std::vector<ScoreMarginals>> fused_marginals(const model::LayerAttention& attention,
                                                           std::int64_t within, bool of_content) {
  const auto sums = attention.centred_sums(within, of_content);
  if (!sums) return {};
  const std::int64_t heads = attention.heads(), tokens = attention.length();
  const at::Tensor counts = at::arange(1, tokens + 1, at::kLong).clamp_max(within);
  if (!sums->pairs[0].equal(counts.expand({heads, tokens}))) return {};
  const at::Tensor mean = sums->mean[0], count = counts.to(at::kDouble);
  const at::Tensor off = mean - ((mean * count).sum(1) / count.sum()).unsqueeze(1);
  const auto between = to_vector<double>((off.square() * count).sum(1));
  const auto of_rows = to_vector<double>((mean.square() * count).sum(1));
  const auto square = to_vector<double>(sums->square[0]);
  std::vector<ScoreMarginals> list;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto n = static_cast<std::size_t>(h);
    list.push_back({tokens, within, to_vector<double>(sums->by_distance[0][h]),
                    to_vector<double>(sums->by_key[0][h]), square[n], between[n],
                    square[n] + of_rows[n]});
    balance(list.back());
  }
  return list;
}

// The pairs that each head sees of rows [begin, end) and keys [0, end), (H, rows, keys).
at::Tensor seen_by_heads(std::int64_t begin, std::int64_t end,
                         const std::vector<std::int64_t>& within) {
  std::vector<at::Tensor> heads;
  for (const std::int64_t width : within) {
    heads.push_back(seen_pairs(begin, end - begin, end, width));
  }
  return at::stack(heads);
}

}  // namespace

std::vector<ScoreMarginals> marginals_of(const model::LayerAttention& attention,
                                         const AddressingOptions& options,
                                         const protocol::Progress& progress,
                                         const std::vector<std::int64_t>& windows) {
  const at::NoGradGuard no_gradients;
  const std::int64_t heads = attention.heads(), tokens = attention.length();
  std::int64_t widest = options.within > 0 ? std::min(options.within, tokens) : tokens;
  if (attention.program().window > 0) widest = std::min(widest, attention.program().window);
  std::vector<std::int64_t> within(static_cast<std::size_t>(heads), widest);
  for (std::size_t h = 0; h < windows.size(); ++h) {
    if (windows[h] > 0) within[h] = std::min(widest, windows[h]);
  }
  if (std::ranges::count(within, widest) == heads) {
    if (const auto sums = fused_marginals(attention, widest, options.content)) return *sums;
  }
  at::Tensor by_distance = at::zeros({heads, tokens}, at::kDouble),
             by_key = at::zeros_like(by_distance);
  at::Tensor square = at::zeros({heads}, at::kDouble), raw = at::zeros_like(square);
  // Made before the blocks: what is kept between two of them would hold the allocator's memory
  // apart, so that no freed block had room for the next one, which is a little larger.
  const at::Tensor mean = at::zeros_like(by_distance), count = at::zeros_like(by_distance);
  const std::int64_t step = rows_of_block(heads, tokens);
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    progress.throw_if_cancelled();
    const std::int64_t end = std::min(begin + step, tokens);
    const model::ScoreParts parts = attention.scores({{0, heads}, {begin, end}, {0, end}});
    const at::Tensor seen = seen_by_heads(begin, end, within);
    const at::Tensor scores = (options.content ? parts.content : parts.score)[0]
                                  .to(at::kDouble)
                                  .masked_fill(seen.logical_not(), 0.0);
    const at::Tensor counts = count.narrow(1, begin, end - begin);
    const at::Tensor means = mean.narrow(1, begin, end - begin);
    counts.copy_(seen.sum(2));
    means.copy_(scores.sum(2) / counts);
    const at::Tensor centred = (scores - means.unsqueeze(2)).masked_fill(seen.logical_not(), 0.0);
    add_by_distance(centred, begin, by_distance);
    by_key.narrow(1, 0, end).add_(centred.sum(1));
    square.add_(centred.square().sum(at::IntArrayRef{1, 2}));
    raw.add_(scores.square().sum(at::IntArrayRef{1, 2}));
  }
  const at::Tensor off = mean - ((mean * count).sum(1) / count.sum(1)).unsqueeze(1);
  const auto between = to_vector<double>((off.square() * count).sum(1));
  std::vector<ScoreMarginals> list;
  for (std::int64_t h = 0; h < heads; ++h) {
    list.push_back({tokens, within[static_cast<std::size_t>(h)], to_vector<double>(by_distance[h]),
                    to_vector<double>(by_key[h]), square[h].item<double>(),
                    between[static_cast<std::size_t>(h)], raw[h].item<double>()});
  }
  return list;
}

protocol::AddressingResult analyse_addressing(const std::vector<std::shared_ptr<TextPass>>& passes,
                                              const AddressingOptions& options,
                                              protocol::Progress& progress) {
  require_causal(passes[0]->model(), "addressing");
  const ChosenHeads chosen(passes[0]->model().config(), options.layers, options.heads);
  std::map<std::pair<std::int64_t, std::int64_t>, HeadParts> parts;
  for (std::size_t n = 0; n < passes.size(); ++n) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(n) / static_cast<double>(passes.size()),
                      "splitting the scores");
    protocol::PartOfProgress of_text(
        progress, static_cast<double>(n) / static_cast<double>(passes.size()),
        static_cast<double>(n + 1) / static_cast<double>(passes.size()));
    const Watching watching(*passes[n], of_text);
    passes[n]->visit_layers_with_maps([&](const AttentionPointer& attention) {
      const std::vector<std::int64_t>& heads = chosen.heads_of(attention->layer());
      if (heads.empty()) return;
      const model::Repairs& repairs = passes[n]->model().decoder.repairs_of(attention->layer());
      const std::vector<ScoreMarginals> marginals = marginals_of(
          *attention, options, progress,
          model::limits_of_layer(repairs.windows, attention->layer(), attention->heads()));
      for (const std::int64_t head : heads) {
        parts[{attention->layer(), head}].add(marginals[static_cast<std::size_t>(head)]);
      }
    });
  }
  protocol::AddressingResult result;
  result.model = passes[0]->model().report.name;
  result.of = options.content ? "content" : "score";
  result.within = options.within;
  result.formula =
      "least squares s_ij = r_i + t_(i-j) + c_j + e_ij; shares of the variance within rows: "
      "distance = SS(r,t) - SS(r), key = SS(r,t,c) - SS(r,t), pair = the rest; a trend that either "
      "could have is given to the distance, key_first and distance_last give it to the key";
  const RowMaker maker(options.seed);
  for (const auto& [at, sums] : parts) result.rows.push_back(maker.row(at.first, at.second, sums));
  result.provenance.note = note_of_missing_heads(passes[0]->model());
  return result;
}

}  // namespace phasescope::analysis
