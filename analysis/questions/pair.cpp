#include "analysis/questions/pair.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <utility>

#include "analysis/model_sides.h"
#include "analysis/questions/common.h"
#include "analysis/questions/treated.h"
#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "formats/error.h"
#include "model/attention/moved_scores.h"
#include "model/attention/repairs.h"
#include "model/checkpoints/tensor_io.h"
#include "model/encodings/rotation.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

// The program of one layer, and what it was made of.
class KeepingHook final : public model::AttentionHook {
 public:
  explicit KeepingHook(std::int64_t layer) : layer_(layer) {}
  void before(const model::LayerInput& given, model::AttentionProgram& run) override {
    if (given.layer == layer_) input = given, program = run;
  }

  model::LayerInput input;
  model::AttentionProgram program;

 private:
  std::int64_t layer_;
};

// The logarithm of e^a + e^b.
double log_sum(double a, double b) {
  const double most = std::max(a, b);
  return std::isfinite(most) ? most + std::log(std::exp(a - most) + std::exp(b - most)) : most;
}

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

class PairReader {
 public:
  PairReader(const model::Model& model, const KeepingHook& kept, const PairOptions& options,
             std::int64_t query, std::int64_t key)
      : model_(model),
        input_(kept.input),
        program_(kept.program),
        attention_(options.layer, program_, program_.q, {}, {}, options.backend,
                   model::ran_plain(program_.q)),
        head_(options.head),
        query_(query),
        key_(key),
        cap_(model::sink_cap(input_, head_)) {}

  protocol::PairResult read() {
    result_.model = model_.report.name;
    result_.layer = input_.layer, result_.head = head_;
    result_.query = query_, result_.key = key_;
    result_.trained = model_.config().context;
    result_.provenance.ran = {model::ran_plain(program_.q)};
    result_.true_distance = place(query_) - place(key_);
    result_.formula =
        "weight(lambda) = 1 / (1 + e^(rest - score(lambda))), the other keys staying where they "
        "are; score = sum of the phasors' real parts + tail, or content + bias(lambda)";
    if (program_.soft_cap > 0) result_.formula += ", and of that cap tanh(score / cap)";
    if (is_changed()) {
      result_.formula +=
          "; what the reading adds to scores stands beside the phasors, its clamps and "
          "biases are of lambda, and what its windows hide stays hidden";
    }
    if (cap_ < 1) {
      result_.formula += "; the weight on key 0 is bounded by " + model::Json(cap_).dump() +
                         ", the scores are those before it";
    }
    read_row();
    read_phasors();
    read_clock();
    const std::string why = model::no_other_distance(model_.config(), *input_.encoding);
    if (why.empty()) {
      read_curve();
    } else {
      result_.why = why;
    }
    return std::move(result_);
  }

 private:
  std::int64_t place(std::int64_t token) const {
    const at::Tensor ids = model::position_ids(program_.positions);
    return (ids.dim() == 2 ? ids[0] : ids)[token].item<std::int64_t>();
  }

  // Whether the reading changes scores of this layer.
  bool is_changed() const {
    return input_.repairs != nullptr && input_.repairs->changes_scores_of(input_.layer);
  }

  // What a bound on the weight of key 0 makes of weights: those of the other keys grow alike.
  double weight_of(double score) const {
    if (key_ == 0) {
      const double weight = 1 / (1 + std::exp(result_.rest - score));
      return std::isfinite(result_.rest) ? std::min(weight, cap_) : weight;
    }
    const double others = log_sum(rest_behind_first_, score);
    const double first = std::min(first_, std::log(cap_ / (1 - cap_)) + others);
    return 1 / (1 + std::exp(log_sum(rest_behind_first_, first) - score));
  }

  // In a row of one key it has all the weight wherever it stands.
  bool is_alone() const { return std::isinf(result_.rest); }

  void read_row() {
    const model::ScoreParts row =
        attention_.scores({{head_, head_ + 1}, {query_, query_ + 1}, {0, query_ + 1}});
    const at::Tensor scores = row.score.flatten().to(at::kDouble);
    result_.score = scores[key_].item<double>();
    result_.content = row.content.flatten()[key_].item<double>();
    result_.positional = result_.score - result_.content;
    first_ = scores[0].item<double>();
    at::Tensor others = scores.clone();
    others[key_] = kUnseen;
    result_.rest = with_sink(at::logsumexp(others, 0).item<double>());
    others[0] = kUnseen;
    rest_behind_first_ = with_sink(at::logsumexp(others, 0).item<double>());
    result_.weight = weight_of(result_.score);
  }

  // A head's sink is in what its weights are divided by.
  double with_sink(double sum) const {
    if (!program_.sinks.defined()) return sum;
    return log_sum(sum, program_.sinks[head_].to(at::kDouble).item<double>());
  }

  // The rotated q and k of the pair, of each plane (x, y), and what no plane has.
  void read_phasors() {
    if (!turns_planes(program_) || !input_.state.z.defined()) return;
    const std::int64_t planes = input_.state.z.size(-1), width = program_.q.size(-1);
    if (2 * planes > width) return;  // a number for every channel
    const std::int64_t group = program_.q.size(1) / program_.k.size(1);
    const auto q = to_vector<double>(program_.q[0][head_][query_]);
    const auto k = to_vector<double>(program_.k[0][head_ / group][key_]);
    const Json& options = input_.encoding->options();
    const bool half = !options.contains("layout") || options.at("layout") == "half";
    const auto at = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const std::vector<double> back = turned_back(planes);
    for (std::int64_t m = 0; m < planes; ++m) {
      const std::size_t x = at(half ? m : 2 * m), y = at(half ? m + planes : 2 * m + 1);
      const std::complex<double> phasor{program_.scale * (q[x] * k[x] + q[y] * k[y]),
                                        program_.scale * (q[y] * k[x] - q[x] * k[y])};
      const std::complex<double> read = phasor * std::polar(1.0, -back[at(m)]);
      result_.phasors.push_back({read.real(), read.imag()});
    }
    for (std::int64_t n = 2 * planes; n < width; ++n) {
      result_.tail += program_.scale * q[at(n)] * k[at(n)];
    }
    if (program_.is<model::TapeProgram>()) read_state(planes);
  }

  // What a clamp turns each plane of a pair beyond it back by.
  std::vector<double> turned_back(std::int64_t planes) const {
    std::vector<double> angles(static_cast<std::size_t>(planes), 0.0);
    if (input_.repairs == nullptr) return angles;
    const std::vector<std::int64_t> limits =
        model::limits_of_layer(input_.repairs->clamps, input_.layer, program_.q.size(1));
    const std::int64_t limit = limits.empty() ? -1 : limits[static_cast<std::size_t>(head_)];
    if (limit < 0 || result_.true_distance <= limit) return angles;
    model::StartContext context = input_.context;
    context.angle_dtype = at::kDouble;
    const auto theta = to_vector<double>(input_.encoding->frequencies(context));
    for (std::size_t m = 0; m < angles.size(); ++m) {
      angles[m] = static_cast<double>(result_.true_distance - limit) * theta[m];
    }
    return angles;
  }

  // z_j e^(-i p_j theta), what the content did to the key's state.
  void read_state(std::int64_t planes) {
    model::StartContext context = input_.context;
    context.angle_dtype = at::kDouble;
    const auto theta = to_vector<double>(input_.encoding->frequencies(context));
    const at::Tensor z = input_.state.z[0];
    const at::Tensor own = z[z.size(0) == 1 ? 0 : head_][key_];
    const auto c = to_vector<double>(own[0]), s = to_vector<double>(own[1]);
    for (std::int64_t m = 0; m < planes; ++m) {
      const auto n = static_cast<std::size_t>(m);
      const double turned = std::atan2(s[n], c[n]) - static_cast<double>(place(key_)) * theta[n];
      result_.state.push_back(
          {std::hypot(c[n], s[n]), std::remainder(turned, 2 * std::numbers::pi)});
    }
  }

  // One hand of length |A| at the angle 2 pi lambda^alpha phi, pi more where A < 0.
  void read_clock() {
    const auto* tapa = program_.as<model::TapaProgram>();
    if (tapa == nullptr) return;
    const std::int64_t a = tapa->content_dim;
    const std::int64_t group = program_.q.size(1) / program_.k.size(1);
    const at::Tensor q = program_.q[0][head_][query_].to(at::kDouble);
    const at::Tensor k = program_.k[0][head_ / group][key_].to(at::kDouble);
    const at::Tensor phase = tapa->linear_phase ? q.slice(0, a).sum() + k.slice(0, a).sum()
                                                : (q.slice(0, a) * k.slice(0, a)).sum();
    const double amplitude =
        tapa->scale_content * (q.slice(0, 0, a) * k.slice(0, 0, a)).sum().item<double>();
    const double power = tapa->power[result_.true_distance].item<double>();
    result_.clock = {std::abs(amplitude), power * tapa->scale_phase * phase.item<double>() +
                                              (amplitude < 0 ? std::numbers::pi : 0)};
  }

  void read_curve() {
    std::vector<std::int64_t> distances = curve_distances(result_.true_distance);
    const std::vector<double> scores = scores_as_far_as_numbers_go(distances);
    std::vector<protocol::PairPoint> curve;
    for (std::size_t n = 0; n < distances.size(); ++n) {
      curve.push_back({distances[n], scores[n], weight_of(scores[n])});
    }
    if (input_.encoding->info().key == "cape") take_apart(curve);
    // The weight grows with the score, and is 1 to its last digit for many scores.
    const auto best = std::ranges::max_element(curve, {}, &protocol::PairPoint::score);
    result_.best_distance = is_alone() ? result_.true_distance : best->distance;
    result_.share_above = share_above();
    result_.curve = std::move(curve);
  }

  // CAPE's score is content + base + f of both, or without the base where its form adds none. With
  // f's last matrix at 0 nothing is corrected, which leaves the first two. Where RoPE turns the
  // content as well, what is left has the turn beside the base, and no base is told.
  void take_apart(std::vector<protocol::PairPoint>& curve) {
    const Json& options = input_.encoding->options();
    const bool has_base = options.at("form").get<std::string>().ends_with("residual") &&
                          !options.at("rotate").get<bool>();
    model::Parameters uncorrected = *input_.parameters;
    for (const char* name : {"mlp.2.weight", "mlp.2.bias"}) {
      const auto found = uncorrected.find(name);
      if (found == uncorrected.end()) return;  // of a form that is no network of one pair
      found->second = at::zeros_like(found->second);
    }
    model::LayerInput plain = input_;
    plain.parameters = &uncorrected;
    std::vector<std::int64_t> distances;
    for (const protocol::PairPoint& point : curve) distances.push_back(point.distance);
    const at::Tensor distance = at::tensor(distances, at::kLong);
    const auto without = to_vector<double>(scores_by(plain, distance));
    for (std::size_t n = 0; n < curve.size(); ++n) {
      curve[n].correction = curve[n].score - without[n];
      if (has_base) curve[n].base = without[n] - result_.content;
      if (curve[n].distance != result_.true_distance) continue;
      result_.base = curve[n].base, result_.correction = curve[n].correction;
    }
  }

  // A decay leaves a dtype's range somewhere: farther distances are left out, and it is said.
  std::vector<double> scores_as_far_as_numbers_go(std::vector<std::int64_t>& distances) {
    const auto fits = [&](std::size_t count) {
      const std::vector<std::int64_t> some(distances.begin(),
                                           distances.begin() + static_cast<std::ptrdiff_t>(count));
      try {
        scores_at(at::tensor(some, at::kLong));
        return true;
      } catch (const formats::Error& error) {
        if (error.code() != "bad_input") throw;
        return false;
      }
    };
    if (!fits(distances.size())) {
      std::size_t kept = 1, lost = distances.size();  // of one point the error itself is told
      while (lost - kept > 1) {
        const std::size_t middle = kept + (lost - kept) / 2;
        (fits(middle) ? kept : lost) = middle;
      }
      result_.cut = "the curve ends at distance " + std::to_string(distances[kept - 1]) + " of " +
                    std::to_string(distances.back()) +
                    ": farther away the encoding's decay leaves "
                    "the range of " +
                    model::name_of_dtype(program_.q.scalar_type());
      distances.resize(kept);
    }
    return to_vector<double>(scores_at(at::tensor(distances, at::kLong)));
  }

  // On the host, from distances there.
  at::Tensor scores_at(const at::Tensor& distance) const { return scores_by(input_, distance); }
  at::Tensor scores_by(const model::LayerInput& input, const at::Tensor& distance) const {
    const at::Tensor there = distance.to(program_.q.device());
    const model::DistanceRange within{distance.min().item<std::int64_t>(),
                                      distance.max().item<std::int64_t>()};
    const model::MovedPairs pairs{at::full_like(there, query_), at::full_like(there, key_), there,
                                  within};
    return model::on_host(model::moved_scores(input, program_, pairs)[head_]);
  }

  // The share of all trained distances with a higher score. The pair's own is read the same way, so
  // that rounding makes no distance better than another.
  double share_above() {
    const at::Tensor own = scores_at(at::full({1}, result_.true_distance, at::kLong));
    const bool bounded = key_ == 0 && cap_ < 1 && weight_of(own.item<double>()) >= cap_;
    if (is_alone() || bounded) return 0;
    const at::Tensor above = scores_at(at::arange(result_.trained, at::kLong)) > own;
    return above.to(at::kDouble).mean().item<double>();
  }

  using Json = model::Json;
  const model::Model& model_;
  const model::LayerInput& input_;
  const model::AttentionProgram& program_;
  model::LayerAttention attention_;
  std::int64_t head_, query_, key_;
  double cap_;                                // on the weight of key 0; 1: none
  double first_ = 0, rest_behind_first_ = 0;  // of key 0, and of all but it and the pair's key
  protocol::PairResult result_;
};

}  // namespace

std::vector<std::int64_t> curve_distances(std::int64_t own) {
  std::vector<std::int64_t> distances;
  for (std::int64_t n = 0; n <= 1024; ++n) distances.push_back(n);
  for (int n = 1;; ++n) {
    const double distance = 1024 * std::pow(10.0, n / 256.0);
    if (distance > 1e6) break;
    distances.push_back(std::llround(distance));
  }
  distances.push_back(1000000);
  if (own >= 0) distances.push_back(own);
  std::ranges::sort(distances);
  const auto rest = std::ranges::unique(distances);
  distances.erase(rest.begin(), rest.end());
  return distances;
}

protocol::PairResult analyse_pair(const std::shared_ptr<const model::Model>& model,
                                  const Text& text, const PairOptions& options,
                                  protocol::Progress& progress) {
  require_causal(*model, "pair");
  const at::NoGradGuard no_gradients;
  const ChosenHeads known(model->config(), {options.layer}, {options.head});
  const auto tokens = static_cast<std::int64_t>(text.ids.size());
  const std::int64_t query = options.query < 0 ? tokens - 1 : options.query;
  const std::int64_t key = options.key < 0 ? std::max<std::int64_t>(0, query - 1) : options.key;
  if (query >= tokens || key > query) {
    throw formats::bad_usage("query " + std::to_string(query) + " does not see key " +
                                 std::to_string(key) + " in a text of " + std::to_string(tokens) +
                                 " tokens",
                             key > query ? "key" : "query");
  }
  KeepingHook kept(options.layer);
  model::ForwardOptions forward;
  forward.backend = options.backend;
  forward = with_inputs_of(text, forward);
  forward.hook = &kept;
  forward.progress = [&progress](double done) { progress.progress(done, "reading the text"); };
  forward.cancelled = [&progress] { return progress.cancelled(); };
  model->decoder.hidden(ids_tensor(text.ids), forward);
  return PairReader(*model, kept, options, query, key).read();
}

}  // namespace phasescope::analysis
