#include "analysis/cost.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "formats/error.h"
#include "formats/limits.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/weights.h"
#include "model/encoding.h"
#include "model/encoding_cost.h"

namespace phasescope::analysis {
namespace {

// What the model itself needs beside what encodings do.
struct Sizes : model::CostSizes {
  double ffn = 0, vocabulary = 0;
  double mlp_matrices = 0;  // gate, up, down; without a gate two
  double embedding = 0;     // width of the embedding
};

// Pairs of a query and a key that it sees: before it or, seeing both ways, on both sides; less than
// `window` tokens away, 0 for any.
double pairs_seen(double n, bool causal, double window) {
  const double reach = window > 0 ? std::min(window, n) : n;  // the query itself counted
  const double before = reach * n - reach * (reach - 1) / 2;  // with itself
  return causal ? before : 2 * before - n;
}

// An encoder shares its decoder's list, which may name more layers than it has.
double local_layers(const model::ModelConfig& config) {
  return static_cast<double>(
      std::ranges::count_if(config.attention.local_layers,
                            [&config](std::int64_t layer) { return layer < config.layers; }));
}

double seen_pairs(const model::ModelConfig& config, double n) {
  const auto layers = static_cast<double>(config.layers);
  const double local = local_layers(config);
  const bool causal = config.attention.causal;
  const auto window = static_cast<double>(config.attention.window);
  return (local * pairs_seen(n, causal, window) + (layers - local) * pairs_seen(n, causal, 0)) /
         layers;
}

Sizes sizes_of(const model::ModelConfig& config, std::int64_t length) {
  const auto n = static_cast<double>(length);
  const auto of = [](std::int64_t x) { return static_cast<double>(x); };
  return {{n, of(config.width), of(config.layers), of(config.heads), of(config.kv_heads),
           of(config.head_dim), n * n, seen_pairs(config, n)},
          of(config.ffn_width),
          of(config.vocab_size),
          config.mlp.gated ? 3.0 : 2.0,
          of(config.embedding.width > 0 ? config.embedding.width : config.width)};
}

double embedding_size(const Sizes& s) { return s.vocabulary * s.embedding; }

struct Part {
  std::string name;
  double published_macs = 0, executed_macs = 0, parameters = 0;
  double published_flops = 0, executed_flops = 0;  // beyond 2 a multiply-accumulate
};

// The same on both sides.
Part matrix_part(const std::string& name, double tokens, double size) {
  return {name, size * tokens, size * tokens, size, 0, 0};
}

// Attention of all layers, every query of which sees `seen_pairs` / tokens keys on average.
void add_attention(const std::string& stack, const Sizes& s, double seen_pairs,
                   std::vector<Part>& parts) {
  const double query_width = s.heads * s.head_dim, key_width = s.kv_heads * s.head_dim;
  const double projections = s.layers * s.width * (2 * query_width + 2 * key_width);
  const double scores = s.layers * s.heads;
  // Softmax: subtract, exponential, sum, divide.
  const double softmax = 4;
  parts.push_back(matrix_part(stack + "projections q, k, v, o", s.tokens, projections));
  parts.push_back({stack + "scores and weighted values", 2 * scores * s.head_dim * s.all_pairs,
                   2 * scores * s.head_dim * seen_pairs, 0, 0, softmax * scores * seen_pairs});
}

void add_encoding(const std::string& name, const model::Encoding& encoding, const Sizes& s,
                  std::vector<Part>& parts) {
  for (const model::EncodingCost& extra : encoding.cost(s)) {
    parts.push_back({name + ": " + extra.name, extra.published_macs, extra.executed_macs, 0,
                     extra.published_flops, extra.executed_flops});
  }
}

// What the encodings of a stack's layers add. Local ones may have another one, for the keys within
// their window.
void add_encodings(const std::string& stack, const model::ModelConfig& config, const Sizes& s,
                   std::vector<Part>& parts) {
  const std::string name = stack + config.encoding.key;
  const auto local = model::make_local_encoding(config);
  if (!local) return add_encoding(name, *model::make_encoding(config), s, parts);
  const bool causal = config.attention.causal;
  Sizes of_global = s, of_local = s;
  of_local.layers = local_layers(config);
  of_global.layers = s.layers - of_local.layers;
  of_global.seen_pairs = pairs_seen(s.tokens, causal, 0);
  of_local.seen_pairs = pairs_seen(s.tokens, causal, static_cast<double>(config.attention.window));
  if (of_global.layers > 0) {
    add_encoding(name, *model::make_encoding(config), of_global, parts);
  }
  if (of_local.layers > 0) {
    add_encoding(stack + "local layers, " + config.local_encoding->key, *local, of_local, parts);
  }
}

// One stack of layers, with what its encodings add. `stack` begins the parts' names.
void add_stack(const std::string& stack, const model::ModelConfig& config, const Sizes& s,
               std::vector<Part>& parts) {
  add_attention(stack, s, s.seen_pairs, parts);
  const double mlp = s.layers * s.mlp_matrices * s.width * s.ffn;
  parts.push_back(
      {stack + "MLP", mlp * s.tokens, mlp * s.tokens, mlp, 0, 2 * s.layers * s.ffn * s.tokens});
  add_encodings(stack, config, s, parts);
}

std::vector<Part> parts_of(const model::ModelConfig& config, std::int64_t length) {
  const Sizes s = sizes_of(config, length);
  const bool encoder = config.encoder_layers > 0;
  std::vector<Part> parts;
  if (encoder) {
    const model::ModelConfig stack = config.encoder();
    add_stack("encoder: ", stack, sizes_of(stack, length), parts);
  }
  add_stack(encoder ? "decoder: " : "", config, s, parts);
  // Every token of the decoder sees every token of the encoder, whose keys and values each layer
  // makes anew.
  if (encoder) add_attention("cross attention: ", s, s.all_pairs, parts);
  parts.push_back({"embedding", 0, 0, embedding_size(s), 0, 0});
  if (config.head.present) parts.push_back(matrix_part("head", s.tokens, embedding_size(s)));
  if (config.head.present && config.head.transform) {
    parts.push_back(matrix_part("head's transform", s.tokens, s.embedding * s.embedding));
  }
  if (config.embedding.width > 0) {
    parts.push_back(
        matrix_part("projections of the embedding", s.tokens, 2 * s.width * s.embedding));
  }
  return parts;
}

double stored_parameters(const model::ModelConfig& config, const model::Encoding& encoding,
                         const std::function<bool(const std::string&)>& counted) {
  double count = 0;
  for (const model::TensorSpec& spec : model::tensor_specs(config, encoding)) {
    if (spec.optional || !counted(spec.name)) continue;
    double size = 1;
    for (const std::int64_t n : spec.shape) size *= static_cast<double>(n);
    count += size;
  }
  return count;
}

bool is_encoding_tensor(const std::string& name) {
  return name.find(".encoding.") != std::string::npos ||
         name.find(".local_encoding.") != std::string::npos;
}

// What the counts above know nothing of; empty where they are whole.
std::string uncounted(const model::ModelConfig& config) {
  const model::AttentionConfig& a = config.attention;
  if (!config.experts.layers.empty()) return "experts";
  if (!config.linear.layers.empty()) return "layers with a state in place of attention";
  if (a.kv_rank > 0) return "latent attention";
  if (!config.layer_groups.empty()) return "layers with sizes or an encoding of their own";
  if (a.value_dim > 0 && a.value_dim != config.head_dim) return "values of another size than keys";
  if (!a.shared_layers.empty() || !a.value_from_key_layers.empty()) return "shared keys or values";
  if (a.chunk > 0) return "attention in runs of tokens";
  if (a.gate != "none" || a.low_rank > 0) return "gates or branches beside attention";
  if (config.streams.count > 1 || config.embedding.layer_width > 0) {
    return "several residual streams or inputs of the layers' own";
  }
  return {};
}

// What a query sees, for the conventions.
std::string seen_by_a_query(const model::ModelConfig& config) {
  std::string seen = config.attention.causal ? "causal pairs" : "all pairs, on both sides";
  if (config.encoder_layers > 0) {
    seen += " in the decoder, all pairs in the encoder and in cross attention";
  }
  if (config.attention.window > 0 && !config.attention.local_layers.empty()) {
    seen += " (of local layers those within the window)";
  }
  return seen;
}

}  // namespace

protocol::CostResult analyse_cost(const model::ModelConfig& config, const std::string& name,
                                  std::int64_t length) {
  formats::require_length(length);
  if (const std::string part = uncounted(config); !part.empty()) {
    throw formats::Error("not_applicable",
                         "the cost of " + name + " cannot be counted: it has " + part, "model");
  }
  const std::unique_ptr<model::Encoding> encoding = model::make_encoding(config);
  std::vector<Part> parts = parts_of(config, length);
  const auto any = [](const std::string&) { return true; };
  const double all = stored_parameters(config, *encoding, any);
  const double of_encoding = stored_parameters(config, *encoding, is_encoding_tensor);
  const std::string local =
      config.local_encoding ? " and local layers, " + config.local_encoding->key : "";
  parts.push_back({config.encoding.key + local + ": parameters", 0, 0, of_encoding, 0, 0});

  protocol::CostResult out;
  out.model = name, out.encoding = config.encoding.key;
  out.layers = config.layers, out.width = config.width;
  out.length = length;
  for (const Part& part : parts) {
    out.published.macs += part.published_macs;
    out.executed.macs += part.executed_macs;
    out.published.flops += 2 * part.published_macs + part.published_flops;
    out.executed.flops += 2 * part.executed_macs + part.executed_flops;
    out.parts.push_back({part.name, part.executed_macs, part.parameters});
  }
  out.executed.parameters = all;
  // A tied head counts as a matrix of its own in the published numbers.
  const bool tied = config.tie_embeddings && config.head.present;
  out.published.parameters = all + (tied ? embedding_size(sizes_of(config, length)) : 0);
  for (protocol::Count* count : {&out.published, &out.executed}) {
    count->parameters_mi = count->parameters / (1 << 20);
  }
  out.flops = out.executed.flops;
  out.macs = out.executed.macs;
  out.parameters = out.executed.parameters;
  constexpr std::int64_t kFloat = 4;
  out.memory_bytes = static_cast<double>(
      model::memory_bytes(config, static_cast<std::int64_t>(all) * kFloat, kFloat, length));
  out.conventions = {
      "published: the conventions of TAPE's Table 3 (arXiv 2501.00712): full N x N attention, head "
      "not tied, TAPE's state as two value streams of full width, its post-attention linear left "
      "out; the paper prints parameters in units of 2^20",
      "executed: " + seen_by_a_query(config) +
          ", one value stream of head width for TAPE's state, every matrix; parts are executed "
          "multiply-accumulates",
      "FLOPs are 2 a multiply-accumulate plus the encoding's operations on channels and scores; "
      "executed ones hold softmax and the MLP's gate too",
      "memory: float32 weights and activations of one layer; no N x N array is held"};
  if (config.encoder_layers > 0) {
    out.conventions.insert(out.conventions.begin(),
                           "the encoder reads " + std::to_string(length) +
                               " tokens, and the decoder as many; its layers attend to its own "
                               "tokens and to all of the encoder's");
  }
  return out;
}

}  // namespace phasescope::analysis
