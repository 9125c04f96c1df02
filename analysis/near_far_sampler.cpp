#include "analysis/near_far_sampler.h"

#include <iterator>
#include <utility>

#include "analysis/model_sides.h"
#include "analysis/shuffled_positions.h"
#include "model/layers.h"

namespace phasescope::analysis {

NearFarPlan::NearFarPlan(const NearFarSpec& spec, const std::vector<std::int64_t>& tokens) {
  const auto reaches = [&spec](std::int64_t n) { return n - spec.first_key > spec.far_begin; };
  for (const std::int64_t n : tokens) reaching_ += reaches(n);
  std::int64_t served = 0, drawn = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    TextSamples& text = texts_.emplace_back();
    text.first = drawn;
    if (!reaches(tokens[t])) continue;
    const std::int64_t share =
        spec.pairs * (served + 1) / reaching_ - spec.pairs * served / reaching_;
    Random random(spec.seed * 1000003 + t);
    text.samples = draw_pairs(spec, tokens[t], share, random);
    ++served;
    drawn += share;
  }
}

SampleHeads::SampleHeads(const model::ModelConfig& config) : config_(config) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::int64_t heads = model::heads_of_layer(config, layer);
    for (std::int64_t head = 0; head < heads; ++head) all_.push_back({layer, head});
  }
}

LayerHead SampleHeads::of_model(std::int64_t sample) const {
  return all_[static_cast<std::size_t>(sample) % all_.size()];
}

bool SampleHeads::has_layer(std::int64_t layer) const {
  return model::heads_of_layer(config_, layer) > 0;
}

std::int64_t SampleHeads::of_layer(std::int64_t layer, std::int64_t sample) const {
  const LayerHead own = of_model(sample);
  return own.layer == layer ? own.head : sample % model::heads_of_layer(config_, layer);
}

NearFarGroups::NearFarGroups(const model::ModelConfig& config, std::int64_t clusters, bool per_head)
    : heads_(config.heads), sampled_(config) {
  all_.scores.values.resize(static_cast<std::size_t>(clusters));
  all_.weights = all_.scores;
  by_layer_.resize(static_cast<std::size_t>(config.layers), all_);
  if (per_head) by_head_.resize(static_cast<std::size_t>(config.layers * heads_), all_);
}

namespace {

void add_sample(NearFarGroups::Group& group, std::int64_t cluster, const NearFarDeltas& deltas,
                std::size_t sample) {
  group.scores.add(cluster, deltas.values[sample]);
  group.weights.add(cluster, deltas.weights[sample]);
}

}  // namespace

NearFarGroups::PlacedText NearFarGroups::placed(NearFarPlan::TextSamples text,
                                                const at::Device& device) const {
  std::vector<LayerSamples> layers;
  for (std::int64_t layer = 0; layer < std::ssize(by_layer_); ++layer) {
    LayerSamples& own = layers.emplace_back();
    if (!sampled_.has_layer(layer)) continue;
    own.samples = text.samples;
    for (std::int64_t s = 0; s < std::ssize(text.samples); ++s) {
      own.heads.push_back(sampled_.of_layer(layer, text.first + s));
    }
  }
  return {std::move(text), placed_on(device, layers)};
}

void NearFarGroups::add(const model::LayerAttention& attention, const PlacedText& text,
                        const ClusterOf& cluster_of) {
  const auto& [samples, first] = text.text;
  if (samples.empty()) return;
  const auto index = static_cast<std::size_t>(attention.layer());
  const NearFarDeltas deltas = near_far_deltas(attention, text.layers[index]);
  Group& layer = by_layer_[index];
  for (std::size_t s = 0; s < samples.size(); ++s) {
    if (!deltas.seen[s]) {
      ++hidden_;
      continue;
    }
    const std::int64_t cluster = cluster_of(samples[s].query);
    add_sample(layer, cluster, deltas, s);
    const std::int64_t number = first + static_cast<std::int64_t>(s);
    if (sampled_.of_model(number).layer == attention.layer()) {
      add_sample(all_, cluster, deltas, s);
    }
  }
  if (!by_head_.empty()) add_heads(attention, text, cluster_of);
}

void NearFarGroups::add_heads(const model::LayerAttention& attention, const PlacedText& text,
                              const ClusterOf& cluster_of) {
  const PlacedSamples& placed = text.layers[static_cast<std::size_t>(attention.layer())];
  const std::vector<PairSample>& samples = text.text.samples;
  for (std::int64_t head = 0; head < attention.heads(); ++head) {
    const NearFarDeltas deltas = near_far_deltas(attention, placed.of_head(head));
    Group& group = by_head_[static_cast<std::size_t>(attention.layer() * heads_ + head)];
    for (std::size_t s = 0; s < samples.size(); ++s) {
      if (!deltas.seen[s]) continue;
      add_sample(group, cluster_of(samples[s].query), deltas, s);
    }
  }
}

namespace {

// Samples of the whole model alone, each of one layer and head.
class ModelSamples {
 public:
  ModelSamples(const model::Model& model, std::size_t texts, std::uint64_t seed)
      : model_(model), sampled_(model.config()), seed_(seed) {
    out_.measured.values.resize(texts);
    out_.shuffled.emplace(out_.measured);
  }

  // The samples of each layer of a text, where the layers are.
  std::vector<PlacedSamples> placed(const NearFarPlan::TextSamples& text) const {
    std::vector<LayerSamples> layers(static_cast<std::size_t>(model_.config().layers));
    for (std::size_t s = 0; s < text.samples.size(); ++s) {
      const LayerHead of = sampled_.of_model(text.first + static_cast<std::int64_t>(s));
      LayerSamples& layer = layers[static_cast<std::size_t>(of.layer)];
      layer.samples.push_back(text.samples[s]);
      layer.heads.push_back(of.head);
    }
    return placed_on(model_.decoder.device(), layers);
  }

  // What the control of a text shuffles its positions by.
  TokenOrder order_of(std::int64_t tokens, std::size_t text_index) const {
    return shuffled_order(tokens, seed_ + text_index, model_.decoder.device());
  }

  void add(const model::LayerAttention& attention, const PlacedSamples& samples,
           const TokenOrder& order, std::size_t text_index) {
    if (samples.size() == 0) return;
    const NearFarDeltas deltas = near_far_deltas(attention, samples);
    std::optional<model::LayerAttention> control;
    if (out_.shuffled) control = with_positions_shuffled(model_, attention, order);
    if (!control) out_.shuffled.reset();
    NearFarDeltas without;
    if (control) without = near_far_deltas(*control, samples);
    const auto cluster = static_cast<std::int64_t>(text_index);
    for (std::size_t s = 0; s < deltas.seen.size(); ++s) {
      if (!deltas.seen[s]) continue;
      out_.measured.add(cluster, deltas.values[s]);
      if (control) out_.shuffled->add(cluster, without.values[s]);
    }
  }

  NearFarSamples take() { return std::move(out_); }

 private:
  const model::Model& model_;
  SampleHeads sampled_;
  std::uint64_t seed_;
  NearFarSamples out_;
};

}  // namespace

NearFarSamples sample_near_far(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                               const NearFarSpec& spec, model::Backend backend,
                               protocol::Progress& progress, model::AllRan* kernels) {
  require_one_stack(model->config(), "near - far");
  require_some_maps(model->config());
  std::vector<std::int64_t> tokens;
  for (const Text& text : texts.items) {
    tokens.push_back(static_cast<std::int64_t>(text.ids.size()));
  }
  NearFarSpec own = spec;
  own.both_sides = sees_both_ways(model->config());
  const NearFarPlan plan(own, tokens);
  const auto count = static_cast<double>(tokens.size());
  ModelSamples samples(*model, tokens.size(), spec.seed);
  model::ForwardOptions options;
  options.backend = backend;
  options.kernels = kernels;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    progress.throw_if_cancelled();
    protocol::PartOfProgress part(progress, static_cast<double>(t) / count,
                                  static_cast<double>(t + 1) / count);
    part.progress(0, "sampling pairs");
    const NearFarPlan::TextSamples drawn = plan.samples_of(t);
    if (drawn.samples.empty()) continue;
    TextPass pass(model, ids_tensor(texts.items[t].ids), options);
    const Watching watching(pass, part);
    const std::vector<PlacedSamples> layers = samples.placed(drawn);
    const TokenOrder order = samples.order_of(tokens[t], t);
    pass.visit_layers_with_maps([&](const AttentionPointer& attention) {
      samples.add(*attention, layers[static_cast<std::size_t>(attention->layer())], order, t);
    });
  }
  return samples.take();
}

}  // namespace phasescope::analysis
