#include "analysis/questions/profile.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/questions/by_distance.h"
#include "analysis/questions/common.h"
#include "analysis/questions/treated.h"
#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "formats/counter_random.h"
#include "formats/error.h"
#include "model/attention/moved_scores.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

// Queries and keys by index, each (P) int64 where the layers are; of triplets alone a second key.
struct Sampled {
  at::Tensor query, first, second;

  std::int64_t size() const { return query.size(0); }
  Sampled some(std::int64_t begin, std::int64_t end) const {
    const auto cut = [&](const at::Tensor& all) {
      return all.defined() ? all.slice(0, begin, end) : all;
    };
    return {cut(query), cut(first), cut(second)};
  }
};

// Curves of so many pairs at once that those of all heads stay near 64 MB.
std::int64_t pairs_at_once(std::int64_t heads, std::int64_t window) {
  const std::int64_t pair = heads * window * std::int64_t{sizeof(double)};
  return std::max<std::int64_t>(1, (std::int64_t{64} << 20) / pair);
}

// The same on the host, where they are drawn.
struct Drawn {
  std::vector<std::int64_t> query, first, second;

  Sampled on(const at::Device& device) const {
    const auto there = [&](const std::vector<std::int64_t>& tokens) {
      return at::tensor(tokens, at::kLong).to(device);
    };
    return {there(query), there(first), second.empty() ? at::Tensor() : there(second)};
  }
};

Drawn drawn_pairs(std::int64_t tokens, std::int64_t count, const formats::CounterRandom& random) {
  Drawn out;
  for (std::int64_t n = 0; n < count; ++n) {
    const auto at = static_cast<std::uint64_t>(2 * n);
    const auto i = 1 + random.below(static_cast<std::uint64_t>(tokens - 1), at);
    out.query.push_back(static_cast<std::int64_t>(i));
    out.first.push_back(static_cast<std::int64_t>(random.below(i, at + 1)));
  }
  return out;
}

// Draws from 2^32 on, which no pair uses.
Drawn drawn_triplets(std::int64_t tokens, std::int64_t count,
                     const formats::CounterRandom& random) {
  Drawn out;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::uint64_t at = (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(3 * n);
    const auto i = 2 + random.below(static_cast<std::uint64_t>(tokens - 2), at);
    const auto j = random.below(i, at + 1);
    auto k = random.below(i - 1, at + 2);
    if (k >= j) ++k;
    out.query.push_back(static_cast<std::int64_t>(i));
    out.first.push_back(static_cast<std::int64_t>(j));
    out.second.push_back(static_cast<std::int64_t>(k));
  }
  return out;
}

// s(t) of pairs of one layer. Where planes turn and nothing else happens to their sum, from their
// coefficients; else by the encoding.
class Curves {
 public:
  Curves(const model::LayerInput& input, const model::AttentionProgram& program,
         std::int64_t window)
      : input_(input), program_(program), window_(window) {
    if (!turns_planes(program)) return;
    model::StartContext context = input.context;
    context.angle_dtype = at::kDouble;
    const at::Tensor theta = input.encoding->frequencies(context);
    if (theta.defined() && 2 * theta.numel() <= program.q.size(-1)) theta_ = theta.to(at::kDouble);
  }

  bool has_planes() const { return theta_.defined(); }
  // Whether a score is the sum of its turned coefficients and its tail.
  bool are_sums() const {
    const bool changed =
        input_.repairs != nullptr && input_.repairs->changes_scores_of(input_.layer);
    return has_planes() && !changed && !fades() && program_.soft_cap == 0 && program_.gain == 1.0;
  }
  const at::Tensor& theta() const { return theta_; }

  struct Coefficients {
    at::Tensor re, im;  // (H, P, planes), at distance 0
    at::Tensor tail;    // (H, P)
  };
  Coefficients coefficients(const at::Tensor& query, const at::Tensor& key) const {
    const auto [q, k] = tokens_of(program_.q, program_.k, query, key);
    const std::int64_t planes = theta_.numel();
    const auto [qx, qy] = planes_of(q, planes);
    const auto [kx, ky] = planes_of(k, planes);
    // At the distance that the pair has, turned back to 0.
    const at::Tensor re = program_.scale * (qx * kx + qy * ky);
    const at::Tensor im = program_.scale * (qy * kx - qx * ky);
    const at::Tensor angle = (query - key).to(at::kDouble).unsqueeze(1) * theta_;
    const at::Tensor c = angle.cos(), s = angle.sin();
    Coefficients out{re * c + im * s, im * c - re * s, {}};
    const at::Tensor rest = q.slice(2, 2 * planes) * k.slice(2, 2 * planes);
    out.tail = program_.scale * rest.sum(-1);
    return out;
  }

  // |a_m|^2 of each pair, (H, P, planes), without the decay that a distance brings.
  at::Tensor powers(const at::Tensor& query, const at::Tensor& key) const {
    if (!fades()) {
      const Coefficients a = coefficients(query, key);
      return a.re.square() + a.im.square();
    }
    const auto [q, k] = tokens_of(program_.q_plain, program_.k_plain, query, key);
    const auto [qx, qy] = planes_of(q, theta_.numel());
    const auto [kx, ky] = planes_of(k, theta_.numel());
    const at::Tensor scale = program_.scale * row_factors(query);
    return (qx.square() + qy.square()) * (kx.square() + ky.square()) * scale.square().view({-1, 1});
  }

  // (H, P, W) float64.
  at::Tensor of(const at::Tensor& query, const at::Tensor& key) const {
    if (!are_sums()) return by_the_encoding(query, key);
    const Coefficients a = coefficients(query, key);
    const at::Tensor angle = theta_.unsqueeze(1) * at::arange(window_, theta_.options());
    return a.tail.unsqueeze(2) + at::matmul(a.re, angle.cos()) - at::matmul(a.im, angle.sin());
  }

 private:
  // Whether amplitudes change with distance.
  bool fades() const { return input_.encoding->info().key == "xpos"; }

  // What log_scale multiplies a query by, (P).
  at::Tensor row_factors(const at::Tensor& query) const {
    const at::Tensor rows = query.to(at::kDouble) + 1;
    return input_.log_scale > 0 ? rows.log() / std::log(input_.log_scale) : at::ones_like(rows);
  }

  // The queries and their keys, (H, P, d) float64 each.
  static std::pair<at::Tensor, at::Tensor> tokens_of(const at::Tensor& q, const at::Tensor& k,
                                                     const at::Tensor& query,
                                                     const at::Tensor& key) {
    const auto of = [](const at::Tensor& x, const at::Tensor& tokens) {
      return x[0].index_select(1, tokens).to(at::kDouble);
    };
    return {of(q, query), of(k, key).repeat_interleave(q.size(1) / k.size(1), 0)};
  }

  std::pair<at::Tensor, at::Tensor> planes_of(const at::Tensor& x, std::int64_t planes) const {
    const auto& options = input_.encoding->options();
    const bool half = !options.contains("layout") || options.at("layout") == "half";
    if (half) return {x.narrow(2, 0, planes), x.narrow(2, planes, planes)};
    return {x.slice(2, 0, 2 * planes, 2), x.slice(2, 1, 2 * planes, 2)};
  }

  at::Tensor by_the_encoding(const at::Tensor& query, const at::Tensor& key) const {
    const std::int64_t pairs = query.size(0);
    const at::Tensor distance = at::arange(window_, query.options()).repeat({pairs});
    const auto each = [&](const at::Tensor& tokens) {
      return tokens.unsqueeze(1).expand({-1, window_}).flatten();
    };
    const model::DistanceRange within{0, window_ - 1};
    return model::moved_scores(input_, program_, {each(query), each(key), distance, within})
        .view({-1, pairs, window_})
        .to(at::kDouble);
  }

  const model::LayerInput& input_;
  const model::AttentionProgram& program_;
  std::int64_t window_;
  at::Tensor theta_;
};

// The sums of one text and head.
struct HeadSums {
  Part positional, positional_row, semantic, semantic_share, high_frequency;
  std::int64_t ties = 0, invalid = 0;
};

void add_to(Part& part, double value) { part.sum += value, part.weight += 1; }

// The queries that are sampled, in ranges that lie close together, of `most` rows at most.
std::vector<model::Range> ranges_of(std::vector<std::int64_t> queries, std::int64_t most) {
  constexpr std::int64_t kGap = 8;  // a few rows more take less time than another range
  std::ranges::sort(queries);
  std::vector<model::Range> ranges;
  for (const std::int64_t query : queries) {
    const bool near =
        !ranges.empty() && query < ranges.back().end + kGap && query < ranges.back().begin + most;
    if (near) ranges.back().end = std::max(ranges.back().end, query + 1);
    if (!near) ranges.push_back({query, query + 1});
  }
  return ranges;
}

// Two or three scores may agree as closely as they like, and a mean over rows would be that of a
// few of them.
constexpr std::int64_t kFewestKeys = 8;

// (H, N): deviation of the visible scores of each of these rows, dividing by their number; 0 of all
// others, and of rows of fewer than kFewestKeys scores.
at::Tensor deviations_of(const model::LayerAttention& attention,
                         const std::vector<std::int64_t>& queries,
                         const protocol::Progress& progress) {
  const std::int64_t heads = attention.heads(), tokens = attention.length();
  // Made before the blocks: what is kept between two of them would hold freed memory apart.
  const at::Tensor deviations = at::zeros({heads, tokens}, at::kDouble);
  for (const auto& [begin, end] : ranges_of(queries, rows_of_block(heads, tokens))) {
    progress.throw_if_cancelled();
    const at::Tensor scores =
        attention.score({{0, heads}, {begin, end}, {0, end}})[0].to(at::kDouble);
    const at::Tensor seen = scores.isfinite();
    const at::Tensor count = seen.sum(-1).to(at::kDouble);
    const at::Tensor zeroed = scores.masked_fill(seen.logical_not(), 0.0);
    const at::Tensor mean = zeroed.sum(-1) / count;
    const at::Tensor off = (zeroed - mean.unsqueeze(-1)).masked_fill(seen.logical_not(), 0.0);
    const at::Tensor deviation = (off.square().sum(-1) / count).sqrt();
    deviations.narrow(1, begin, end - begin).copy_(deviation.masked_fill(count < kFewestKeys, 0.0));
  }
  return deviations;
}

// Reads every layer of a text as it runs.
class ProfileHook final : public model::AttentionHook {
 public:
  ProfileHook(const ProfileOptions& options, std::int64_t window, const at::Device& device,
              std::int64_t tokens, std::uint64_t text, const protocol::Progress& progress)
      : options_(options), progress_(progress), window_(window) {
    const formats::CounterRandom random(options.seed, text);
    const Drawn pairs = drawn_pairs(tokens, options.samples, random);
    queries_ = pairs.query;
    // Once for all layers, so that none of them waits for a copy.
    pairs_ = pairs.on(device);
    triplets_ = drawn_triplets(tokens, options.samples, random).on(device);
  }

  void before(const model::LayerInput& input, model::AttentionProgram& program) override {
    const Curves curves(input, program, window_);
    std::vector<HeadSums> heads(static_cast<std::size_t>(program.q.size(1)));
    // Its values are not read.
    const model::LayerAttention attention(input.layer, program, program.k, {}, {}, options_.backend,
                                          model::ran_plain(program.k));
    const at::Tensor deviations = deviations_of(attention, queries_, progress_)
                                      .index_select(1, at::tensor(queries_, at::kLong));
    in_parts(pairs_, program.q.size(1), [&](const Sampled& some, std::int64_t begin) {
      const at::Tensor rows = deviations.slice(1, begin, begin + some.size());
      add_pairs(curves, program, rows, some, heads);
    });
    if (curves.has_planes()) add_high_frequencies(curves, heads);
    in_parts(triplets_, program.q.size(1),
             [&](const Sampled& some, std::int64_t) { add_triplets(curves, some, heads); });
    layers[input.layer] = std::move(heads);
  }

  std::map<std::int64_t, std::vector<HeadSums>> layers;  // those that have maps

 private:
  template <class Read>
  void in_parts(const Sampled& all, std::int64_t heads, const Read& read) const {
    const std::int64_t step = pairs_at_once(heads, window_);
    for (std::int64_t begin = 0; begin < all.size(); begin += step) {
      progress_.throw_if_cancelled();
      read(all.some(begin, begin + step), begin);
    }
  }

  // ||a|| of each head and pair, (H, P); undefined where there are no planes.
  static at::Tensor amplitudes(const Curves& curves, const model::AttentionProgram& program,
                               const Sampled& pairs) {
    if (curves.has_planes()) return curves.powers(pairs.query, pairs.first).sum(-1).sqrt();
    const auto* tapa = program.as<model::TapaProgram>();
    if (tapa == nullptr) return {};
    const std::int64_t group = program.q.size(1) / program.k.size(1);
    const std::int64_t width = tapa->content_dim;
    const at::Tensor q = program.q[0].index_select(1, pairs.query).slice(2, 0, width);
    const at::Tensor k =
        program.k[0].index_select(1, pairs.first).slice(2, 0, width).repeat_interleave(group, 0);
    return ((q * k).sum(-1) * tapa->scale_content).abs().to(at::kDouble);
  }

  // `rows`: the deviations of the pairs' rows, (H, P) on the host.
  static void add_pairs(const Curves& curves, const model::AttentionProgram& program,
                        const at::Tensor& rows, const Sampled& pairs,
                        std::vector<HeadSums>& heads) {
    const at::Tensor curve = curves.of(pairs.query, pairs.first);
    const at::Tensor steps = model::on_host(curve.diff(1, -1).abs().mean(-1));  // (H, P)
    const at::Tensor size = model::on_host(amplitudes(curves, program, pairs));
    for (std::size_t h = 0; h < heads.size(); ++h) {
      const auto of = [&](const at::Tensor& x) {
        return to_vector<double>(x[static_cast<std::int64_t>(h)]);
      };
      const auto step = of(steps), row = of(rows);
      for (std::size_t p = 0; p < step.size(); ++p) {
        const bool seen = std::isfinite(step[p]);  // what a window hides has no scores
        if (seen && row[p] > 0) add_to(heads[h].positional_row, step[p] / row[p]);
        if (!seen || !(row[p] > 0)) ++heads[h].invalid;
      }
      if (!size.defined()) continue;
      const auto norm = of(size);
      for (std::size_t p = 0; p < step.size(); ++p) {
        if (norm[p] > 0 && std::isfinite(step[p])) {
          add_to(heads[h].positional, step[p] / norm[p]);
        }
      }
    }
  }

  void add_high_frequencies(const Curves& curves, std::vector<HeadSums>& heads) const {
    const at::Tensor power = curves.powers(pairs_.query, pairs_.first);
    const at::Tensor fast = (curves.theta() * static_cast<double>(window_) >= 2).to(at::kDouble);
    const at::Tensor share = model::on_host(((power * fast).sum(-1) / power.sum(-1)).sqrt());
    for (std::size_t h = 0; h < heads.size(); ++h) {
      for (const double one : to_vector<double>(share[static_cast<std::int64_t>(h)])) {
        if (std::isfinite(one)) add_to(heads[h].high_frequency, one);
      }
    }
  }

  static void add_triplets(const Curves& curves, const Sampled& triplets,
                           std::vector<HeadSums>& heads) {
    const at::Tensor first = curves.of(triplets.query, triplets.first);
    const at::Tensor second = curves.of(triplets.query, triplets.second);
    const at::Tensor difference = model::on_host(first - second);
    const at::Tensor mass = model::on_host(mass_of(curves, triplets, first, second));
    for (std::int64_t h = 0; h < difference.size(0); ++h) {
      HeadSums& sums = heads[static_cast<std::size_t>(h)];
      const auto masses = to_vector<double>(mass[h]);
      for (std::int64_t p = 0; p < difference.size(1); ++p) {
        const SemanticScore score = semantic_score(to_vector<double>(difference[h][p]),
                                                   masses[static_cast<std::size_t>(p)]);
        sums.ties += score.tie, sums.invalid += !score.valid;
        if (score.tie || !score.valid) continue;
        add_to(sums.semantic, score.gaussian), add_to(sums.semantic_share, score.share);
      }
    }
  }

  // (H, P): what the difference of two scores is summed from.
  static at::Tensor mass_of(const Curves& curves, const Sampled& triplets, const at::Tensor& first,
                            const at::Tensor& second) {
    if (!curves.are_sums()) return first.select(2, 0).abs() + second.select(2, 0).abs();
    const auto a = curves.coefficients(triplets.query, triplets.first);
    const auto b = curves.coefficients(triplets.query, triplets.second);
    return at::hypot(a.re - b.re, a.im - b.im).sum(-1) + (a.tail - b.tail).abs();
  }

  const ProfileOptions& options_;
  const protocol::Progress& progress_;
  std::int64_t window_;
  std::vector<std::int64_t> queries_;  // of the pairs, on the host
  Sampled pairs_, triplets_;
};

std::optional<Interval> interval_of(const std::vector<HeadSums>& texts, Part HeadSums::*part,
                                    const ValueRange& range, const Draws& draws) {
  std::vector<Part> parts;
  double weight = 0;
  for (const HeadSums& text : texts) parts.push_back(text.*part), weight += (text.*part).weight;
  if (weight == 0) return std::nullopt;
  return bounded(range, ratio_interval(parts, draws));
}

// Why a row lacks the numbers that it lacks.
std::string why_undefined(const protocol::ProfileRow& row) {
  std::string why;
  const auto add = [&](bool defined, const std::string& words) {
    if (!defined) why += (why.empty() ? "" : "; ") + words;
  };
  add(row.positional.has_value(), "positional: no plane of a pair that is seen has an amplitude");
  add(row.positional_row.has_value(), "positional_row: no sampled row has eight scores that vary");
  add(row.semantic.has_value(), "semantic, semantic_share: no triplet is valid");
  add(row.high_frequency.has_value(), "high_frequency: no plane has an amplitude");
  return why;
}

protocol::ProfileRow row_of(std::int64_t layer, std::int64_t head,
                            const std::vector<HeadSums>& texts, const Draws& draws) {
  protocol::ProfileRow row;
  row.layer = layer, row.head = head;
  row.positional = interval_of(texts, &HeadSums::positional, kFromZero, draws);
  row.positional_row = interval_of(texts, &HeadSums::positional_row, kFromZero, draws);
  row.semantic = interval_of(texts, &HeadSums::semantic, kShare, draws);
  row.semantic_share = interval_of(texts, &HeadSums::semantic_share, kShare, draws);
  row.high_frequency = interval_of(texts, &HeadSums::high_frequency, kShare, draws);
  for (const HeadSums& text : texts) row.ties += text.ties, row.invalid += text.invalid;
  row.why = why_undefined(row);
  return row;
}

}  // namespace

SemanticScore semantic_score(const std::vector<double>& difference, double mass) {
  constexpr double eps = std::numeric_limits<double>::epsilon();
  SemanticScore score;
  score.valid = std::isfinite(difference[0]);  // a window hides one of the keys, or both
  if (!score.valid) return score;
  score.tie = std::abs(difference[0]) <= 64 * eps * mass;
  if (score.tie) return score;
  const double sign = difference[0] > 0 ? 1 : -1;
  const auto count = static_cast<double>(difference.size());
  const double mean = std::accumulate(difference.begin(), difference.end(), 0.0) / count;
  double square = 0, kept = 0;
  for (const double d : difference) square += d * d, kept += d * sign > 0;
  double variance = square / count - mean * mean;
  score.share = kept / count;
  if (variance < 0) score.valid = variance > -128 * eps * mass * mass;
  variance = std::max(variance, 0.0);
  score.gaussian = variance == 0 ? (sign * mean >= 0 ? 1 : 0)
                                 : 1 - std::erfc(sign * mean / std::sqrt(2 * variance)) / 2;
  return score;
}

protocol::ProfileResult analyse_profile(const std::shared_ptr<const model::Model>& model,
                                        const Texts& texts, const ProfileOptions& options,
                                        protocol::Progress& progress) {
  require_causal(*model, "profile");
  require_other_distances(*model);
  const ChosenHeads chosen(model->config(), options.layers, options.heads);
  const std::int64_t window = options.window > 0 ? options.window : model->config().context;
  if (window < 2) throw formats::bad_usage("a window needs at least two distances", "window");
  const at::NoGradGuard no_gradients;
  model::AllRan kernels;
  std::vector<std::map<std::int64_t, std::vector<HeadSums>>> all;  // of each text, layer, head
  for (std::size_t n = 0; n < texts.items.size(); ++n) {
    progress.throw_if_cancelled();
    const auto count = static_cast<double>(texts.items.size());
    protocol::PartOfProgress part(progress, static_cast<double>(n) / count,
                                  static_cast<double>(n + 1) / count);
    part.progress(0, "profiling heads");
    const auto tokens = static_cast<std::int64_t>(texts.items[n].ids.size());
    if (tokens < 3) {
      throw formats::bad_input("a query with two keys before it needs three tokens",
                               texts.items[n].name);
    }
    ProfileHook hook(options, window, model->decoder.device(), tokens, n, progress);
    model::ForwardOptions forward;
    forward.backend = options.backend;
    forward.hook = &hook;
    forward.kernels = &kernels;
    forward.progress = [&part](double done) { part.progress(done, "profiling heads"); };
    forward.cancelled = [&progress] { return progress.cancelled(); };
    model->decoder.hidden(ids_tensor(texts.items[n].ids), forward);
    all.push_back(std::move(hook.layers));
  }
  protocol::ProfileResult result;
  result.model = model->report.name;
  result.window = window, result.samples = options.samples;
  result.formula =
      "s(t): the pair's score at distance t, t = 0..W-1; positional = mean |s(t+1) - s(t)| / norm "
      "of the planes' amplitudes; positional_row = the same over the deviation of the row's "
      "scores, "
      "of rows of eight and more; semantic = 1 - erfc(sign(d(0)) m / sqrt(2 v)) / 2, d(t) the "
      "difference of two keys, m and v its mean and variance (arXiv 2609.39929)";
  const Draws draws(options.seed);
  for (const std::int64_t layer : chosen.layers()) {
    for (const std::int64_t head : chosen.heads_of(layer)) {
      std::vector<HeadSums> sums;
      for (const auto& text : all) {
        sums.push_back(text.at(layer)[static_cast<std::size_t>(head)]);
      }
      result.rows.push_back(row_of(layer, head, sums, draws));
    }
  }
  result.provenance.ran = protocol::listed(kernels);
  result.provenance.note = note_of_missing_heads(*model);
  return result;
}

}  // namespace phasescope::analysis
