// What a configuration must hold to, whoever wrote it.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "formats/hf_config.h"
#include "formats/utf8.h"
#include "model/config.h"
#include "model/encoding.h"

namespace phasescope::model {
namespace {

void check_choice(const std::string& key, const std::string& value,
                  const std::vector<std::string>& known, formats::ConfigProblems& problems) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  problems.add(key, formats::in_quotes(value) + " is not known; known: " + list);
}

void check_layers(const ModelConfig& config, formats::ConfigProblems& problems) {
  for (const auto& [key, layers] : {std::pair{"num_hidden_layers", config.layers},
                                    std::pair{"encoder_layers", config.encoder_layers}}) {
    if (layers <= formats::kLayerRange.max) continue;
    problems.add(key, "at most " + std::to_string(formats::kLayerRange.max) +
                          " layers can be read, this says " + std::to_string(layers));
  }
  const auto check = [&](const std::string& key, const std::vector<std::int64_t>& layers) {
    if (!std::is_sorted(layers.begin(), layers.end(), std::less_equal<>()) ||
        (!layers.empty() && layers.back() >= config.layers)) {
      problems.add(key, "must be layers of the model in rising order");
    }
  };
  check("attention.local_layers", config.attention.local_layers);
  check("attention.value_from_key_layers", config.attention.value_from_key_layers);
  check("attention.shared_layers", config.attention.shared_layers);
  check("attention.temperature_layers", config.attention.temperature_layers);
  check("attention.sink_layers", config.attention.sink_layers);
  check("experts.layers", config.experts.layers);
  check("linear.layers", config.linear.layers);
  for (std::size_t n = 0; n < config.layer_groups.size(); ++n) {
    check("layer_groups." + std::to_string(n) + ".layers", config.layer_groups[n].layers);
  }
}

// Every shared layer needs an earlier one of its kind to take keys and values from.
void check_shared_layers(const ModelConfig& config, formats::ConfigProblems& problems) {
  for (const std::int64_t layer : config.attention.shared_layers) {
    bool found = false;
    for (std::int64_t n = 0; n < layer && !found; ++n) {
      found = !names_layer(config.attention.shared_layers, n) &&
              config.is_local(n) == config.is_local(layer) && !names_layer(config.linear.layers, n);
    }
    if (found) continue;
    problems.add("attention.shared_layers",
                 "layer " + std::to_string(layer) + " has no earlier layer to take its keys from");
  }
}

void check_experts(const ModelConfig& config, formats::ConfigProblems& problems) {
  const ExpertsConfig& experts = config.experts;
  check_choice("experts.router", experts.router, {"softmax", "sigmoid"}, problems);
  if (experts.layers.empty()) return;
  // Each is a tensor of its own, and a file holds no more than that.
  constexpr std::int64_t kMostExperts = 1'000'000;
  if (experts.count > kMostExperts / static_cast<std::int64_t>(experts.layers.size())) {
    problems.add("experts.count", std::to_string(experts.count) + " in each of " +
                                      std::to_string(experts.layers.size()) +
                                      " layers are more than can be read");
  }
  if (experts.width < 1) problems.add("experts.width", "must be at least 1");
  constexpr std::int64_t kMostShared = 1000;
  const bool alone = experts.router == "sigmoid" && !experts.beside && !experts.weighted_inputs;
  if (experts.shared_count > kMostShared || (experts.shared_count > 0 && !alone)) {
    problems.add("experts.shared_count",
                 "must be at most 1000, with a router of sigmoids whose weights are of outputs");
  }
  if (experts.beside && config.norm.placement != "sandwich") {
    problems.add("experts.beside", "can be read with norms before and behind a branch alone");
  }
  if (experts.per_token < 1 || experts.per_token > experts.count) {
    problems.add("experts.per_token", "must lie in 1.." + std::to_string(experts.count) +
                                          ", the number of experts, but is " +
                                          std::to_string(experts.per_token));
  }
  if (experts.groups < 1 || experts.count % experts.groups != 0 || experts.groups_per_token < 1 ||
      experts.groups_per_token > experts.groups) {
    problems.add("experts.groups", std::to_string(experts.groups) + ", of which a token has " +
                                       std::to_string(experts.groups_per_token) +
                                       ", must divide the " + std::to_string(experts.count) +
                                       " experts");
  } else if (experts.groups > 1 &&
             experts.per_token > experts.count / experts.groups * experts.groups_per_token) {
    problems.add("experts.per_token", "is more than the experts in a token's groups");
  } else if (experts.groups_by_two && experts.count / experts.groups < 2) {
    problems.add("experts.groups", "must have two experts each, by which they are ranked");
  }
}

void check_head_rows(const ModelConfig& config, formats::ConfigProblems& problems) {
  const std::int64_t rows = config.head.rows;
  if (rows != 0 && (rows >= config.vocab_size || config.tie_embeddings)) {
    problems.add("head.rows", "must be fewer than the vocabulary has, in a head of its own");
  }
}

void check_convolution(const ModelConfig& config, formats::ConfigProblems& problems) {
  constexpr std::int64_t kLongest = 1024;
  const AttentionConfig& a = config.attention;
  if (a.convolution > kLongest) {
    problems.add("attention.convolution", "must be at most " + std::to_string(kLongest));
  }
  const bool plain = config.residual == "sequential" && config.norm.placement == "pre" &&
                     config.encoder_layers == 0 && a.causal && a.kv_rank == 0 &&
                     config.linear.layers.empty() && a.shared_layers.empty();
  if (a.convolution > 0 && !plain) {
    problems.add("attention.convolution",
                 "can be read in a decoder of plain attention with norms in front of each branch");
  }
}

void check_latent(const ModelConfig& config, formats::ConfigProblems& problems) {
  const AttentionConfig& a = config.attention;
  if (a.kv_rank == 0) return;
  if (a.position_dim < 2 || a.position_dim >= config.head_dim) {
    problems.add("attention.position_dim",
                 "must be at least 2 and less than head_dim, " + std::to_string(config.head_dim));
  }
  if (config.kv_heads != config.heads) {
    problems.add("num_key_value_heads", "latent attention has a key for every head");
  }
}

void check_linear(const ModelConfig& config, formats::ConfigProblems& problems) {
  const LinearConfig& linear = config.linear;
  if (linear.layers.empty()) return;
  if (linear.key_heads < 1 || linear.key_dim < 1 || linear.value_dim < 1 || linear.kernel < 1) {
    problems.add("linear", "key_heads, key_dim, value_dim and kernel must be at least 1");
  } else if (linear.value_heads < 1 || linear.value_heads % linear.key_heads != 0) {
    problems.add("linear.value_heads", std::to_string(linear.value_heads) +
                                           " is no multiple of the " +
                                           std::to_string(linear.key_heads) + " key heads");
  }
}

void check_streams(const ModelConfig& config, formats::ConfigProblems& problems) {
  constexpr std::int64_t kMostStreams = 64;
  const StreamsConfig& streams = config.streams;
  if (streams.count < 1 || streams.count > kMostStreams || streams.active >= streams.count) {
    problems.add("streams.count", "must lie in 1.." + std::to_string(kMostStreams) +
                                      ", and streams.active be one of them");
  }
  const bool plain = config.residual == "sequential" && config.norm.placement == "sandwich" &&
                     config.encoder_layers == 0;
  if (streams.count > 1 && !plain) {
    problems.add("streams.count",
                 "several can be read in a decoder with norms before and behind each branch alone");
  }
  if (config.attention.low_rank > 0 && !plain) {
    problems.add("attention.low_rank",
                 "can be read in a decoder with norms before and behind each branch alone");
  }
}

void check_patches(const ModelConfig& config, formats::ConfigProblems& problems) {
  constexpr std::int64_t kWidestPatch = 1024, kMostChannels = 1024;
  const PatchesConfig& patches = config.patches;
  check_choice("head.pool", config.head.pool, {"none", "softmax"}, problems);
  if (patches.side == 0) return;
  if (patches.side > kWidestPatch || patches.channels < 1 || patches.channels > kMostChannels) {
    problems.add("patches.side", "a piece is at most 1024 pixels wide, of 1..1024 channels");
  }
  if (patches.kernel < 1 || patches.kernel > patches.side) {
    problems.add("patches.kernel", "must lie in 1.." + std::to_string(patches.side));
  }
  if (config.encoder_layers > 0) {
    problems.add("patches.side", "images are read by models with one stack alone");
  }
}

void check_structure(const ModelConfig& config, formats::ConfigProblems& problems) {
  check_choice("norm.kind", config.norm.kind, {"rms", "layer"}, problems);
  check_choice("norm.placement", config.norm.placement, {"pre", "post", "output", "sandwich"},
               problems);
  check_choice("attention.qk_norm", config.attention.qk_norm, {"none", "head", "each", "full"},
               problems);
  check_choice("attention.gate", config.attention.gate, {"none", "sigmoid", "softplus"}, problems);
  constexpr std::int64_t kMostNorms = 1'000'000;
  if (config.attention.qk_norm == "each" && config.heads > kMostNorms / config.layers) {
    problems.add("attention.qk_norm", "a norm for each of " + std::to_string(config.heads) +
                                          " heads of every layer is more than can be read");
  }
  if (config.embedding.layer_width > 0 && config.embedding.layer_rows < 1) {
    problems.add("embedding.layer_rows",
                 "must be at least 1 where layers have inputs of their own");
  }
  if (config.attention.temperature_length <= 0) {
    problems.add("attention.temperature_length", "must be above 0");
  }
  check_choice("residual", config.residual, {"sequential", "parallel", "parallel_shared"},
               problems);
  check_choice("hidden_act", config.mlp.activation, known_activations(), problems);
  check_choice("attention.padding", config.attention.padding, {"hidden", "added"}, problems);
  check_choice("positions.map", config.positions.map,
               {"identity", "shift", "interpolate", "random", "random_by_layer"}, problems);
  check_choice("positions.draw", config.positions.draw, {"training", "always"}, problems);
  if (config.positions.factor <= 0) problems.add("positions.factor", "must be above 0");
  if (config.attention.log_scale != 0 && config.attention.log_scale <= 1) {
    problems.add("attention.log_scale", "must be a length above 1, or 0 for none");
  }
  if (config.residual != "sequential" && config.norm.placement != "pre") {
    problems.add("residual", "parallel branches can be read with norms in front of them alone");
  }
  if (config.residual != "sequential" && config.encoder_layers > 0) {
    problems.add("residual", "parallel branches cannot be read in an encoder-decoder");
  }
}

// Encodings compute tables of a head's planes as soon as they are made.
bool heads_can_be_read(const ModelConfig& config, formats::ConfigProblems& problems) {
  constexpr std::int64_t kMostChannels = 1 << 16;
  std::int64_t most = config.head_dim;
  for (const LayerGroup& group : config.layer_groups) most = std::max(most, group.head_dim);
  if (most <= kMostChannels) return true;
  problems.add("head_dim", "heads of " + std::to_string(most) +
                               " channels cannot be read; at most " +
                               std::to_string(kMostChannels));
  return false;
}

void check_encodings(const ModelConfig& config, formats::ConfigProblems& problems) {
  make_encoding(config, problems);
  if (!config.local_encoding) return;
  make_encoding(with_local_encoding(config), problems);
}

void check_layer_groups(const ModelConfig& config, formats::ConfigProblems& problems) {
  for (std::size_t n = 0; n < config.layer_groups.size(); ++n) {
    const LayerGroup& group = config.layer_groups[n];
    const std::string key = "layer_groups." + std::to_string(n);
    if (group.layers.empty()) {
      problems.add(key + ".layers", "names no layer");
      continue;
    }
    const LayerShape shape = config.shape_of(group.layers.front());
    formats::check_heads(problems, shape.heads * shape.head_dim, shape.heads, shape.kv_heads,
                         shape.head_dim);
    if (group.sparsity >= 1 || (group.sparsity > 0 && !config.mlp.gated)) {
      problems.add(key + ".mlp_sparsity", "must be less than 1, and the MLP have a gate");
    }
    if (!group.encoding) continue;
    const auto encoding = make_encoding(with_group_encoding(config, n), problems);
    if (!encoding) continue;
    if (encoding->parameters().empty() && encoding->shared_parameters().empty()) continue;
    problems.add(key + ".encoding", "an encoding with tensors of its own cannot be one of a group");
  }
}

}  // namespace

void check_model_config(const ModelConfig& config, formats::ConfigProblems& problems) {
  // Sizes among which some could not be read are held against each other no more.
  if (problems.empty()) {
    formats::check_heads(problems, config.heads * config.head_dim, config.heads, config.kv_heads,
                         config.head_dim);
    check_layers(config, problems);
  }
  check_structure(config, problems);
  check_shared_layers(config, problems);
  check_experts(config, problems);
  check_convolution(config, problems);
  check_head_rows(config, problems);
  check_latent(config, problems);
  check_linear(config, problems);
  check_streams(config, problems);
  check_patches(config, problems);
  if (heads_can_be_read(config, problems)) check_encodings(config, problems);
  // Groups that name layers which are not there have no sizes to be read.
  if (problems.empty()) check_layer_groups(config, problems);
}

}  // namespace phasescope::model
