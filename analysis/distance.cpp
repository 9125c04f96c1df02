#include "analysis/distance.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "analysis/distance_profile.h"
#include "analysis/head_bias.h"
#include "analysis/intrinsic_bias.h"
#include "analysis/model_sides.h"
#include "analysis/near_far_sampler.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "model/layers.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kRowsLimit = 2048;   // longer single texts get no band
constexpr std::int64_t kCurvePoints = 160;  // of the intrinsic bias
constexpr double kLastDistance = 1e7;       // of the intrinsic bias (theory.md's axis)

using Passes = std::vector<std::shared_ptr<TextPass>>;

// Groups by layer, by head where asked for, and the whole model.
class Groups {
 public:
  Groups(const model::ModelConfig& config, bool per_head, const std::vector<std::int64_t>& edges)
      : heads_(config.heads), all_(edges) {
    layers_.assign(static_cast<std::size_t>(config.layers), ProfileGroup(edges));
    if (per_head) {
      by_head_.assign(static_cast<std::size_t>(config.layers * heads_), ProfileGroup(edges));
    }
  }

  void add(std::int64_t layer, std::int64_t cluster, const std::vector<ProfileSums>& heads) {
    ProfileSums sum = heads[0];
    for (std::size_t h = 1; h < heads.size(); ++h) sum.add(heads[h]);
    layers_[static_cast<std::size_t>(layer)].add(cluster, sum);
    all_.add(cluster, sum);
    if (by_head_.empty()) return;
    for (std::size_t h = 0; h < heads.size(); ++h) {
      by_head_[static_cast<std::size_t>(layer * heads_) + h].add(cluster, heads[h]);
    }
  }

  void fill(const Sampled& sampled, const Draws& draws, protocol::DistanceModel& out) const {
    out.profile = all_.points(sampled, draws);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      out.layers[l].profile = layers_[l].points(sampled, draws);
    }
    for (std::size_t h = 0; h < by_head_.size(); ++h) {
      out.heads[h].profile = by_head_[h].points(sampled, draws);
    }
  }

 private:
  std::int64_t heads_;
  ProfileGroup all_;
  std::vector<ProfileGroup> layers_, by_head_;
};

// Those that were asked for and turn; where none was asked for the first of the middle layer, or of
// the next one that turns: TAPA's Figure 1 is of the middle of its model.
std::vector<LayerHead> shown_heads(const DistanceOptions& options, const model::ModelConfig& config,
                                   const std::vector<std::int64_t>& turning) {
  if (options.heads.empty()) {
    const auto next = std::ranges::lower_bound(turning, config.layers / 2);
    return {{next == turning.end() ? turning.back() : *next, 0}};
  }
  std::vector<LayerHead> turned;
  for (const LayerHead& one : options.heads) {
    if (model::names_layer(turning, one.layer)) turned.push_back(one);
  }
  return turned;
}

void require_heads(const std::vector<LayerHead>& heads, const model::ModelConfig& config) {
  for (const LayerHead& one : heads) {
    const bool layer = one.layer >= 0 && one.layer < config.layers;
    if (layer && one.head >= 0 && has_head(config, one.layer, one.head)) continue;
    const std::string why = missing_heads(config);
    throw formats::bad_usage(
        "there is no head L" + std::to_string(one.layer) + "H" + std::to_string(one.head), "heads",
        "the model has " + std::to_string(config.layers) + " layers of " +
            std::to_string(config.heads) + " heads" + (why.empty() ? "" : "; " + why));
  }
}

NearFarSpec spec_of(const DistanceOptions& options, std::int64_t tokens) {
  NearFarSpec spec = default_near_far(tokens, options.leave_out_first ? 1 : 0);
  if (options.near) spec.near_begin = options.near->first, spec.near_end = options.near->second;
  if (options.far) spec.far_begin = options.far->first, spec.far_end = options.far->second;
  spec.pairs = options.pairs;
  spec.seed = options.seed;
  check_near_far(spec, tokens);
  return spec;
}

class DistanceAnalysis {
 public:
  DistanceAnalysis(const Passes& passes, const DistanceOptions& options, NearFarValues* values)
      : passes_(passes),
        options_(options),
        values_(values),
        config_(passes[0]->model().config()),
        draws_(options.seed) {
    for (const auto& pass : passes) longest_ = std::max(longest_, pass->tokens());
  }

  protocol::DistanceModel run(protocol::Progress& progress) {
    const double prepared = reads_rotation() ? 0.3 : 0;
    protocol::PartOfProgress before(progress, 0, prepared), texts(progress, prepared, 1);
    start();
    prepare(before);
    for (std::size_t t = 0; t < passes_.size(); ++t) {
      progress.throw_if_cancelled();
      const auto count = static_cast<double>(passes_.size());
      protocol::PartOfProgress part(texts, static_cast<double>(t) / count,
                                    static_cast<double>(t + 1) / count);
      part.progress(0, "measuring distances");
      const Watching watching(*passes_[t], part);
      read_text(static_cast<std::int64_t>(t));
    }
    finish();
    return std::move(out_);
  }

 private:
  bool single() const { return passes_.size() == 1; }
  bool both_sides() const { return sees_both_ways(config_); }
  bool reads_rotation() const { return options_.intrinsic && !both_sides(); }
  bool by_rows() const { return single() && longest_ <= kRowsLimit; }

  void start() {
    const model::Model& model = passes_[0]->model();
    out_.model = model.report.name;
    out_.encoding = model.encoding().info().key;
    out_.note = model.encoding().departure();
    for (std::int64_t l = 0; l < config_.layers; ++l) {
      out_.layers.push_back({l, std::nullopt, {}, std::nullopt});
    }
    if (!options_.per_head) return;
    for (std::int64_t n = 0; n < config_.layers * config_.heads; ++n) {
      out_.heads.push_back({n / config_.heads, n % config_.heads, {}, std::nullopt});
    }
  }

  void prepare(protocol::Progress& progress) {
    edges_ = distance_edges(longest_);
    groups_.emplace(config_, options_.per_head, edges_);
    if (reads_rotation()) {
      TextPass& longest =
          **std::ranges::max_element(passes_, {}, [](const auto& pass) { return pass->tokens(); });
      const Watching watching(longest, progress);
      rotation_ = rotation_of(longest);
    }
    require_heads(options_.heads, config_);
    if (rotation_) {
      const std::vector<LayerHead> heads = shown_heads(options_, config_, rotation_->layers);
      coefficients_.emplace(heads, rotation_->layout, longest_);
      shown_.assign(heads.size(), ProfileGroup(edges_));
    }
    if (!options_.histogram) return;
    spec_ = spec_of(options_, longest_);
    spec_.both_sides = both_sides();
    const auto clusters = single() ? kBlocks : static_cast<std::int64_t>(passes_.size());
    samples_.emplace(config_, clusters, options_.per_head);
    std::vector<std::int64_t> tokens;
    for (const auto& pass : passes_) tokens.push_back(pass->tokens());
    plan_.emplace(spec_, tokens);
  }

  void read_text(std::int64_t t) {
    TextPass& pass = *passes_[static_cast<std::size_t>(t)];
    NearFarGroups::PlacedText samples;
    if (samples_) {
      samples = samples_->placed(plan_->samples_of(static_cast<std::size_t>(t)),
                                 pass.model().decoder.device());
    }
    const auto cluster_of = [this, t, &pass](std::int64_t query) {
      return single() ? block_of_query(spec_, pass.tokens(), query) : t;
    };
    const auto tokens = static_cast<double>(pass.tokens());
    const double pairs = tokens * (tokens + 1) / 2;
    const bool turned_alike = rotation_ && has_its_angles(pass);
    pass.visit_layers_with_maps([&](const AttentionPointer& attention) {
      if (options_.profile) add_profile(*attention, t);
      if (samples_) samples_->add(*attention, samples, cluster_of);
      if (!turned_alike || !model::names_layer(rotation_->layers, attention->layer())) return;
      add_plane_means(*attention, pairs);
      coefficients_->add(*attention, t, by_rows());
    });
    if (turned_alike) pairs_ += pairs;
    other_angles_ += rotation_ && !turned_alike;
    kernels_.insert(pass.kernels().begin(), pass.kernels().end());
  }

  void add_profile(const model::LayerAttention& attention, std::int64_t t) {
    if (!by_rows()) {
      add_profiles(attention.layer(), t, probe_profile(attention, edges_, &kernels_));
      return;
    }
    const std::int64_t tokens = attention.length(), length = tokens / kBlocks;
    const auto add = [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      if (end <= begin) return;
      add_profiles(attention.layer(), block, row_profile(attention, edges_, begin, end));
    };
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      add(block, block * length, (block + 1) * length);
    }
    add(-1, kBlocks * length, tokens);
  }

  void add_profiles(std::int64_t layer, std::int64_t cluster,
                    const std::vector<ProfileSums>& heads) {
    groups_->add(layer, cluster, heads);
    for (std::size_t n = 0; n < shown_.size(); ++n) {
      const LayerHead& one = coefficients_->heads()[n];
      if (one.layer == layer) shown_[n].add(cluster, heads[static_cast<std::size_t>(one.head)]);
    }
  }

  // Whether a text's length gives the frequencies of the longest one.
  bool has_its_angles(const TextPass& pass) const {
    const model::Decoder& decoder = pass.model().decoder;
    const at::Tensor own =
        decoder.encoding().frequencies(start_context(decoder, pass.tokens(), at::kDouble));
    return to_vector<double>(own) == rotation_->frequencies;
  }

  void finish() {
    if (options_.profile) {
      groups_->fill({by_rows(), longest_}, draws_, out_);
      out_.bands = bands();
    }
    if (options_.histogram) fill_histograms();
    if (rotation_) add_intrinsic();
    if (coefficients_ && pairs_ > 0) add_head_bias();
    if (!rotation_ && !options_.heads.empty()) {
      add_note("no head's bias is shown: it is that of a rotation by fixed angles of all scores");
    }
    add_note_of_layers();
    out_.provenance.set_ran(protocol::listed(kernels_));
    const auto texts = static_cast<std::int64_t>(passes_.size());
    if (plan_ && plan_->reaching() < texts) {
      add_note(std::to_string(texts - plan_->reaching()) +
               " texts are too short for the far interval");
    }
    if (both_sides()) {
      add_note("it sees both ways: distances are |i - j|, keys before and after a query count");
    }
    if (samples_ && samples_->hidden() > 0) {
      add_note(std::to_string(samples_->hidden()) +
               " samples of single layers are left out: a window hides one of their keys");
    }
    if (other_angles_ > 0) {
      add_note("the intrinsic bias is at the angles of " + std::to_string(longest_) + " tokens; " +
               std::to_string(other_angles_) + " shorter texts turn by others and are left out");
    }
  }

  std::string bands() const {
    if (!single()) {
      return "by text: jackknife t over n texts below 30, bootstrap-t of the ratio from there";
    }
    if (!by_rows()) return "none: one text of more than " + std::to_string(kRowsLimit) + " tokens";
    if (longest_ < kFewestRows) {
      return "none: one text of fewer than " + std::to_string(kFewestRows) + " tokens";
    }
    return "8 blocks of queries of one text, at distances that all of them have";
  }

  void fill_histograms() {
    fill_group(samples_->all(), out_);
    for (std::size_t l = 0; l < out_.layers.size(); ++l) {
      fill_group(samples_->layers()[l], out_.layers[l]);
    }
    for (std::size_t h = 0; h < out_.heads.size(); ++h) {
      fill_group(samples_->heads()[h], out_.heads[h]);
    }
    if (values_ == nullptr) return;
    const auto pooled = [](const NearFarGroups::Group& group) {
      return NearFarValues::Group{group.scores.pooled(), group.weights.pooled()};
    };
    values_->all = pooled(samples_->all());
    for (const auto& group : samples_->layers()) values_->layers.push_back(pooled(group));
    for (const auto& group : samples_->heads()) values_->heads.push_back(pooled(group));
  }

  template <class Group>
  void fill_group(const NearFarGroups::Group& samples, Group& group) const {
    group.histogram = histogram_of_group(samples.scores);
    group.weight_histogram = histogram_of_group(samples.weights);
  }

  // None where windows hide a key of every sample.
  std::optional<NearFar> histogram_of_group(const Clusters& deltas) const {
    if (deltas.pooled().empty()) return std::nullopt;
    return near_far_of(spec_, deltas, {single(), queries_of_blocks(spec_, longest_)}, draws_);
  }

  void add_note(const std::string& note) {
    out_.note += std::string(out_.note.empty() ? "" : "; ") + note;
  }

  // What layers without maps, and those that turn otherwise, leave out.
  void add_note_of_layers() {
    if (const std::string why = missing_heads(config_); !why.empty()) {
      add_note(why + ": what is of all heads is of those that there are");
    }
    if (!rotation_) return;
    std::vector<std::int64_t> others;
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const bool turns = model::names_layer(rotation_->layers, layer);
      if (has_head(config_, layer, 0) && !turns) others.push_back(layer);
    }
    if (others.empty()) return;
    add_note("the intrinsic bias of " + model::words_of_layers(others) +
             " is left out: other angles turn there, or none");
  }

  // Adds the sums over the causal pairs of one text's layer to those of its heads.
  void add_plane_means(const model::LayerAttention& attention, double pairs) {
    std::int64_t head = 0;
    for (const PlaneMeans& means : causal_plane_means(attention, rotation_->layout)) {
      PlaneMeans& sums = plane_sums_[{attention.layer(), head++}];
      sums.mu.resize(means.mu.size()), sums.nu.resize(means.nu.size());
      for (std::size_t d = 0; d < means.mu.size(); ++d) {
        sums.mu[d] += means.mu[d] * pairs;
        sums.nu[d] += means.nu[d] * pairs;
      }
    }
  }

  // Means over all causal pairs of the texts that turn by these angles.
  void add_intrinsic() {
    const std::vector<double> distances = log_distances(kLastDistance, kCurvePoints);
    for (auto& [of, means] : plane_sums_) {
      for (double& mu : means.mu) mu /= pairs_;
      for (double& nu : means.nu) nu /= pairs_;
      protocol::IntrinsicBias& bias = out_.intrinsic.emplace_back();
      bias.layer = of.layer, bias.head = of.head;
      bias.mu = means.mean_mu(), bias.nu = means.mean_nu();
      bias.distances = distances;
      bias.sqrt_d_gamma = sqrt_d_gamma(means, rotation_->frequencies, distances);
      bias.per_plane = per_plane_bias(means, rotation_->frequencies, distances);
      for (double& value : bias.sqrt_d_gamma) value *= rotation_->gain;
      for (double& value : bias.per_plane) value *= rotation_->gain;
    }
  }

  // After the intrinsic bias, whose means and curves these are.
  void add_head_bias() {
    for (std::size_t n = 0; n < coefficients_->heads().size(); ++n) {
      const LayerHead& one = coefficients_->heads()[n];
      const auto of = plane_sums_.find(one);
      const protocol::IntrinsicBias& curve =
          out_.intrinsic[static_cast<std::size_t>(std::distance(plane_sums_.begin(), of))];
      protocol::HeadBias& bias = out_.head_bias.emplace_back();
      bias.layer = one.layer, bias.head = one.head;
      const Regimes regimes = regimes_of(rotation_->frequencies);
      bias.local_to = regimes.local_to, bias.ultra_from = regimes.ultra_from;
      const Sampled sampled{by_rows(), longest_};
      if (options_.profile) bias.profile = shown_[n].points(sampled, draws_);
      coefficients_->fill(n, rotation_->frequencies, sampled, draws_, bias);
      bias.distances = curve.distances;
      bias.sqrt_d_gamma = curve.sqrt_d_gamma, bias.per_plane = curve.per_plane;
      bias.sweep =
          bias_sweep(of->second, *rotation_, options_.bases, options_.factors, bias.distances);
    }
  }

  const Passes& passes_;
  const DistanceOptions& options_;
  NearFarValues* values_;
  const model::ModelConfig& config_;
  std::int64_t longest_ = 0;
  NearFarSpec spec_;
  std::vector<std::int64_t> edges_;
  std::optional<Groups> groups_;
  std::optional<NearFarPlan> plan_;
  std::optional<NearFarGroups> samples_;
  std::optional<Rotation> rotation_;  // where the intrinsic bias is wanted and there is one
  std::map<LayerHead, PlaneMeans> plane_sums_;  // over pairs, of the heads that turn
  std::optional<GatheredCoefficients> coefficients_;
  std::vector<ProfileGroup> shown_;  // of the heads whose coefficients are gathered
  double pairs_ = 0;                 // causal pairs of the texts that turn by these angles
  std::int64_t other_angles_ = 0;    // texts that turn by others
  Draws draws_;
  model::AllRan kernels_;
  protocol::DistanceModel out_;
};

}  // namespace

protocol::DistanceModel analyse_distance(const Passes& passes, const DistanceOptions& options,
                                         protocol::Progress& progress, NearFarValues* values) {
  require_one_stack(passes.front()->model().config(), "distance");
  require_some_maps(passes.front()->model().config());
  return DistanceAnalysis(passes, options, values).run(progress);
}

namespace {

// A histogram and what it is of.
struct Binned {
  NearFar* histogram;
  const std::vector<double>* values;
};

constexpr int kBinsOfOne = 60, kMostBins = 240;

void share_bins_of(const std::vector<Binned>& list) {
  double low = std::numeric_limits<double>::infinity(), high = -low, narrowest = low;
  for (const Binned& one : list) {
    if (one.histogram->edges.empty()) continue;
    low = std::min(low, one.histogram->edges.front());
    high = std::max(high, one.histogram->edges.back());
    narrowest = std::min(narrowest, one.histogram->edges.back() - one.histogram->edges.front());
  }
  if (!(high > low)) return;
  const double wanted = std::ceil(kBinsOfOne * (high - low) / narrowest);
  const int bins = static_cast<int>(std::min(wanted, double{kMostBins}));
  for (const Binned& one : list) {
    if (one.histogram->edges.empty()) continue;
    Histogram shared = histogram_between(*one.values, low, high, bins);
    one.histogram->edges = std::move(shared.edges);
    one.histogram->counts = std::move(shared.counts);
  }
}

// The histograms that stand in one figure: `group` of a model's values belongs to `owner`.
template <class Owner>
void collect(Owner& owner, const NearFarValues::Group& group, std::vector<Binned>& scores,
             std::vector<Binned>& weights) {
  if (owner.histogram) scores.push_back({&*owner.histogram, &group.scores});
  if (owner.weight_histogram) weights.push_back({&*owner.weight_histogram, &group.weights});
}

}  // namespace

void share_bins(std::span<protocol::DistanceModel> models, std::span<const NearFarValues> values) {
  if (models.size() < 2) return;
  std::vector<Binned> scores, weights;
  const auto share = [&] {
    share_bins_of(scores), share_bins_of(weights);
    scores.clear(), weights.clear();
  };
  std::size_t layers = 0, heads = 0;
  for (std::size_t m = 0; m < models.size(); ++m) {
    collect(models[m], values[m].all, scores, weights);
    layers = std::max(layers, values[m].layers.size());
    heads = std::max(heads, values[m].heads.size());
  }
  share();
  for (std::size_t l = 0; l < layers; ++l) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (l >= values[m].layers.size()) continue;
      collect(models[m].layers[l], values[m].layers[l], scores, weights);
    }
    share();
  }
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (h >= values[m].heads.size()) continue;
      collect(models[m].heads[h], values[m].heads[h], scores, weights);
    }
    share();
  }
}

}  // namespace phasescope::analysis
