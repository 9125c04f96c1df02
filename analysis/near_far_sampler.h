#pragma once
// Near-far samples of the heads of a model, text by text.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/head_bias.h"
#include "analysis/near_far.h"
#include "analysis/score_pairs.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// The samples of each text: equal shares of spec.pairs for the texts that reach the far interval,
// each text with a seed of its own.
class NearFarPlan {
 public:
  struct TextSamples {
    std::vector<PairSample> samples;
    std::int64_t first = 0;  // number of the first one, counted over all texts
  };

  // `tokens` of each text.
  NearFarPlan(const NearFarSpec& spec, const std::vector<std::int64_t>& tokens);
  TextSamples samples_of(std::size_t text) const { return texts_[text]; }
  std::int64_t reaching() const { return reaching_; }

 private:
  std::vector<TextSamples> texts_;
  std::int64_t reaching_ = 0;
};

// Which heads samples are of, by their numbers: of the whole model the heads that have maps take
// turns, layer by layer, of a layer its own, so that every group has as many samples as the plan.
// A layer's sample that is one of the whole model too is of the same head.
class SampleHeads {
 public:
  explicit SampleHeads(const model::ModelConfig& config);
  // The one of the whole model.
  LayerHead of_model(std::int64_t sample) const;
  // The one in a layer that has maps.
  std::int64_t of_layer(std::int64_t layer, std::int64_t sample) const;
  bool has_layer(std::int64_t layer) const;

 private:
  const model::ModelConfig& config_;
  std::vector<LayerHead> all_;
};

// Deltas of all groups, gathered layer by layer.
class NearFarGroups {
 public:
  // -1 for none: such a sample belongs to the whole alone.
  using ClusterOf = std::function<std::int64_t(std::int64_t query)>;

  NearFarGroups(const model::ModelConfig& config, std::int64_t clusters, bool per_head);
  // A text's samples as all layers are asked for them, where the layers are.
  struct PlacedText {
    NearFarPlan::TextSamples text;
    std::vector<PlacedSamples> layers;
  };
  PlacedText placed(NearFarPlan::TextSamples text, const at::Device& device) const;
  void add(const model::LayerAttention& attention, const PlacedText& text,
           const ClusterOf& cluster_of);

  // What one group has: differences of scores, and of the weights of the same pairs.
  struct Group {
    Clusters scores, weights;
  };
  const Group& all() const { return all_; }
  const std::vector<Group>& layers() const { return by_layer_; }
  const std::vector<Group>& heads() const { return by_head_; }
  // Samples of the layers that were left out, a layer's window or padding hiding one of their keys.
  std::int64_t hidden() const { return hidden_; }

 private:
  void add_heads(const model::LayerAttention& attention, const PlacedText& text,
                 const ClusterOf& cluster_of);

  std::int64_t heads_;  // places of each layer in by_head_
  SampleHeads sampled_;
  std::int64_t hidden_ = 0;
  Group all_;
  std::vector<Group> by_layer_, by_head_;
};

// The whole model's deltas, one cluster a text, and those of the very same queries and keys with
// the positions of each text shuffled (shuffled_positions.h): what is left of a preference for near
// keys there does not come from their distance. None where the encoding allows no such thing.
struct NearFarSamples {
  Clusters measured;
  std::optional<Clusters> shuffled;
};
// `kernels` gathers what runs attention; null for nobody.
NearFarSamples sample_near_far(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                               const NearFarSpec& spec, model::Backend backend,
                               protocol::Progress& progress, model::AllRan* kernels = nullptr);

}  // namespace phasescope::analysis
