#include "analysis/cost.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>

#include "analysis/model_sides.h"
#include "formats/error.h"
#include "model/encoding.h"
#include "model/encoding_cost.h"
#include "model/open_model.h"
#include "model/weights.h"

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

double seen_pairs(const model::ModelConfig& config, double n) {
  const auto local = static_cast<double>(config.attention.local_layers.size());
  const auto layers = static_cast<double>(config.layers);
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

struct Part {
  std::string name;
  double published_macs = 0, executed_macs = 0, parameters = 0;
  double published_flops = 0, executed_flops = 0;  // beyond 2 a multiply-accumulate
};

// The same on both sides.
Part matrix_part(const std::string& name, double tokens, double size) {
  return {name, size * tokens, size * tokens, size, 0, 0};
}

std::vector<Part> plain_parts(const Sizes& s, const model::ModelConfig& config) {
  const double query_width = s.heads * s.head_dim, key_width = s.kv_heads * s.head_dim;
  const double projections = s.layers * s.width * (2 * query_width + 2 * key_width);
  const double mlp = s.layers * s.mlp_matrices * s.width * s.ffn;
  const double scores = s.layers * s.heads;
  // Softmax: subtract, exponential, sum, divide.
  const double softmax = 4;
  std::vector<Part> parts = {
      {"projections q, k, v, o", projections * s.tokens, projections * s.tokens, projections, 0, 0},
      {"scores and weighted values", 2 * scores * s.head_dim * s.all_pairs,
       2 * scores * s.head_dim * s.seen_pairs, 0, 0, softmax * scores * s.seen_pairs},
      {"MLP", mlp * s.tokens, mlp * s.tokens, mlp, 0, 2 * s.layers * s.ffn * s.tokens},
      {"embedding", 0, 0, s.vocabulary * s.embedding, 0, 0},
  };
  if (config.head.present)
    parts.push_back(matrix_part("head", s.tokens, s.vocabulary * s.embedding));
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
  return name.find(".encoding.") != std::string::npos;
}

}  // namespace

protocol::CostResult analyse_cost(const model::ModelConfig& config, const std::string& name,
                                  std::int64_t length) {
  if (length < 1) throw formats::bad_usage("a length must be at least 1", "length");
  require_one_stack(config, "cost");
  const std::unique_ptr<model::Encoding> encoding = model::make_encoding(config);
  const Sizes sizes = sizes_of(config, length);
  std::vector<Part> parts = plain_parts(sizes, config);
  for (const model::EncodingCost& extra : encoding->cost(sizes)) {
    parts.push_back({config.encoding.key + ": " + extra.name, extra.published_macs,
                     extra.executed_macs, 0, extra.published_flops, extra.executed_flops});
  }
  const auto any = [](const std::string&) { return true; };
  const double all = stored_parameters(config, *encoding, any);
  const double of_encoding = stored_parameters(config, *encoding, is_encoding_tensor);
  parts.push_back({config.encoding.key + ": parameters", 0, 0, of_encoding, 0, 0});

  protocol::CostResult out;
  out.model = name;
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
  out.published.parameters = all + (tied ? sizes.vocabulary * sizes.embedding : 0);
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
      std::string("executed: ") +
          (config.attention.causal ? "causal pairs" : "all pairs, on both sides") +
          (config.attention.window > 0 && !config.attention.local_layers.empty()
               ? " (of local layers those within the window)"
               : "") +
          ", one value stream of head width for TAPE's state, every matrix; parts are executed "
          "multiply-accumulates",
      "FLOPs are 2 a multiply-accumulate plus the encoding's operations on channels and scores; "
      "executed ones hold softmax and the MLP's gate too",
      "memory: float32 weights and activations of one layer; no N x N array is held"};
  return out;
}

}  // namespace phasescope::analysis
