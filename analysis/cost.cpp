#include "analysis/cost.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "analysis/model_sides.h"
#include "formats/error.h"
#include "model/encoding.h"
#include "model/open_model.h"
#include "model/weights.h"

namespace phasescope::analysis {
namespace {

// Everything a count needs, as doubles: products pass 2^53 late, integers would pass 2^31 early.
struct Sizes {
  double tokens, width, layers, heads, kv_heads, head_dim, ffn, vocabulary;
  double mlp_matrices;  // gate, up, down; without a gate two
  double embedding;     // width of the embedding
  double all_pairs;     // of one head and layer
  double seen_pairs;    // those that a query sees, on average over the layers
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
  return {n,
          of(config.width),
          of(config.layers),
          of(config.heads),
          of(config.kv_heads),
          of(config.head_dim),
          of(config.ffn_width),
          of(config.vocab_size),
          config.mlp.gated ? 3.0 : 2.0,
          of(config.embedding.width > 0 ? config.embedding.width : config.width),
          n * n,
          seen_pairs(config, n)};
}

// What an encoding adds: multiply-accumulates of each part, and element operations (exponentials,
// cosines, additions) on the scores, which count as one FLOP each.
struct Extra {
  std::string name;
  double published_macs = 0, executed_macs = 0;
  double published_flops = 0, executed_flops = 0;  // beyond 2 a multiply-accumulate
};

double number_option(const model::Encoding& encoding, const char* key, double fallback) {
  const auto at = encoding.options().find(key);
  return at != encoding.options().end() && at->is_number() ? at->get<double>() : fallback;
}

std::string text_option(const model::Encoding& encoding, const char* key) {
  return encoding.options().value(key, std::string{});
}

Extra rotation_cost(const Sizes& s) {
  // Two multiplications and one addition for each channel of q and k.
  const double flops = 3 * s.layers * s.tokens * (s.heads + s.kv_heads) * s.head_dim;
  return {"rotation of q and k", 0, 0, flops, flops};
}

std::vector<Extra> rope_cost(const model::Encoding&, const Sizes& s) { return {rotation_cost(s)}; }

std::vector<Extra> table_cost(const model::Encoding&, const Sizes& s) {
  return {{"bias on the scores", 0, 0, s.layers * s.heads * s.all_pairs,
           s.layers * s.heads * s.seen_pairs}};
}

std::vector<Extra> tapa_cost(const model::Encoding&, const Sizes& s) {
  // Two multiplications and a cosine on each score; the dot products stay those of plain attention.
  return {{"cosine of the phase", 0, 0, 3 * s.layers * s.heads * s.all_pairs,
           3 * s.layers * s.heads * s.seen_pairs}};
}

// Networks and products that every pair costs, in plain tensor operations, which skip no masked
// pair but whole blocks: the same count on both sides.
Extra on_pairs(const char* name, const Sizes& s, double macs) {
  return {name, s.layers * macs * s.all_pairs, s.layers * macs * s.all_pairs, 0, 0};
}
Extra on_tokens(const char* name, const Sizes& s, double macs) {
  return {name, s.layers * macs * s.tokens, s.layers * macs * s.tokens, 0, 0};
}

Extra fire_network(const Sizes& s, double hidden) {
  return on_pairs("network of the bias", s, hidden * (1 + s.heads));
}

std::vector<Extra> fire_cost(const model::Encoding& encoding, const Sizes& s) {
  return {fire_network(s, number_option(encoding, "hidden", 32))};
}

std::vector<Extra> cape_cost(const model::Encoding& encoding, const Sizes& s) {
  const double hidden = number_option(encoding, "hidden", 32);
  const std::string form = text_option(encoding, "form");
  const bool conv = form == "conv";
  const bool both = conv || form == "concat" || form == "concat_residual";
  const double macs = (both ? 3 : 2) * s.heads * hidden * (conv ? 3 : 1);
  const char* name = "correction of the scores";
  if (text_option(encoding, "base") == "fire" && form != "content") {
    return {fire_network(s, number_option(encoding, "base_hidden", 32)), on_pairs(name, s, macs)};
  }
  if (conv) return {on_pairs(name, s, macs)};
  return {{name, s.layers * macs * s.all_pairs, s.layers * macs * s.seen_pairs, 0, 0}};
}

std::vector<Extra> shaw_cost(const model::Encoding& encoding, const Sizes& s) {
  const double keys = 2 * number_option(encoding, "window", 16) + 1;
  return {on_tokens("products with relative keys", s, s.heads * keys * s.head_dim)};
}

// One relative key for each distance of the text.
std::vector<Extra> transformer_xl_cost(const model::Encoding&, const Sizes& s) {
  return {on_tokens("relative keys", s, s.width * s.heads * s.head_dim),
          on_pairs("products with relative keys", s, s.heads * s.head_dim)};
}

std::vector<Extra> cope_cost(const model::Encoding& encoding, const Sizes& s) {
  return {on_tokens("products with positions", s,
                    s.heads * number_option(encoding, "positions", 64) * s.head_dim)};
}

// W^n by the bits of n: one product of every token for each bit, of q and of k.
std::vector<Extra> ape_cost(const model::Encoding&, const Sizes& s) {
  const double bits = std::max(1.0, std::ceil(std::log2(s.tokens)));
  return {on_tokens("powers of matrices", s, 2 * bits * s.heads * s.head_dim * s.head_dim)};
}

// The same of two axes, each with half of a head.
std::vector<Extra> ape_grid_cost(const model::Encoding& encoding, const Sizes& s) {
  const double columns = number_option(encoding, "columns", 16);
  const double largest = std::max({2.0, columns, s.tokens / columns});
  const double bits = std::ceil(std::log2(largest));
  return {on_tokens("powers of matrices", s, 2 * bits * s.heads * s.head_dim * s.head_dim / 2)};
}

// One product of every token for each level of the tree and each branch.
std::vector<Extra> ape_tree_cost(const model::Encoding& encoding, const Sizes& s) {
  const double branches = number_option(encoding, "branches", 2);
  const double levels =
      branches > 1 ? std::ceil(std::log(s.tokens * (branches - 1) + 1) / std::log(branches))
                   : s.tokens;
  return {on_tokens("matrices of branches", s,
                    2 * levels * branches * s.heads * s.head_dim * s.head_dim)};
}

// The basis on both sides, then the rotation.
std::vector<Extra> ape_periodic_cost(const model::Encoding&, const Sizes& s) {
  return {on_tokens("change of basis", s, 2 * s.heads * s.head_dim * s.head_dim), rotation_cost(s)};
}

std::vector<Extra> tape_cost(const model::Encoding& encoding, const Sizes& s) {
  const double units =
      number_option(encoding, "hidden", 0) > 0 ? number_option(encoding, "hidden", 0) : 4 * s.heads;
  const std::string updates = text_option(encoding, "contextualize");
  const bool attention = updates == "both" || updates == "attention_only";
  const bool mlp = updates == "both" || updates == "mlp_only";
  const bool equivariant = encoding.options().value("equivariance", true);
  const std::string form = text_option(encoding, "tensor_form");
  // A number of each kind for every channel, in place of every plane, doubles what the state costs.
  const double states = !equivariant || form == "adavector" ? 2 : 1;
  const double channels = states * s.layers * s.heads * s.head_dim;  // of one stream
  std::vector<Extra> extras{rotation_cost(s)};
  if (attention) {
    extras.push_back(
        {"second value stream", 2 * channels * s.all_pairs, channels * s.seen_pairs, 0, 0});
    extras.push_back(
        {"post-attention linear", 0, s.layers * s.tokens * s.heads * s.heads * s.head_dim, 0, 0});
  }
  if (mlp) {
    extras.push_back({"position gate", s.layers * s.tokens * s.width * units,
                      s.layers * s.tokens * s.width * units, 0, 0});
    // The gate is applied between W1 and W2 where no H x H matrix stands for them.
    if (states == 2) {
      const double macs = 4 * units * s.heads * s.head_dim;
      extras.push_back(on_tokens("position MLP", s, macs));
      return extras;
    }
    // Published: W1 and W2 over d/2 places. Executed: the H x H matrix of each token, times d.
    const double executed = s.layers * s.tokens * s.heads * s.heads * (units + s.head_dim);
    extras.push_back({"position MLP", s.layers * s.tokens * 2 * s.heads * units * s.head_dim / 2,
                      executed, 0, 0});
  }
  return extras;
}

using ExtraCost = std::vector<Extra> (*)(const model::Encoding&, const Sizes&);

// Encodings without a line cost nothing on top.
const std::map<std::string, ExtraCost>& extra_costs() {
  static const std::map<std::string, ExtraCost> list = {
      {"rope", rope_cost},
      {"alibi", table_cost},
      {"kerple_log", table_cost},
      {"cape", cape_cost},
      {"tape", tape_cost},
      {"tapa", tapa_cost},
      {"kerple_power", table_cost},
      {"t5", table_cost},
      {"fire", fire_cost},
      {"xpos", rope_cost},
      {"randomized_rope", rope_cost},
      {"shaw", shaw_cost},
      {"transformer_xl", transformer_xl_cost},
      {"cope", cope_cost},
      {"ape_sequence", ape_cost},
      {"ape_grid", ape_grid_cost},
      {"ape_tree", ape_tree_cost},
      {"ape_periodic", ape_periodic_cost},
  };
  return list;
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
  const auto extra = extra_costs().find(config.encoding.key);
  if (extra != extra_costs().end()) {
    for (const Extra& e : extra->second(*encoding, sizes)) {
      parts.push_back({config.encoding.key + ": " + e.name, e.published_macs, e.executed_macs, 0,
                       e.published_flops, e.executed_flops});
    }
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
