#include "training/evals/eval_perplexity.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/shift.h"
#include "formats/error.h"
#include "formats/sha256.h"
#include "formats/tokenizer.h"
#include "model/checkpoints/config_without_weights.h"
#include "model/checkpoints/tensor_io.h"
#include "model/loss.h"
#include "training/evals/eval_differences.h"
#include "training/evals/eval_sums.h"
#include "training/evals/eval_texts.h"
#include "training/evals/eval_windows.h"

namespace phasescope::training {
namespace {

constexpr std::int64_t kBatchTokens = 4096;  // read at once
constexpr std::int64_t kPositionBuckets = 64;
// Of a window: what a model has for each position is made before a text is looked at.
constexpr std::int64_t kLongestWindow = std::int64_t{1} << 24;

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
  std::vector<std::int64_t> lengths;  // rising
  WindowRule rule;
  Metric metric = Metric::bits_per_byte;
  EvalSource source;
  model::Backend backend = model::Backend::fused;
};

// `context`: the longest of the models.
std::vector<std::int64_t> lengths_of(std::vector<std::int64_t> lengths, std::int64_t context) {
  if (lengths.empty()) return {context, 2 * context, 4 * context};
  std::sort(lengths.begin(), lengths.end());
  if (lengths.back() > kLongestWindow) {
    throw formats::bad_usage("a window has " + std::to_string(kLongestWindow) +
                                 " tokens at most, not " + std::to_string(lengths.back()),
                             "lengths");
  }
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

Request request_of(const protocol::EvalRequest& asked, std::int64_t context) {
  return {.lengths = lengths_of(asked.perplexity.lengths, context),
          .rule = WindowRule::read(asked.perplexity.window),
          .metric = metric_of(asked.perplexity.metric),
          .source = source_of(asked, asked.perplexity.trials),
          .backend = model::backend_named(asked.running.backend)};
}

// ---- Reading -------------------------------------------------------------------------------------

std::optional<std::int64_t> beginning_id(const model::Model& model) {
  return model.tokenizer ? model.tokenizer->bos_id() : std::nullopt;
}

// Losses in nats of the windows' tokens, (windows, n). n tokens are read: the beginning id, where
// the model has one, otherwise the token before the window, and the window's own but the last. At
// the beginning of a text no token stands before: the first one stands in for it, and its loss is
// none.
at::Tensor losses_of(const model::Model& model, const EvalText& text,
                     std::span<const EvalWindow> windows, const model::ForwardOptions& options) {
  const std::int64_t n = windows.front().length;
  const auto bos = beginning_id(model);
  std::vector<std::int64_t> ids;
  for (const EvalWindow& window : windows) {
    const auto before =
        text.ids[static_cast<std::size_t>(std::max<std::int64_t>(window.begin - 1, 0))];
    ids.push_back(bos.value_or(before));
    ids.insert(ids.end(), text.ids.begin() + window.begin, text.ids.begin() + window.begin + n);
  }
  const at::Tensor batch =
      at::from_blob(ids.data(), {static_cast<std::int64_t>(windows.size()), n + 1}, at::kLong);
  return model::token_losses(model.decoder, batch, options).to(at::kDouble).cpu().contiguous();
}

// What one model has read in windows of n tokens.
struct Reading {
  LossSums sums;
  std::int64_t n = 0;
  std::int64_t left_out = 0;  // tokens of the texts that the window rule does not count
};

// One model in windows of n tokens, text by text.
class WindowReader {
 public:
  WindowReader(const EvalModel& entry, const Request& request, Per per, std::int64_t n,
               bool positions, const model::ForwardOptions& options, EvalLog& log)
      : entry_(entry),
        request_(request),
        per_(per),
        n_(n),
        positions_(positions),
        options_(options),
        log_(log) {}

  Reading read(const EvalTexts& texts, protocol::Progress& progress) const {
    const at::NoGradGuard no_gradients;
    Reading reading{LossSums(texts.items.size(), n_, per_), n_};
    for (std::size_t t = 0; t < texts.items.size(); ++t) {
      const EvalText& text = texts.items[t];
      const auto tokens = static_cast<std::int64_t>(text.ids.size());
      if (tokens < n_) continue;  // no part of this length's mean
      const auto windows = windows_of(request_.rule, tokens, n_);
      reading.left_out += tokens - scored_tokens(windows);
      reading.sums.put(t, kept_or_read(text, windows, progress));
      progress.progress(static_cast<double>(t + 1) / static_cast<double>(texts.items.size()),
                        entry_.name + " at " + std::to_string(n_));
    }
    return reading;
  }

 private:
  // What was read, how, and by whom, so that nothing else is taken for it.
  std::string key_of(const EvalText& text) const {
    const std::string_view ids(reinterpret_cast<const char*>(text.ids.data()),
                               text.ids.size() * sizeof(std::int64_t));
    return "perplexity, " + request_.rule.name(n_) + " of " + std::to_string(n_) +
           (per_ == Per::byte ? ", bytes" : ", tokens") + (positions_ ? ", by position" : "") +
           ", " + text.name + " " + formats::sha256_hex(ids) + ", " + entry_.name + " " +
           entry_.model->report.sha256 + " " + model::name_of_dtype(entry_.model->decoder.dtype());
  }

  LossSums kept_or_read(const EvalText& text, const std::vector<EvalWindow>& windows,
                        protocol::Progress& progress) const {
    LossSums sums(1, n_, per_);
    const std::string key = key_of(text);
    if (const nlohmann::json* known = log_.found(key)) {
      sums.read(*known);
      return sums;
    }
    add_windows(text, windows, sums, progress);
    log_.add(key, sums.written(positions_));
    return sums;
  }

  void add_windows(const EvalText& text, const std::vector<EvalWindow>& windows, LossSums& sums,
                   protocol::Progress& progress) const {
    const bool has_bos = beginning_id(*entry_.model).has_value();
    const auto at_once = static_cast<std::size_t>(std::max<std::int64_t>(1, kBatchTokens / n_));
    for (std::size_t begin = 0; begin < windows.size(); begin += at_once) {
      progress.throw_if_cancelled();
      const auto part =
          std::span(windows).subspan(begin, std::min(at_once, windows.size() - begin));
      const at::Tensor losses = losses_of(*entry_.model, text, part, options_);
      for (std::size_t w = 0; w < part.size(); ++w) {
        const std::int64_t first_known = has_bos || part[w].begin > 0 ? 0 : 1;
        sums.add(0, text, part[w], losses.data_ptr<double>() + static_cast<std::int64_t>(w) * n_,
                 first_known);
      }
    }
  }

  const EvalModel& entry_;
  const Request& request_;
  Per per_;
  std::int64_t n_;
  bool positions_;
  const model::ForwardOptions& options_;
  EvalLog& log_;
};

// ---- Results -------------------------------------------------------------------------------------

double in_bits(double nats) { return nats / std::numbers::ln2; }

double in_unit(double nats, Metric metric) {
  return metric == Metric::perplexity ? std::exp(nats) : in_bits(nats);
}

// The value of ids drawn evenly, or of bytes.
double chance_of(const EvalModel& entry, Metric metric) {
  const auto ids = static_cast<double>(entry.model->config().vocab_size);
  if (metric == Metric::bits_per_byte) return 8;
  return metric == Metric::perplexity ? ids : std::log2(ids);
}

std::int64_t bucket_width(std::int64_t longest) {
  return std::max<std::int64_t>(1, longest / kPositionBuckets);
}

// How many of n tokens have a position: fewer than n where a learned table ends.
std::int64_t places_for(const model::Model& model, std::int64_t n) {
  return analysis::tokens_that_shift(model, n, {});
}

// The lengths that have, so that texts are not chosen for others; all where none has: reading them
// says why.
std::vector<std::int64_t> lengths_within(const EvalModel& entry,
                                         std::vector<std::int64_t> lengths) {
  const std::vector<std::int64_t> all = lengths;
  std::erase_if(lengths, [&](std::int64_t n) { return places_for(*entry.model, n) < n; });
  return lengths.empty() ? all : lengths;
}

// One model at every length. From the longest length down: the windows of the longest that the
// model reads give the loss by position too.
class ModelEvaluation {
 public:
  ModelEvaluation(const EvalModel& entry, const Request& request, protocol::Progress& progress,
                  EvalLog& log)
      : entry_(entry),
        request_(request),
        progress_(progress),
        log_(log),
        texts_(eval_texts(entry, request.source, lengths_within(entry, request.lengths))),
        draws_(request.source.seed),
        metric_(texts_.drawn && request.metric == Metric::bits_per_byte ? Metric::bits_per_token
                                                                        : request.metric) {
    for (const std::int64_t n : request.lengths) {
      if (std::ranges::find(texts_.lengths, n) != texts_.lengths.end()) continue;
      const std::int64_t places = places_for(*entry.model, n);
      if (places < n) {
        notes_ += "; a length of " + std::to_string(n) + " is left out: position " +
                  std::to_string(n - 1) + " lies outside the table of " + std::to_string(places) +
                  " positions";
      }
    }
    options_.backend = request.backend;
    options_.kernels = &kernels_;
    options_.cancelled = [this] { return progress_.cancelled(); };
    losses_ = {.model = entry.name, .per = per()};
    // Ids that were drawn are the same for models of as many ids.
    const std::string of =
        texts_.source +
        (texts_.drawn ? " below " + std::to_string(entry.model->config().vocab_size) : "");
    for (const EvalText& text : texts_.items) losses_.texts.push_back(of + "/" + text.name);
  }

  void run(protocol::EvalResult& result) {
    for (auto n = texts_.lengths.rbegin(); n != texts_.lengths.rend(); ++n) measure(*n);
    if (rows_.empty()) std::rethrow_exception(refused_);
    result.rows.insert(result.rows.end(), rows_.rbegin(), rows_.rend());
    result.positions.push_back(std::move(curve_));
    result.provenance.push_back(provenance());
  }

  Metric metric() const { return metric_; }
  // For differences from other models that have run.
  const TextLosses& losses() const { return losses_; }
  const analysis::Draws& draws() const { return draws_; }

 private:
  bool by_position() const { return request_.rule.kind == WindowRule::Kind::per_position; }
  Per per() const { return metric_ == Metric::bits_per_byte ? Per::byte : Per::token; }
  bool is_first() const { return longest_ == 0; }

  void measure(std::int64_t n) {
    if (by_position() && !is_first()) return;
    const auto parts = static_cast<double>(texts_.lengths.size());
    protocol::PartOfProgress part(progress_, done_ / parts, (done_ + 1) / parts);
    done_ += 1;
    try {
      const WindowReader reader(entry_, request_, per(), n, is_first(), options_, log_);
      add(reader.read(texts_, part));
    } catch (const formats::Error& error) {
      if (error.code() != "bad_input") throw;
      // Its positions do not reach so far; shorter windows may do.
      if (!refused_) refused_ = std::current_exception();
      notes_ += "; a length of " + std::to_string(n) + " is left out: " + error.what();
    }
  }

  void add(const Reading& reading) {
    if (is_first()) {
      longest_ = reading.n;
      curve_ = curve_of(reading);
    }
    if (!by_position()) {
      add_row(reading.n, reading.sums.counted(), reading.sums.tokens_counted());
      rows_.back().left_out = reading.left_out;
      return;
    }
    for (auto end = texts_.lengths.rbegin(); end != texts_.lengths.rend(); ++end) {
      if (*end > longest_) continue;
      const std::int64_t begin = std::max<std::int64_t>(0, *end - bucket_width(longest_));
      add_row(*end, reading.sums.between(begin, *end), reading.sums.tokens_between(begin, *end));
      rows_.back().left_out = reading.left_out;
    }
  }

  void add_row(std::int64_t n, std::vector<TextSum> sums, std::int64_t tokens) {
    rows_.push_back(row_of(n, sums, tokens));
    losses_.sums[n] = std::move(sums);
  }

  protocol::EvalRow row_of(std::int64_t n, const std::vector<TextSum>& sums,
                           std::int64_t tokens) const {
    const analysis::Interval interval =
        analysis::transformed(bounded(analysis::kFromZero, analysis::ratio_interval(sums, draws_)),
                              [this](double nats) { return in_unit(nats, metric_); });
    protocol::EvalRow row;
    row.model = entry_.name;
    row.encoding = entry_.model->encoding().info().key;
    row.metric = name_of(metric_);
    row.length = n;
    row.value = interval.mean;
    row.low = interval.low, row.high = interval.high;
    row.n = interval.n, row.method = interval.method;
    row.tokens = tokens;
    row.seed = static_cast<std::int64_t>(request_.source.seed);
    row.window = request_.rule.name(n);
    return row;
  }

  protocol::PositionCurve curve_of(const Reading& reading) const {
    protocol::PositionCurve curve;
    curve.model = entry_.name;
    curve.metric = name_of(per() == Per::byte ? Metric::bits_per_byte : Metric::bits_per_token);
    curve.source = texts_.source;
    curve.trained_length = entry_.model->config().context;
    curve.texts = reading.sums.texts_read();
    const std::int64_t width = bucket_width(reading.n);
    for (std::int64_t begin = 0; begin < reading.n; begin += width) {
      const std::int64_t end = std::min(begin + width, reading.n);
      const analysis::Interval nats =
          analysis::ratio_interval(reading.sums.between(begin, end), draws_);
      const analysis::Interval interval =
          analysis::transformed(bounded(analysis::kFromZero, nats), in_bits);
      curve.position.push_back(0.5 * static_cast<double>(begin + end - 1));
      curve.bits.push_back(interval.mean);
      curve.low.push_back(interval.low);
      curve.high.push_back(interval.high);
      if (interval.known()) curve.method = interval.method;
    }
    return curve;
  }

  protocol::Provenance provenance() const {
    protocol::Provenance provenance;
    provenance.models = {entry_.name};
    provenance.model_hashes = {entry_.model->report.sha256};
    provenance.dtype = model::name_of_dtype(entry_.model->decoder.dtype());
    provenance.set_ran(protocol::listed(kernels_));
    provenance.seed = static_cast<std::int64_t>(request_.source.seed);
    provenance.note = std::to_string(texts_.items.size()) + " " + texts_.source +
                      "; intervals by text; window rule: " + request_.rule.name(longest_) +
                      left_out_words();
    if (!texts_.note.empty()) provenance.note += "; " + texts_.note;
    provenance.note += notes_;
    const std::string& from = entry_.model->report.weights_from;
    if (!from.empty()) provenance.note += "; weights " + from;
    return provenance;
  }

  // The tokens that no row counts, of a rule that is meant to count all.
  std::string left_out_words() const {
    std::string words;
    if (request_.rule.kind != WindowRule::Kind::disjoint) return words;
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      if (row->left_out == 0) continue;
      words += (words.empty() ? "; tokens that fill no window are left out: " : ", ") +
               std::to_string(row->left_out) + " at " + std::to_string(row->length);
    }
    return words;
  }

  const EvalModel& entry_;
  const Request& request_;
  protocol::Progress& progress_;
  EvalLog& log_;
  EvalTexts texts_;
  analysis::Draws draws_;
  Metric metric_;
  model::ForwardOptions options_;
  model::AllRan kernels_;
  std::exception_ptr refused_;
  std::vector<protocol::EvalRow> rows_;  // lengths falling
  TextLosses losses_;
  protocol::PositionCurve curve_;
  std::string notes_;
  std::int64_t longest_ = 0;  // that the model reads
  double done_ = 0;
};

void check_request(const protocol::EvalRequest& asked) { request_of(asked, 1); }

// By the tokenizer that the configuration or the files have. Of a model that is yet to be trained,
// and gets its tokenizer from a file, nothing is known.
void check_texts_of(const AskedModel& asked, const Request& request) {
  const model::ModelConfig& config = asked.config;
  if (config.tokenizer.is_null() && asked.path.empty()) return;
  std::shared_ptr<const formats::Tokenizer> tokenizer;
  if (!config.tokenizer.is_null()) {
    tokenizer = formats::make_tokenizer(config.tokenizer, asked.name, config.vocab_size);
  } else {
    tokenizer = model::tokenizer_without_weights(asked.path);
  }
  check_eval_texts(asked.name, tokenizer.get(), request.source, request.lengths);
}

void check_models(const protocol::EvalRequest& asked, const std::vector<AskedModel>& models) {
  std::int64_t context = 1;
  for (const AskedModel& one : models) context = std::max(context, one.config.context);
  const Request request = request_of(asked, context);
  for (const AskedModel& one : models) check_texts_of(one, request);
}

std::int64_t longest_context(const std::vector<EvalModel>& models) {
  std::int64_t longest = 1;
  for (const EvalModel& entry : models) longest = std::max(longest, entry.model->config().context);
  return longest;
}

protocol::EvalResult evaluate(const std::vector<EvalModel>& models,
                              const protocol::EvalRequest& asked, protocol::Progress& progress,
                              EvalLog& log) {
  const Request request = request_of(asked, longest_context(models));
  protocol::EvalResult result;
  result.task = "perplexity";
  const auto count = static_cast<double>(models.size());
  TextLosses first;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const auto index = static_cast<double>(m);
    protocol::PartOfProgress part(progress, index / count, (index + 1) / count);
    ModelEvaluation evaluation(models[m], request, part, log);
    evaluation.run(result);
    if (m == 0) {
      first = evaluation.losses();
    } else {
      std::ranges::move(differences_of(first, evaluation.losses(), evaluation.draws()),
                        std::back_inserter(result.differences));
    }
    const double chance = chance_of(models[m], evaluation.metric());
    const std::string metric = name_of(evaluation.metric());
    const bool alike = m == 0 || result.metric == metric;
    result.metric = alike ? metric : "bits";
    result.chance = m == 0 || (alike && result.chance == chance) ? chance : std::nan("");
  }
  return result;
}

}  // namespace

EvalTask perplexity_task() {
  return {
      {"perplexity", "Loss against length",
       "Bits a byte (or a token, or perplexity) of held-out text at each length, and the loss by "
       "position in windows of the largest one. A model without a tokenizer reads seeded random "
       "ids.",
       "window rules of CAPE (arXiv 2405.14722: last_k) and TAPA (arXiv 2509.12635: sliding)",
       protocol::options_of<protocol::PerplexityOptions>()},
      evaluate,
      check_request,
      check_models};
}

}  // namespace phasescope::training
