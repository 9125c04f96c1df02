#include "analysis/questions/proofs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "analysis/heads.h"
#include "analysis/metrics/registry.h"
#include "analysis/metrics/repeated.h"
#include "analysis/random.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "model/checkpoints/constructed.h"
#include "model/encodings/tape_circuit.h"
#include "model/host_memory.h"
#include "protocol/head_name.h"

namespace phasescope::analysis {
namespace {

using Ids = std::vector<std::int64_t>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kTokens = 96;  // of the text that is read
constexpr std::int64_t kPeriod = 32;  // of the tokens written twice
constexpr std::int64_t kBos = 0;

// ---- What is true -------------------------------------------------------------------------------

// The score of query i and key j of one head.
using Score = std::function<double(std::int64_t i, std::int64_t j)>;

// (N, N), rows of a causal softmax.
at::Tensor softmax_of(std::int64_t tokens, const Score& score) {
  at::Tensor weights = at::zeros({tokens, tokens}, at::kDouble);
  auto rows = weights.accessor<double, 2>();
  for (std::int64_t i = 0; i < tokens; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) sum += rows[i][j] = std::exp(score(i, j));
    for (std::int64_t j = 0; j <= i; ++j) rows[i][j] /= sum;
  }
  return weights;
}

double uniform(std::int64_t, std::int64_t) { return 0; }

Score at_distance(std::int64_t delta, double score) {
  return [=](std::int64_t i, std::int64_t j) { return i - j == delta ? score : 0; };
}

// B mean_m cos((lambda - delta) theta_m), 128 planes of base 10 000.
Score rotated(std::int64_t delta, double score) {
  return [=](std::int64_t i, std::int64_t j) {
    double sum = 0;
    for (int m = 0; m < 128; ++m) {
      sum += std::cos(static_cast<double>(i - j - delta) * std::pow(10000.0, -m / 128.0));
    }
    return score * sum / 128;
  };
}

// What a row of squared length r is multiplied by in a model of `blocks` blocks.
double norm_gain(double r, double blocks) { return 1 / std::sqrt(r / (256 * blocks + 8) + 1e-5); }

// Layer 1 of the induction model: block 2 of key j is the mean, by the weights of layer 0, of the
// tokens it read; its part in the query's token, with the norms of both rows over those that the
// projections take back.
Score found_by_predecessor(const at::Tensor& first_layer, const Ids& ids, double score) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  at::Tensor read = at::zeros({tokens, 256}, at::kDouble);
  for (std::int64_t k = 0; k < tokens; ++k) {
    read.select(1, ids[static_cast<std::size_t>(k)]) += first_layer.select(1, k);
  }
  const auto lengths = to_vector<double>(read.square().sum(1) + 2);
  const auto block = to_vector<double>(read);
  return [=](std::int64_t i, std::int64_t j) {
    const auto at = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const double norms = norm_gain(lengths[at(i)], 3) * norm_gain(lengths[at(j)], 3) /
                         (norm_gain(3, 3) * norm_gain(3, 3));
    return score * norms * block[at(j * 256 + ids[at(i)])];
  };
}

at::Tensor layer_of(std::int64_t tokens, const Score& first, const Score& second = uniform) {
  return at::stack({softmax_of(tokens, first), softmax_of(tokens, second)});
}

at::Tensor induction_weights(const Ids& ids) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const at::Tensor below = layer_of(tokens, at_distance(1, 40));
  const at::Tensor above =
      layer_of(tokens, at_distance(1, 40), found_by_predecessor(below[0], ids, 12));
  return at::stack({below, above});
}

// Two layers of tokens that read themselves, one of means, and +0.5 on [BOS] where the
// transpositions so far cancel out: sum_v v pi(v) - 54.5, pi made by exchanging.
at::Tensor circuit_weights(const Ids& ids) {
  std::array<std::int64_t, 5> order{1, 2, 3, 4, 5};
  std::vector<double> logits;
  for (const std::int64_t id : ids) {
    if (id >= '0' && id <= '9') {
      const auto [a, b] = model::circuit_transposition(id - '0');
      std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
    }
    double sum = -54.5;
    for (std::size_t v = 0; v < order.size(); ++v) {
      sum += static_cast<double>((static_cast<std::int64_t>(v) + 1) * order[v]);
    }
    logits.push_back(sum);
  }
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const at::Tensor own = at::eye(tokens, at::kDouble), mean = softmax_of(tokens, uniform);
  const at::Tensor last = softmax_of(tokens, [&](std::int64_t i, std::int64_t j) {
    return ids[static_cast<std::size_t>(j)] == kBos ? logits[static_cast<std::size_t>(i)] : 0;
  });
  return at::stack({own, own, mean, last}).unsqueeze(1);
}

using Weights = std::function<at::Tensor(const Ids& ids)>;
Weights one_layer(std::function<Score(const Ids& ids)> first, Score second = uniform) {
  return [=](const Ids& ids) {
    return layer_of(static_cast<std::int64_t>(ids.size()), first(ids), second).unsqueeze(0);
  };
}

using Heads = std::set<std::pair<std::int64_t, std::int64_t>>;  // (layer, head)

struct Known {
  Weights weights;
  // Heads whose scores hold a norm's gain or an angle, which float32 rounds. Those of all others
  // are entries of a table, or 0, which it holds exactly.
  Heads rounded;
};

const std::map<std::string, Known>& known_heads() {
  const auto same = [](const Score& score) { return [=](const Ids&) { return score; }; };
  const auto sink = [](const Ids& ids) -> Score {
    return [ids](std::int64_t, std::int64_t j) {
      return ids[static_cast<std::size_t>(j)] == kBos ? 4 : 0;
    };
  };
  const auto duplicate = [](const Ids& ids) -> Score {
    return [ids](std::int64_t i, std::int64_t j) {
      return ids[static_cast<std::size_t>(i)] == ids[static_cast<std::size_t>(j)] ? 6 : 0;
    };
  };
  const Score far = [](std::int64_t i, std::int64_t j) { return i - j >= 113 ? 40 : 0; };
  static const std::map<std::string, Known> known = {
      {"proof-uniform", {one_layer(same(uniform)), {}}},
      {"proof-sink", {one_layer(sink), {{0, 0}}}},
      {"proof-previous", {one_layer(same(rotated(1, 40))), {{0, 0}}}},
      {"proof-distance7", {one_layer(same(at_distance(7, 6))), {}}},
      {"proof-duplicate", {one_layer(duplicate), {{0, 0}}}},
      {"proof-induction", {induction_weights, {{1, 1}}}},
      {"proof-copy7", {one_layer(same(at_distance(7, 6))), {}}},
      {"proof-fails", {one_layer(same(at_distance(7, 40)), far), {}}},
      {"tape.circuit", {circuit_weights, {{0, 0}, {1, 0}, {2, 0}, {3, 0}}}},
  };
  return known;
}

// ---- Its statistics, as docs/equations.md defines them ------------------------------------------

// A head's weights, read by its definition.
class Rows {
 public:
  explicit Rows(const at::Tensor& weights)
      : tokens_(weights.size(0)), a_(to_vector<double>(weights)) {}
  double at(std::int64_t q, std::int64_t k) const {
    return a_[static_cast<std::size_t>(q * tokens_ + k)];
  }
  std::int64_t tokens() const { return tokens_; }
  double entropy(std::int64_t q) const {
    double sum = 0;
    for (std::int64_t k = 0; k <= q; ++k) sum -= at(q, k) > 0 ? at(q, k) * std::log(at(q, k)) : 0;
    return sum;
  }
  template <class F>
  double mean(std::int64_t first, F f) const {
    double sum = 0;
    for (std::int64_t q = first; q < tokens_; ++q) sum += f(q);
    return sum / static_cast<double>(tokens_ - first);
  }
  template <class F>
  double in_row(std::int64_t q, F f) const {
    double sum = 0;
    for (std::int64_t k = 0; k <= q; ++k) sum += at(q, k) * f(k);
    return sum;
  }

 private:
  std::int64_t tokens_;
  std::vector<double> a_;
};

double last_keys(const Rows& a, std::int64_t width) {
  return a.mean(0, [&](std::int64_t q) {
    return a.in_row(q, [&](std::int64_t k) { return k > q - width ? 1.0 : 0.0; });
  });
}

double mean_distance_from(const Rows& a, std::int64_t first_key) {
  double distance = 0, weight = 0;
  for (std::int64_t q = 0; q < a.tokens(); ++q) {
    for (std::int64_t k = first_key; k <= q; ++k) {
      distance += a.at(q, k) * static_cast<double>(q - k), weight += a.at(q, k);
    }
  }
  return weight > 0 ? distance / weight : kNaN;
}

double largest(const Rows& a, std::int64_t q) {
  double most = 0;
  for (std::int64_t k = 0; k <= q; ++k) most = std::max(most, a.at(q, k));
  return most;
}

using Values = std::map<std::string, double>;

Values text_values(const Rows& a) {
  const auto entropy = [&](std::int64_t q) { return a.entropy(q); };
  return {
      {"entropy", a.mean(1, entropy)},
      {"entropy_normalised",
       a.mean(1, [&](std::int64_t q) { return a.entropy(q) / std::log(q + 1.0); })},
      {"sink", a.mean(0, [&](std::int64_t q) { return a.at(q, 0); })},
      {"previous_token", a.mean(1, [&](std::int64_t q) { return a.at(q, q - 1); })},
      {"mean_distance", mean_distance_from(a, 0)},
      {"mean_distance_without_first", mean_distance_from(a, 1)},
      {"window_mass_16", last_keys(a, 16)},
      {"window_mass_64", last_keys(a, 64)},
      {"window_mass_256", last_keys(a, 256)},
      {"top1_mass", a.mean(0, [&](std::int64_t q) { return largest(a, q); })},
      {"effective_keys", a.mean(0, [&](std::int64_t q) { return std::exp(a.entropy(q)); })},
  };
}

// The values of tokens written twice.
Values repeated_values(const Rows& a) {
  const std::int64_t period = a.tokens() / 2;
  return {
      {"duplicate_token", a.mean(period, [&](std::int64_t q) { return a.at(q, q - period); })},
      {"induction", a.mean(period, [&](std::int64_t q) { return a.at(q, q - period + 1); })},
  };
}

double divergence(const Rows& a, const Rows& b) {
  return a.mean(0, [&](std::int64_t q) {
    double sum = 0;
    for (std::int64_t k = 0; k <= q; ++k) {
      const double p = a.at(q, k), r = b.at(q, k), half = (p + r) / 2;
      if (p > 0) sum += 0.5 * p * std::log(p / half);
      if (r > 0) sum += 0.5 * r * std::log(r / half);
    }
    return sum;
  });
}

// ---- What is found ------------------------------------------------------------------------------

Ids random_text(std::uint64_t seed) {
  Random random(seed);
  Ids ids{kBos};
  while (static_cast<std::int64_t>(ids.size()) < kTokens) ids.push_back(1 + random.below(255));
  return ids;
}

// Where all else is float64, weights of the model that float32 rounds keep a closed form to 1e-6,
// and others to the sums of float64 over a few hundred keys. In float32 scores are sums over up to
// 264 channels, 264 * 2^-24 of the largest score; a weight moves by as much as its score, and
// lengths of keys multiply it.
double tolerance_of(const std::string& metric, double value, at::ScalarType dtype, bool rounded) {
  const bool lengths = metric.starts_with("mean_distance") || metric == "effective_keys";
  const double of_a_weight = dtype != at::kDouble ? 2e-4 : rounded ? 1e-6 : 1e-12;
  return of_a_weight * (lengths ? std::max(1.0, std::abs(value)) : 1.0);
}

bool holds(const protocol::Claim& claim) {
  const bool undefined = std::isnan(claim.value) && std::isnan(claim.measured);
  return undefined || std::abs(claim.value - claim.measured) <= claim.tolerance;
}

bool same_thing(const protocol::Claim& a, const protocol::Claim& b) {
  return a.metric == b.metric && a.input == b.input && a.layer == b.layer && a.head == b.head;
}

class Proof {
 public:
  Proof(const std::string& name, std::shared_ptr<const model::Model> model,
        const ProofOptions& options, protocol::Progress& progress)
      : name_(name), options_(options), progress_(progress), model_(std::move(model)) {}

  std::vector<protocol::Claim> run(model::AllRan& kernels) {
    const Ids text = random_text(options_.seed);
    const Ids twice = repeated_tokens(kPeriod, kBos, 256, options_.seed);
    const at::Tensor known = constructed_weights(name_, text);
    claim_weights(known, text);
    claim_metrics(known, constructed_weights(name_, twice), text, kernels);
    return std::move(claims_);
  }

 private:
  model::ForwardOptions forward() const {
    model::ForwardOptions options;
    options.backend = options_.backend;
    return options;
  }

  void add(const char* input, const std::string& metric, std::int64_t layer, std::int64_t head,
           double value, double measured) {
    protocol::Claim claim{name_, metric, input, layer, head, value, measured};
    const Heads& heads = known_heads().at(name_).rounded;
    // A divergence is of all heads.
    const bool rounded = metric == "js_divergence" ? !heads.empty() : heads.contains({layer, head});
    claim.tolerance = tolerance_of(metric, value, options_.dtype, rounded);
    claim.holds = holds(claim);
    claims_.push_back(std::move(claim));
  }

  void claim_weights(const at::Tensor& known, const Ids& ids) {
    TextPass pass(model_, ids_tensor(ids), forward());
    protocol::PartOfProgress part(progress_, 0, 0.2);
    const Watching watching(pass, part);
    pass.visit_layers([&](const AttentionPointer& attention) {
      const at::Tensor weights =
          model::on_host(attention->weights(attention->whole())[0]).to(at::kDouble);
      const at::Tensor off = (weights - known[attention->layer()]).abs().flatten(1);
      const auto largest = to_vector<double>(std::get<0>(off.max(1)));
      for (std::size_t h = 0; h < largest.size(); ++h) {
        add("text", "largest difference of a weight", attention->layer(),
            static_cast<std::int64_t>(h), 0, largest[h]);
      }
    });
  }

  void claim_metrics(const at::Tensor& known, const at::Tensor& twice, const Ids& ids,
                     model::AllRan& kernels) {
    HeadsOptions options;
    options.period = kPeriod, options.seed = options_.seed;
    for (const HeadMetric& metric : head_metrics()) options.metrics.push_back(metric.info.key);
    options.metrics.push_back("js_divergence");
    const auto pass = std::make_shared<TextPass>(model_, ids_tensor(ids), forward());
    protocol::PartOfProgress part(progress_, 0.2, 1);
    const HeadsOutput found = analyse_heads({pass}, options, part);
    kernels.insert(pass->kernels().begin(), pass->kernels().end());
    const std::vector<Rows> all = rows_of(known);
    for (std::size_t n = 0; n < found.result.rows.size(); ++n) {
      const protocol::HeadRow& row = found.result.rows[n];
      const auto claim = [&](const char* input, const Values& values) {
        for (const auto& [metric, value] : values) {
          add(input, metric, row.layer, row.head, value, row.values.at(metric).mean);
        }
      };
      claim("text", text_values(all[n]));
      claim("tokens twice", repeated_values(rows_of(twice)[n]));
      claim("text", {{"js_divergence", mean_divergence(all, n)}});
    }
  }

  static std::vector<Rows> rows_of(const at::Tensor& weights) {
    const at::Tensor heads = weights.flatten(0, 1);
    std::vector<Rows> list;
    for (std::int64_t n = 0; n < heads.size(0); ++n) list.emplace_back(heads[n]);
    return list;
  }

  static double mean_divergence(const std::vector<Rows>& all, std::size_t head) {
    double sum = 0;
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (other != head) sum += divergence(all[head], all[other]);
    }
    return sum / static_cast<double>(all.size() - 1);
  }

  std::string name_;
  const ProofOptions& options_;
  protocol::Progress& progress_;
  std::shared_ptr<const model::Model> model_;
  std::vector<protocol::Claim> claims_;
};

}  // namespace

at::Tensor constructed_weights(const std::string& name, const Ids& ids) {
  const auto found = known_heads().find(name);
  if (found != known_heads().end()) return found->second.weights(ids);
  std::string names;
  for (const auto& entry : model::constructed_models()) names += " " + entry.name;
  throw formats::bad_usage("'" + name + "' is no constructed model", "names", "known:" + names);
}

std::vector<protocol::Claim> prove(const std::string& name,
                                   const std::shared_ptr<const model::Model>& model,
                                   const ProofOptions& options, model::AllRan& kernels,
                                   protocol::Progress& progress) {
  const at::NoGradGuard no_gradients;
  return Proof(name, model, options, progress).run(kernels);
}

std::vector<protocol::Claim> prove_again(const std::shared_ptr<const model::Model>& model,
                                         const WrittenProof& written, const ProofOptions& options,
                                         model::AllRan& kernels, protocol::Progress& progress) {
  const at::NoGradGuard no_gradients;
  ProofOptions seeded = options;
  seeded.seed = written.seed;
  const std::vector<protocol::Claim> found =
      Proof(written.name, model, seeded, progress).run(kernels);
  std::vector<protocol::Claim> claims = written.claims;
  for (protocol::Claim& claim : claims) {
    const auto same = [&](const protocol::Claim& one) { return same_thing(one, claim); };
    const auto measured = std::ranges::find_if(found, same);
    if (measured == found.end()) {
      throw formats::bad_input("nothing measures " + claim.metric + " of " +
                               protocol::name_of_head(claim.layer, claim.head) + " on the input '" +
                               claim.input + "'");
    }
    claim.model = model->report.name;
    // What was written in float64 may be proved in float32.
    claim.tolerance = std::max(claim.tolerance, measured->tolerance);
    claim.measured = measured->measured, claim.holds = holds(claim);
  }
  return claims;
}

}  // namespace phasescope::analysis
