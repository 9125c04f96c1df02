#include "model/checkpoints/constructed.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/sha256.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kVocabulary = 256;  // and channels of a head
constexpr std::int64_t kSpare = 8;         // channels behind the blocks

ModelConfig config_of(EncodingConfig encoding, std::int64_t blocks, std::int64_t layers,
                      std::int64_t context) {
  ModelConfig config;
  config.vocab_size = config.head_dim = kVocabulary;
  config.width = blocks * kVocabulary + kSpare;
  config.layers = layers;
  config.heads = config.kv_heads = 2;
  config.ffn_width = 1;
  config.context = context;
  config.encoding = std::move(encoding);
  config.tokenizer = {{"type", "bytes"}, {"vocab_size", kVocabulary}, {"bos", 0}};
  config.note = "constructed: its heads are known exactly";
  return config;
}

// Norms of 1 and nothing else.
Weights blank_weights(const ModelConfig& config) {
  Weights weights = empty_weights(config);
  const auto made = make_encoding(config);
  for (const TensorSpec& spec : tensor_specs(config, *made)) {
    if (spec.optional) continue;
    const bool norm = spec.name.find("norm") != std::string::npos;
    tensor_at(weights, spec.name) = norm ? at::ones(spec.shape) : at::zeros(spec.shape);
  }
  return weights;
}

// What a row of squared length r is multiplied by before a projection reads it.
double norm_gain(const ModelConfig& config, double r) {
  return 1 / std::sqrt(r / static_cast<double>(config.width) + config.norm_eps);
}

// Tensors of a model in which nothing happens yet: tokens and norms alone.
class Builder {
 public:
  Builder(EncodingConfig encoding, std::int64_t blocks, std::int64_t layers = 1,
          std::int64_t context = 256)
      : config_(config_of(std::move(encoding), blocks, layers, context)),
        weights_(blank_weights(config_)) {
    weights_.embedding.narrow(1, 0, kVocabulary).fill_diagonal_(1);
    weights_.embedding.select(1, constant()).fill_(1);
  }

  // The channel in which every token has 1.
  std::int64_t constant() const { return config_.width - kSpare; }
  double gain(double r) const { return norm_gain(config_, r); }
  LayerWeights& layer(std::int64_t index) {
    return weights_.layers[static_cast<std::size_t>(index)];
  }
  Weights& weights() { return weights_; }

  // The rows of a head in a projection (H d, C).
  static at::Tensor rows(const at::Tensor& projection, std::int64_t head) {
    return projection.narrow(0, head * kVocabulary, kVocabulary);
  }
  // Reads block `block` (from 1) of the residual, channel by channel.
  static void read(const at::Tensor& projection, std::int64_t head, std::int64_t block,
                   double factor) {
    rows(projection, head).narrow(1, (block - 1) * kVocabulary, kVocabulary).fill_diagonal_(factor);
  }
  // Token t of the value of a head goes into channel t + `by` of a block, times `factor`.
  static void write(const at::Tensor& output, std::int64_t head, std::int64_t block,
                    double factor = 1, std::int64_t by = 0) {
    const at::Tensor diagonal = at::eye(kVocabulary) * factor;
    output.narrow(0, (block - 1) * kVocabulary, kVocabulary)
        .narrow(1, head * kVocabulary, kVocabulary)
        .copy_(diagonal.roll(by, 0));
  }
  // The logits are `factor` times what the final norm leaves of a block.
  void predict_from(std::int64_t block, double factor) {
    weights_.head.narrow(1, (block - 1) * kVocabulary, kVocabulary).fill_diagonal_(factor);
  }
  // The factor of q and of k with which one common channel gives `score`, where both are read from
  // rows of squared length r.
  double for_score(double score, double r) const {
    return std::sqrt(score * std::sqrt(static_cast<double>(kVocabulary))) / gain(r);
  }

  Constructed done() { return {std::move(config_), std::move(weights_)}; }

 private:
  ModelConfig config_;
  Weights weights_;
};

// Squared length of a token's row, and of one to which another token was written.
constexpr double kToken = 2, kTwoTokens = 3;

Builder with_table(std::int64_t blocks, std::int64_t layers, std::int64_t bucket, double score,
                   std::int64_t context = 256) {
  Builder build({"t5", Json::object()}, blocks, layers, context);
  build.weights().encoding.at("table")[bucket][0] = score;
  return build;
}

// Copies the token that head 0 finds at distance 7 to block 2, which the logits read.
Builder copying(double score, double gain, std::int64_t context) {
  Builder build = with_table(2, 1, 7, score, context);
  Builder::read(build.layer(0).wv, 0, 1, 1 / build.gain(kToken));
  Builder::write(build.layer(0).wo, 0, 2);
  build.predict_from(2, gain);
  return build;
}

std::string hash_of(const Constructed& made) {
  formats::Sha256 hash;
  const auto encoding = make_encoding(made.config);
  for (const auto& [name, tensor] : named_tensors(made.config, *encoding, made.weights)) {
    const at::Tensor plain = tensor.contiguous();
    hash.update({static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()});
  }
  return hash.finish();
}

}  // namespace

Constructed uniform_heads() { return Builder({"none", Json::object()}, 1).done(); }

Constructed sink_head(double score) {
  Builder build({"none", Json::object()}, 1);
  const double factor = build.for_score(score, kToken);
  Builder::rows(build.layer(0).wq, 0)[0][build.constant()] = factor;
  Builder::rows(build.layer(0).wk, 0)[0][0] = factor;
  return build.done();
}

Constructed distance_head(std::int64_t delta, double score) {
  return with_table(1, 1, delta, score).done();
}

Constructed rotated_head(std::int64_t delta, double score) {
  Builder build({"rope", Json::object()}, 1);
  constexpr std::int64_t planes = kVocabulary / 2;
  // Every plane gives score / planes at distance delta.
  const double factor = build.for_score(score / planes, kToken);
  const at::Tensor angles =
      rope_frequencies(10000, kVocabulary, at::kDouble) * static_cast<double>(delta);
  const at::Tensor q = Builder::rows(build.layer(0).wq, 0).select(1, build.constant());
  q.narrow(0, 0, planes).copy_(angles.cos() * factor);
  q.narrow(0, planes, planes).copy_(-angles.sin() * factor);
  const at::Tensor k = Builder::rows(build.layer(0).wk, 0).select(1, build.constant());
  k.narrow(0, 0, planes).fill_(factor);
  return build.done();
}

Constructed duplicate_head(double score) {
  Builder build({"none", Json::object()}, 1);
  const double factor = build.for_score(score, kToken);
  Builder::read(build.layer(0).wq, 0, 1, factor);
  Builder::read(build.layer(0).wk, 0, 1, factor);
  return build.done();
}

Constructed induction_heads(double first, double second) {
  Builder build = with_table(3, 2, 1, first);
  Builder::read(build.layer(0).wv, 0, 1, 1 / build.gain(kToken));
  Builder::write(build.layer(0).wo, 0, 2);
  const double factor = build.for_score(second, kTwoTokens);
  Builder::read(build.layer(1).wq, 1, 1, factor);
  Builder::read(build.layer(1).wk, 1, 2, factor);
  Builder::read(build.layer(1).wv, 1, 1, 1 / build.gain(kTwoTokens));
  Builder::write(build.layer(1).wo, 1, 3);
  build.predict_from(3, 1);
  return build.done();
}

Constructed copying_head(double score, double gain) { return copying(score, gain, 256).done(); }

Constructed failing_head(double score, double gain) {
  constexpr std::int64_t trained = 113, last_bucket = 31;
  Builder build = copying(score, gain, trained);
  build.weights().encoding.at("table")[last_bucket][1] = score;
  Builder::read(build.layer(0).wv, 1, 1, 1 / build.gain(kToken));
  Builder::write(build.layer(0).wo, 1, 2, 3, 1);
  return build.done();
}

Constructed permutation_circuit() {
  constexpr std::int64_t kBos = 10, kOne = 11, kMargin = 12;  // channels; below them the digits
  ModelConfig config = config_of({"tape_circuit", Json::object()}, 1, 4, 4096);
  config.heads = config.kv_heads = 1, config.head_dim = 12, config.width = 16;
  Weights weights = blank_weights(config);
  weights.embedding.select(1, kOne).fill_(1);
  weights.embedding[0][kBos] = 1;
  for (std::int64_t digit = 0; digit < 10; ++digit) weights.embedding['0' + digit][digit] = 1;
  // Squared lengths of the row of [BOS]: its channel and the common one; the first doubled by layer
  // 0; with layer 2's -1.
  constexpr double kFirst = 2, kThird = 5, kFourth = 6;
  const auto put = [](const at::Tensor& matrix, std::int64_t row, std::int64_t column, double x) {
    matrix[row][column] = x;
  };
  LayerWeights& first = weights.layers[0];
  for (std::int64_t symbol = 0; symbol <= kBos; ++symbol) {
    put(first.wv, symbol, symbol, 1 / norm_gain(config, kFirst));
    put(first.wo, symbol, symbol, 1);
  }
  LayerWeights& third = weights.layers[2];  // less the mean of [BOS], 1 / i
  put(third.wv, 0, kBos, 1 / (2 * norm_gain(config, kThird)));
  put(third.wo, kMargin, 0, -1);
  LayerWeights& fourth = weights.layers[3];  // and the weight on [BOS]
  put(fourth.wk, 0, kBos, 1 / (2 * norm_gain(config, kFourth)));
  put(fourth.wv, 0, kBos, 1 / (2 * norm_gain(config, kFourth)));
  put(fourth.wo, kMargin, 0, 1);
  // "0" has 0, "1" the margin, which is 0 at [BOS] itself; other bytes are never said.
  weights.head.select(1, kOne).fill_(-1);
  put(weights.head, '0', kOne, 0), put(weights.head, '1', kOne, 0);
  put(weights.head, '1', kMargin, 1024), put(weights.head, '1', kBos, 1);
  return {std::move(config), std::move(weights)};
}

const std::vector<ConstructedEntry>& constructed_models() {
  static const std::vector<ConstructedEntry> list = {
      {"proof-uniform", "both heads uniform", uniform_heads},
      {"proof-sink", "head 0 reads [BOS] with score 4", [] { return sink_head(4); }},
      {"proof-previous", "head 0 reads the previous token, by RoPE, with score 40",
       [] { return rotated_head(1, 40); }},
      {"proof-distance7", "head 0 reads distance 7, by a t5 table, with score 6",
       [] { return distance_head(7, 6); }},
      {"proof-duplicate", "head 0 reads its own token's earlier places with score 6",
       [] { return duplicate_head(6); }},
      {"proof-induction", "layer 0 copies the previous token, layer 1 finds what followed before",
       [] { return induction_heads(40, 12); }},
      {"proof-copy7", "head 0 copies the token 7 back, the next one of texts of period 8",
       [] { return copying_head(6, 0.5); }},
      {"proof-fails", "trained for 113 tokens; head 1 fails past them",
       [] { return failing_head(40, 0.5); }},
      {"tape.circuit", "says whether the transpositions 0..9 of five things so far cancel out",
       permutation_circuit},
  };
  return list;
}

const ConstructedEntry* find_constructed(const std::string& name) {
  const auto& list = constructed_models();
  const auto found = std::ranges::find(list, name, &ConstructedEntry::name);
  return found == list.end() ? nullptr : &*found;
}

std::shared_ptr<const Model> opened(const Constructed& made, const std::string& name,
                                    at::ScalarType dtype) {
  const at::NoGradGuard no_gradients;
  Model model = *model_of(made.config, made.weights, name);
  model.report.sha256 = hash_of(made);
  model.report.bundled = true;
  return in_dtype(std::make_shared<const Model>(std::move(model)), dtype);
}

}  // namespace phasescope::model
