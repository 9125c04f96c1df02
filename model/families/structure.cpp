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
  } else if (norm.placement == "sandwich") {
    list.push_back("norms stand before and behind attention and MLP");
  }
  if (norm.placement != "post" && !norm.at_end) {
    list.push_back("there is no norm after the last layer");
  }
  if (config.attention.qk_norm != "none") {
    list.emplace_back(config.attention.qk_norm == "head" ? "q and k are normed, each head by itself"
                                                         : "q and k are normed, all heads as one");
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

void add_windows(const ModelConfig& config, Sentences& list) {
  const auto local = static_cast<std::int64_t>(config.attention.local_layers.size());
  if (local == 0) return;
  const std::string layers =
      std::to_string(local) + " of " + std::to_string(config.layers) + " layers";
  if (config.attention.window > 0) {
    list.push_back(layers + " see keys less than " + std::to_string(config.attention.window) +
                   " tokens away alone");
  }
  if (config.local_encoding) {
    list.push_back(layers + " have a positional encoding of their own: " +
                   config.local_encoding->key + " " + config.local_encoding->options.dump());
  }
}

void add_layers(const ModelConfig& config, Sentences& list) {
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
  add_windows(config, list);
  add_layers(config, list);
  return list;
}

}  // namespace phasescope::model
