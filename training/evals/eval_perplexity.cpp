#include "training/evals/eval_perplexity.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "analysis/statistics.h"
#include "analysis/texts.h"
#include "formats/error.h"
#include "kernels/cuda/attention_cuda.h"
#include "model/attention/cuda_attention.h"
#include "model/loss.h"
#include "training/corpus.h"

namespace phasescope::training {
namespace {

using nlohmann::json;

constexpr int64_t kBatchTokens = 4096;  // read at once
constexpr int64_t kPositionBuckets = 64;
// What a model without a tokenizer reads.
constexpr const char* kRandomIds = "texts of seeded random ids";

// ---- What was asked for --------------------------------------------------------------------------

enum class Metric { bits_per_byte, bits_per_token, perplexity };
constexpr std::pair<const char*, Metric> kMetrics[] = {{"bits_per_byte", Metric::bits_per_byte},
                                                       {"bits_per_token", Metric::bits_per_token},
                                                       {"perplexity", Metric::perplexity}};

const char* name_of(Metric metric) {
  return std::ranges::find(kMetrics, metric, &std::pair<const char*, Metric>::second)->first;
}

Metric metric_of(const std::string& name) {
  for (const auto& [known, metric] : kMetrics) {
    if (name == known) return metric;
  }
  throw formats::bad_usage("no such metric: \"" + name + "\"", "metric",
                           "bits_per_byte, bits_per_token or perplexity");
}

struct Request {
  std::vector<int64_t> lengths;  // rising
  WindowRule rule;
  Metric metric = Metric::bits_per_byte;
  int64_t texts = 0;  // 0: all
  std::uint64_t seed = 0;
  model::Backend backend = model::Backend::fused;
  std::string corpus = "desk";
  std::optional<formats::NamedText> given;  // one text instead of a collection
};

int64_t longest_context(const std::vector<EvalModel>& models) {
  int64_t longest = 1;
  for (const EvalModel& entry : models) longest = std::max(longest, entry.model->config().context);
  return longest;
}

std::vector<int64_t> lengths_of(const json& params, const std::vector<EvalModel>& models) {
  std::vector<int64_t> lengths;
  if (params.contains("lengths")) {
    lengths = params.at("lengths").get<std::vector<int64_t>>();
  } else {
    const int64_t context = longest_context(models);
    lengths = {context, 2 * context, 4 * context};
  }
  std::sort(lengths.begin(), lengths.end());
  if (lengths.empty() || lengths.front() < 1) {
    throw formats::bad_usage("lengths must be whole numbers above 0", "lengths");
  }
  return lengths;
}

// "corpus" (true or "desk": the bundled texts; a path) or "input": {"text", "name"}.
void read_source(const json& params, Request& request) {
  const json corpus = params.value("corpus", json("desk"));
  if (corpus.is_string()) request.corpus = corpus.get<std::string>();
  const json input = params.value("input", json::object());
  for (const char* key : {"text", "prompt"}) {
    if (!input.contains(key)) continue;
    request.corpus = input.value("name", "the text");
    request.given = {request.corpus, input.at(key).get<std::string>()};
  }
}

Request request_of(const json& params, const std::vector<EvalModel>& models) {
  try {
    Request request;
    request.lengths = lengths_of(params, models);
    request.rule = WindowRule::read(params.value("window", "disjoint"));
    request.metric = metric_of(params.value("metric", "bits_per_byte"));
    request.texts = params.value("trials", int64_t{0});
    request.seed = params.value("seed", std::uint64_t{0});
    read_source(params, request);
    request.backend = model::backend_named(params.value("backend", "fused"));
    if (request.texts < 0) throw formats::bad_usage("trials must be 0 (all) or more", "trials");
    return request;
  } catch (const json::exception& error) {
    throw formats::bad_usage("an option of the task has the wrong type", "eval", error.what());
  }
}

// ---- Reading -------------------------------------------------------------------------------------

struct Text {
  std::vector<int64_t> ids;
  std::vector<double> bytes;  // of each token; empty where ids were drawn
};

// What one model reads, and what is measured on it.
struct Reading {
  std::vector<Text> texts;
  std::string source;
  Metric metric = Metric::bits_per_byte;
};

bool reads_desk_texts(const Request& request) { return !request.given && request.corpus == "desk"; }

std::vector<formats::NamedText> chosen_texts(const Request& request) {
  if (request.given) return {*request.given};
  std::vector<formats::NamedText> all = read_validation_texts(request.corpus);
  if (request.texts == 0) return all;
  const std::size_t wanted = std::min(all.size(), static_cast<std::size_t>(request.texts));
  std::vector<formats::NamedText> chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(all[i * all.size() / wanted]);
  return chosen;
}

std::vector<Text> tokenised(const formats::Tokenizer& tokenizer,
                            const std::vector<formats::NamedText>& texts) {
  std::vector<Text> read;
  for (const formats::NamedText& named : texts) {
    formats::TokenizedText tokens = tokenizer.encode(named.text, formats::Template::leave_out);
    Text text;
    text.ids = std::move(tokens.ids);
    for (const formats::TextSpan& span : tokens.spans) {
      text.bytes.push_back(static_cast<double>(span.end - span.begin));
    }
    read.push_back(std::move(text));
  }
  return read;
}

// One window of the largest length each.
std::vector<Text> random_ids(const model::ModelConfig& config, const Request& request) {
  const int64_t count = request.texts > 0 ? request.texts : analysis::kRandomTexts;
  std::vector<Text> read;
  for (analysis::Text& text :
       analysis::random_texts(count, request.lengths.back(), config.vocab_size, request.seed)
           .items) {
    read.push_back({std::move(text.ids), {}});
  }
  return read;
}

// A model without a tokenizer reads random ids in place of the bundled texts. They have no bytes.
Reading reading_of(const EvalModel& entry, const Request& request) {
  if (const formats::Tokenizer* tokenizer = entry.model->tokenizer.get()) {
    const std::string source = request.given               ? "given text"
                               : reads_desk_texts(request) ? "validation texts"
                                                           : "texts of " + request.corpus;
    return {tokenised(*tokenizer, chosen_texts(request)), source, request.metric};
  }
  if (!reads_desk_texts(request)) {
    throw formats::bad_input("the model has no tokenizer, so it cannot read a text", entry.name,
                             "leave the text out, and it reads seeded random ids");
  }
  return {random_ids(entry.model->config(), request), kRandomIds,
          request.metric == Metric::bits_per_byte ? Metric::bits_per_token : request.metric};
}

std::optional<int64_t> beginning_id(const model::Model& model) {
  return model.tokenizer ? model.tokenizer->bos_id() : std::nullopt;
}

// Losses in nats of the windows' tokens, (windows, n): the beginning id first where the model has
// one, otherwise the token before the window. At the beginning of a text there is none: the first
// token stands in for it, and its loss is none.
at::Tensor losses_of(const model::Model& model, const Text& text,
                     std::span<const EvalWindow> windows, const model::ForwardOptions& options) {
  const int64_t n = windows.front().length;
  const auto bos = beginning_id(model);
  std::vector<int64_t> ids;
  for (const EvalWindow& window : windows) {
    const auto before = text.ids[static_cast<std::size_t>(std::max<int64_t>(window.begin - 1, 0))];
    ids.push_back(bos.value_or(before));
    ids.insert(ids.end(), text.ids.begin() + window.begin, text.ids.begin() + window.begin + n);
  }
  const at::Tensor batch =
      at::from_blob(ids.data(), {static_cast<int64_t>(windows.size()), n + 1}, at::kLong);
  return model::token_losses(model.decoder, batch, options).to(at::kDouble).contiguous();
}

// A text's share in a mean: the sum of the losses and what they are divided by.
struct TextSum {
  double sum = 0, weight = 0;
};

// Sums by text: of the tokens that count, and of every position.
class Sums {
 public:
  Sums(std::size_t texts, int64_t n, bool by_token)
      : by_token_(by_token), counted_(texts), by_position_(texts) {
    for (auto& row : by_position_) row.resize(static_cast<std::size_t>(n));
  }

  // Losses of the window's tokens from the one at `first_known` on.
  void add(std::size_t text_index, const Text& text, const EvalWindow& window, const double* losses,
           int64_t first_known) {
    for (int64_t i = first_known; i < window.length; ++i) {
      const double weight = by_token_ ? 1 : text.bytes[static_cast<std::size_t>(window.begin + i)];
      TextSum& place = by_position_[text_index][static_cast<std::size_t>(i)];
      place.sum += losses[i];
      place.weight += weight;
      if (i < window.count_from) continue;
      counted_[text_index].sum += losses[i];
      counted_[text_index].weight += weight;
    }
  }

  // Positions [begin, end) alone.
  std::vector<TextSum> between(int64_t begin, int64_t end) const {
    std::vector<TextSum> sums(by_position_.size());
    for (std::size_t t = 0; t < sums.size(); ++t) {
      for (int64_t i = begin; i < end; ++i) {
        sums[t].sum += by_position_[t][static_cast<std::size_t>(i)].sum;
        sums[t].weight += by_position_[t][static_cast<std::size_t>(i)].weight;
      }
    }
    return sums;
  }

  const std::vector<TextSum>& counted() const { return counted_; }

  int64_t texts_read() const {
    return std::count_if(counted_.begin(), counted_.end(),
                         [](const TextSum& sum) { return sum.weight > 0; });
  }

 private:
  bool by_token_;  // whether means are a token's or a byte's
  std::vector<TextSum> counted_;
  std::vector<std::vector<TextSum>> by_position_;
};

// `kernels` gathers what ran attention.
Sums read_windows(const EvalModel& entry, const Reading& reading, const Request& request, int64_t n,
                  model::KernelNames& kernels, protocol::Progress& progress) {
  const at::NoGradGuard no_gradients;
  model::ForwardOptions options;
  options.backend = request.backend;
  options.kernels = &kernels;
  options.cancelled = [&progress] { return progress.cancelled(); };
  const bool has_bos = beginning_id(*entry.model).has_value();
  const std::vector<Text>& texts = reading.texts;
  Sums sums(texts.size(), n, reading.metric != Metric::bits_per_byte);
  const auto at_once = static_cast<std::size_t>(std::max<int64_t>(1, kBatchTokens / n));
  for (std::size_t t = 0; t < texts.size(); ++t) {
    const auto windows = windows_of(request.rule, static_cast<int64_t>(texts[t].ids.size()), n);
    for (std::size_t begin = 0; begin < windows.size(); begin += at_once) {
      progress.throw_if_cancelled();
      const auto part =
          std::span(windows).subspan(begin, std::min(at_once, windows.size() - begin));
      const at::Tensor losses = losses_of(*entry.model, texts[t], part, options);
      for (std::size_t w = 0; w < part.size(); ++w) {
        const int64_t first_known = has_bos || part[w].begin > 0 ? 0 : 1;
        sums.add(t, texts[t], part[w], losses.data_ptr<double>() + static_cast<int64_t>(w) * n,
                 first_known);
      }
    }
    progress.progress(static_cast<double>(t + 1) / static_cast<double>(texts.size()),
                      entry.name + " at " + std::to_string(n));
  }
  return sums;
}

// ---- Results -------------------------------------------------------------------------------------

double in_bits(double nats) { return nats / std::numbers::ln2; }

double in_unit(double nats, Metric metric) {
  return metric == Metric::perplexity ? std::exp(nats) : in_bits(nats);
}

// Of ids drawn evenly, or of bytes.
double chance_of(const EvalModel& entry, Metric metric) {
  const auto ids = static_cast<double>(entry.model->config().vocab_size);
  if (metric == Metric::bits_per_byte) return 8;
  return metric == Metric::perplexity ? ids : std::log2(ids);
}

// Mean over all tokens of all texts, its interval by drawing texts again.
protocol::Interval interval_of(const std::vector<TextSum>& sums, std::uint64_t seed) {
  std::vector<double> means, weights;
  for (const TextSum& text : sums) {
    means.push_back(text.sum / text.weight);  // NaN of a text without windows: left out
    weights.push_back(text.weight);
  }
  return analysis::bootstrap_interval(means, weights, seed);
}

protocol::EvalRow row_of(const EvalModel& entry, const Request& request, Metric metric, int64_t n,
                         const std::vector<TextSum>& sums, int64_t texts) {
  const protocol::Interval interval = interval_of(sums, request.seed);
  protocol::EvalRow row;
  row.model = entry.name;
  row.metric = name_of(metric);
  row.length = n;
  row.value = in_unit(interval.mean, metric);
  row.low = in_unit(interval.low, metric);
  row.high = in_unit(interval.high, metric);
  row.n = texts;
  row.seed = static_cast<int64_t>(request.seed);
  row.window = request.rule.name();
  return row;
}

int64_t bucket_width(int64_t longest) { return std::max<int64_t>(1, longest / kPositionBuckets); }

protocol::PositionCurve curve_of(const EvalModel& entry, const Request& request,
                                 const Reading& reading, const Sums& sums, int64_t longest) {
  const bool by_byte = reading.metric == Metric::bits_per_byte;
  protocol::PositionCurve curve;
  curve.model = entry.name;
  curve.metric = name_of(by_byte ? Metric::bits_per_byte : Metric::bits_per_token);
  curve.source = reading.source;
  curve.trained_length = entry.model->config().context;
  curve.texts = sums.texts_read();
  const int64_t width = bucket_width(longest);
  for (int64_t begin = 0; begin < longest; begin += width) {
    const int64_t end = std::min(begin + width, longest);
    const protocol::Interval interval = interval_of(sums.between(begin, end), request.seed);
    curve.position.push_back(0.5 * static_cast<double>(begin + end - 1));
    curve.bits.push_back(in_bits(interval.mean));
    curve.low.push_back(in_bits(interval.low));
    curve.high.push_back(in_bits(interval.high));
  }
  return curve;
}

protocol::Provenance provenance_of(const EvalModel& entry, const Request& request,
                                   const Reading& reading, const model::KernelNames& kernels) {
  protocol::Provenance provenance;
  provenance.models = {entry.name};
  provenance.model_hashes = {entry.model->report.sha256};
  provenance.kernel = model::joined(kernels);
  if (kernels.contains(kernels::kCudaBackend)) provenance.device += model::kAttentionOnCuda;
  provenance.seed = static_cast<int64_t>(request.seed);
  provenance.note = std::to_string(reading.texts.size()) + " " + reading.source +
                    "; interval by text bootstrap; window rule: " + request.rule.name();
  if (reading.source == kRandomIds) {
    provenance.note += "; the model has no tokenizer, so that its ids have no bytes";
  }
  return provenance;
}

void require_windows(const Sums& sums, int64_t n, const Request& request) {
  if (sums.texts_read() > 0) return;
  throw formats::bad_input("no text has the " + std::to_string(n) + " tokens of one window",
                           request.corpus, "ask for a smaller length or give longer texts");
}

void evaluate_model(const EvalModel& entry, const Request& request, const Reading& reading,
                    protocol::Progress& progress, protocol::EvalResult& result) {
  const int64_t longest = request.lengths.back();
  const bool by_position = request.rule.kind == WindowRule::Kind::per_position;
  const double parts = by_position ? 1 : static_cast<double>(request.lengths.size());
  double done = 0;
  model::KernelNames kernels;
  for (const int64_t n : request.lengths) {
    if (by_position && n != longest) continue;
    protocol::PartOfProgress part(progress, done / parts, (done + 1) / parts);
    done += 1;
    const Sums sums = read_windows(entry, reading, request, n, kernels, part);
    require_windows(sums, n, request);
    if (!by_position) {
      result.rows.push_back(
          row_of(entry, request, reading.metric, n, sums.counted(), sums.texts_read()));
    }
    if (n != longest) continue;
    for (const int64_t end : request.lengths) {
      if (!by_position) break;
      const int64_t begin = std::max<int64_t>(0, end - bucket_width(longest));
      result.rows.push_back(
          row_of(entry, request, reading.metric, end, sums.between(begin, end), sums.texts_read()));
    }
    result.positions.push_back(curve_of(entry, request, reading, sums, longest));
  }
  result.provenance.push_back(provenance_of(entry, request, reading, kernels));
}

protocol::EvalResult evaluate(const std::vector<EvalModel>& models, const json& params,
                              protocol::Progress& progress) {
  const Request request = request_of(params, models);
  protocol::EvalResult result;
  result.task = "perplexity";
  const auto count = static_cast<double>(models.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    const auto index = static_cast<double>(m);
    protocol::PartOfProgress part(progress, index / count, (index + 1) / count);
    const Reading reading = reading_of(models[m], request);
    evaluate_model(models[m], request, reading, part, result);
    const double chance = chance_of(models[m], reading.metric);
    const std::string metric = name_of(reading.metric);
    const bool alike = m == 0 || result.metric == metric;
    result.metric = alike ? metric : "bits";
    result.chance = m == 0 || (alike && result.chance == chance) ? chance : std::nan("");
  }
  return result;
}

int64_t number_after(const std::string& text, std::size_t colon, const char* rule) {
  int64_t value = 0;
  const char* begin = text.data() + colon + 1;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw formats::bad_usage(
        std::string("expected ") + rule + ":N with N above 0 but got \"" + text + "\"", "window");
  }
  return value;
}

}  // namespace

WindowRule WindowRule::read(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  WindowRule rule;
  if (kind == "disjoint" && colon == text.npos) return rule;
  if (kind == "per_position" && colon == text.npos) return {Kind::per_position, 0};
  if (kind == "sliding") rule.kind = Kind::sliding;
  if (kind == "last_k") rule.kind = Kind::last_k;
  if (rule.kind == Kind::disjoint) {
    throw formats::bad_usage("no such window rule: \"" + text + "\"", "window",
                             "disjoint, sliding:STRIDE, last_k:K or per_position");
  }
  if (colon != text.npos) rule.stride = number_after(text, colon, kind.c_str());
  return rule;
}

std::string WindowRule::name() const {
  switch (kind) {
    case Kind::disjoint:
      return "disjoint";
    case Kind::sliding:
      return "sliding, stride " + std::to_string(stride);
    case Kind::last_k:
      return "last_k, k " + std::to_string(stride);
    case Kind::per_position:
      break;
  }
  return "per_position";
}

std::vector<EvalWindow> windows_of(const WindowRule& rule, int64_t tokens, int64_t n) {
  std::vector<EvalWindow> windows;
  const bool overlapping =
      rule.kind == WindowRule::Kind::sliding || rule.kind == WindowRule::Kind::last_k;
  const int64_t stride = overlapping ? std::min(rule.stride, n) : n;
  for (int64_t begin = 0; begin + n <= tokens; begin += stride) {
    const bool whole = !overlapping || (rule.kind == WindowRule::Kind::sliding && begin == 0);
    windows.push_back({begin, n, whole ? 0 : n - stride});
  }
  return windows;
}

EvalTask perplexity_task() {
  return {
      "perplexity",
      "Loss against length",
      "Bits a byte (or a token, or perplexity) of held-out text at each length, and the loss by "
      "position in windows of the largest one. A model without a tokenizer reads seeded random "
      "ids.",
      "window rules of CAPE (arXiv 2405.14722: last_k) and TAPA (arXiv 2509.12635: sliding)",
      {{"lengths", json(), "tokens read; default: the trained length, twice and four times it"},
       {"window", "disjoint", "disjoint, sliding:STRIDE, last_k:K or per_position"},
       {"metric", "bits_per_byte",
        "bits_per_byte, bits_per_token or perplexity (a token); a model without a tokenizer, "
        "whose ids have no bytes, has bits_per_token for bits_per_byte"},
       {"trials", 0, "texts read, evenly spread over the collection; 0: all"},
       {"corpus", "desk",
        "desk (the bundled held-out texts; without a tokenizer random ids), a .jsonl or a text "
        "file"},
       {"seed", 0, "of the bootstrap and of random ids"}},
      evaluate};
}

}  // namespace phasescope::training
