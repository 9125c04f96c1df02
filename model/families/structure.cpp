#include "model/families/structure.h"

#include <cmath>
#include <cstdio>

namespace phasescope::model {
namespace {

using Sentences = std::vector<std::string>;

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string capped(const char* what, double cap) {
  const std::string c = text_of(cap);
  return std::string(what) + " are capped: x becomes " + c + " tanh(x / " + c + ")";
}

void add_norms(const ModelConfig& config, Sentences& list) {
  const NormConfig& norm = config.norm;
  if (norm.unit_offset) list.push_back("norms multiply by 1 + their weights");
  if (norm.placement == "post") {
    list.push_back("norms stand behind attention and MLP, on the sum with the residual");
  } else if (norm.placement == "output") {
    list.push_back("norms stand behind attention and MLP, on what they give");
  } else if (norm.placement == "sandwich") {
    list.push_back("norms stand before and behind attention and MLP");
  }
  if (norm.placement != "post" && !norm.at_end) {
    list.push_back("there is no norm after the last layer");
  }
  if (config.attention.qk_norm != "none") {
    const std::string& kind = config.attention.qk_norm;
    list.emplace_back(kind == "full" ? "q and k are normed, all heads as one"
                      : kind == "each"
                          ? "q and k are normed, each head by itself with weights of its own"
                          : "q and k are normed, each head by itself");
  }
  if (config.attention.qk_norm_after) {
    list.push_back("q and k are divided by their root mean square where they have been turned");
  }
  if (config.attention.value_norm) {
    list.push_back("values are divided by their root mean square, each head by itself");
  }
}

void add_embedding_and_head(const ModelConfig& config, Sentences& list) {
  const EmbeddingConfig& embedding = config.embedding;
  if (embedding.scale != 1) {
    list.push_back("the embedding is multiplied by " + text_of(embedding.scale));
  }
  if (embedding.norm) list.push_back("the embedding is normed");
  if (embedding.width > 0) {
    list.push_back("the embedding is " + std::to_string(embedding.width) +
                   " wide and projected to the model's width, and back before the head");
  }
  if (!config.head.present) return;
  if (config.head.scale != 1) {
    list.push_back("logits are multiplied by " + text_of(config.head.scale));
  }
  if (config.head.soft_cap > 0) list.push_back(capped("logits", config.head.soft_cap));
}

void add_scores(const ModelConfig& config, Sentences& list) {
  const AttentionConfig& attention = config.attention;
  const double usual = 1 / std::sqrt(static_cast<double>(config.head_dim));
  if (attention.scale > 0 && std::abs(attention.scale / usual - 1) > 1e-9) {
    list.push_back("scores are q.k times " + text_of(attention.scale) +
                   ", where the head's width would give " + text_of(usual));
  }
  if (attention.scale_by_width) list.push_back("scores are q.k over the head's width");
  if (attention.scale_by_layer) list.push_back("scores of layer n are divided by n + 1");
  if (attention.soft_cap > 0) list.push_back(capped("scores", attention.soft_cap));
  if (attention.clip > 0) {
    const std::string clip = text_of(attention.clip);
    list.push_back("q, k and v are clipped to -" + clip + ".." + clip);
  }
  if (attention.log_scale > 0) {
    list.push_back("queries are multiplied by ln(i + 1) / ln(" + text_of(attention.log_scale) +
                   ") at token i");
  }
}

std::string count_of(const std::vector<std::int64_t>& layers, const ModelConfig& config) {
  return std::to_string(layers.size()) + " of " + std::to_string(config.layers) + " layers";
}

void add_heads(const ModelConfig& config, Sentences& list) {
  const AttentionConfig& a = config.attention;
  if (a.temperature != 0) {
    list.push_back(
        std::string(a.temperature_smooth ? "scores" : "queries") + " are multiplied by 1 + " +
        text_of(a.temperature) + (a.temperature_smooth ? " ln(max(1, " : " ln(1 + floor(") +
        (a.temperature_from == 0 ? "i" : "(i + " + std::to_string(a.temperature_from) + ")") +
        " / " + text_of(a.temperature_length) + ")) at position i" +
        (a.temperature_layers.empty() ? "" : " in " + count_of(a.temperature_layers, config)));
  }
  if (!a.sink_layers.empty()) {
    list.push_back("heads of " + count_of(a.sink_layers, config) +
                   " have a sink, a stored score without a key: weights sum to less than 1");
  }
  if (a.gate != "none") {
    list.push_back(std::string("what a head gives is multiplied by ") + a.gate +
                   (a.gate_by_head ? " of one number a token" : " of a number for each channel"));
  }
  if (a.value_scale != 1) list.push_back("values are multiplied by " + text_of(a.value_scale));
  if (a.kv_rank > 0) {
    list.push_back("keys and values are made of " + std::to_string(a.kv_rank) +
                   " numbers a token (MLA): the score is content plus a part of " +
                   std::to_string(a.position_dim) +
                   " channels that has a position, by construction");
  }
  if (!a.value_from_key_layers.empty()) {
    list.push_back("values of " + count_of(a.value_from_key_layers, config) +
                   " are their keys before norm and turn");
  }
  if (!a.shared_layers.empty()) {
    list.push_back(count_of(a.shared_layers, config) +
                   " take the keys and values of an earlier layer of their kind");
  }
  if (!config.linear.layers.empty()) {
    list.push_back(count_of(config.linear.layers, config) +
                   " have a state in place of attention (gated delta rule): they have no maps");
  }
}

void add_experts(const ModelConfig& config, Sentences& list) {
  const ExpertsConfig& experts = config.experts;
  if (experts.layers.empty()) return;
  list.push_back(
      "MLPs of " + count_of(experts.layers, config) + " are " + std::to_string(experts.count) +
      " experts, of which a token has " + std::to_string(experts.per_token) +
      (experts.beside             ? ", beside the plain one"
       : experts.shared_width > 0 ? ", beside a shared one"
       : experts.shared_count > 0 ? ", beside " + std::to_string(experts.shared_count) +
                                        " of all tokens, which take part of the router's weight"
                                  : ""));
}

void add_windows(const ModelConfig& config, Sentences& list) {
  const auto local = static_cast<std::int64_t>(config.attention.local_layers.size());
  if (local == 0) return;
  const std::string layers =
      std::to_string(local) + " of " + std::to_string(config.layers) + " layers";
  if (config.attention.window > 0) {
    list.push_back(layers + " see keys less than " + std::to_string(config.attention.window) +
                   " tokens away alone");
  }
  if (config.attention.chunk > 0) {
    list.push_back(layers + " see the keys of their own run of " +
                   std::to_string(config.attention.chunk) + " tokens alone");
  }
  if (config.local_encoding) {
    list.push_back(layers + " have a positional encoding of their own: " +
                   config.local_encoding->key + " " + config.local_encoding->options.dump());
  }
}

void add_layers(const ModelConfig& config, Sentences& list) {
  if (config.attention.convolution > 0) {
    list.push_back("keys, values and what attention and MLP give have a convolution over " +
                   std::to_string(config.attention.convolution) + " tokens added to them");
  }
  if (config.mlp.scaled) list.push_back("what an MLP gives is multiplied by a stored number");
  if (config.head.rows > 0) {
    list.push_back("the first " + std::to_string(config.head.rows) +
                   " tokens of the vocabulary have logits");
  }
  for (const LayerGroup& group : config.layer_groups) {
    if (!group.encoding) continue;
    list.push_back(count_of(group.layers, config) + " have the encoding " + group.encoding->key +
                   (group.encoding->options.empty() ? "" : " " + group.encoding->options.dump()));
  }
  if (config.residual_scale != 1) {
    list.push_back("what attention and MLP give is multiplied by " +
                   text_of(config.residual_scale));
  }
  for (const LayerGroup& group : config.layer_groups) {
    if (group.sparsity == 0) continue;
    list.push_back("the MLP's gates of " + count_of(group.layers, config) + " are 0 below the " +
                   text_of(group.sparsity) + " quantile of a normal distribution");
  }
  if (config.attention.low_rank > 0) {
    list.push_back("beside attention stands a product of rank " +
                   std::to_string(config.attention.low_rank) +
                   " (LAuReL); the sum is divided by sqrt(2)");
  }
  if (config.streams.count > 1) {
    list.push_back("there are " + std::to_string(config.streams.count) +
                   " residual streams (AltUp): stream " + std::to_string(config.streams.active) +
                   " runs through the layers, hidden states are its own");
  }
  if (config.layer_scale) list.push_back("each layer's stream is multiplied by a stored number");
  if (config.embedding.layer_width > 0) {
    list.push_back("each layer reads " + std::to_string(config.embedding.layer_width) +
                   " numbers a token of its own");
  }
  if (config.residual == "parallel") {
    list.push_back("attention and MLP read the same sum, each through a norm of its own");
  } else if (config.residual == "parallel_shared") {
    list.push_back("attention and MLP read the same sum through one norm");
  }
  if (config.mlp.activation == "gelu_tanh_short") {
    list.push_back("the MLP's GELU has 0.79788456 for the square root of 2 / pi");
  }
  if (config.positions_skip_padding) {
    list.push_back("positions count the tokens that are no padding");
  }
}

}  // namespace

Sentences structure_quirks(const ModelConfig& config) {
  Sentences list;
  add_norms(config, list);
  add_embedding_and_head(config, list);
  add_scores(config, list);
  add_heads(config, list);
  add_windows(config, list);
  add_experts(config, list);
  add_layers(config, list);
  return list;
}

}  // namespace phasescope::model
