#include "analysis/reading.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <optional>

#include "analysis/model_sides.h"
#include "analysis/random.h"
#include "analysis/shift.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "formats/text_input.h"
#include "model/key_value_cache.h"

namespace phasescope::analysis {
namespace {

std::vector<std::string> token_texts(const model::Model& model,
                                     const std::vector<std::int64_t>& ids) {
  if (model.tokenizer) return formats::visible_tokens(*model.tokenizer, ids);
  std::vector<std::string> texts;
  for (const std::int64_t id : ids) texts.push_back("<" + std::to_string(id) + ">");
  return texts;
}

std::string token_text(const model::Model& model, std::int64_t id) {
  return model.tokenizer ? model.tokenizer->token_text(id) : "<" + std::to_string(id) + ">";
}

// Of logits of which one is no number the largest would be that one, whatever token it is of.
void require_numbers(const at::Tensor& logits) {
  if (std::isfinite(logits.max().item<double>())) return;
  throw formats::bad_input("the model's logits are not finite, so that they name no next token",
                           "model", "info names the tensors that hold NaN or infinity");
}

// Guesses of rows of logits, a block of rows at a time: (N, V) is never kept.
class Guesser {
 public:
  Guesser(TextPass& pass, std::int64_t count) : pass_(pass) {
    count_ = std::min(count, tokens_with_logits(pass.model().config()));
  }

  // Row n: what was expected as token n + 1.
  std::vector<std::vector<protocol::Guess>> run() {
    const at::NoGradGuard no_gradients;
    std::vector<std::vector<protocol::Guess>> rows;
    // The decoder of an encoder-decoder reads the text one token later: row i speaks of token i.
    const std::int64_t later = pass_.model().config().encoder_layers > 0 ? 1 : 0;
    const at::Tensor hidden = pass_.hidden()[0].slice(0, later);
    for (std::int64_t begin = 0; begin < hidden.size(0); begin += kRows) {
      const std::int64_t end = std::min(begin + kRows, hidden.size(0));
      const at::Tensor logits = pass_.model().decoder.logits(hidden.slice(0, begin, end));
      const auto [values, ids] = at::softmax(logits, -1).topk(count_, -1);
      add_rows(to_vector<double>(values), to_vector<std::int64_t>(ids), rows);
    }
    return rows;
  }

 private:
  static constexpr std::int64_t kRows = 256;

  void add_rows(const std::vector<double>& values, const std::vector<std::int64_t>& ids,
                std::vector<std::vector<protocol::Guess>>& rows) {
    for (std::size_t at = 0; at < ids.size(); ++at) {
      if (at % static_cast<std::size_t>(count_) == 0) rows.emplace_back();
      if (std::isnan(values[at])) continue;  // a row that is no number guesses nothing
      rows.back().push_back({ids[at], token_text(pass_.model(), ids[at]), values[at]});
    }
  }

  TextPass& pass_;
  std::int64_t count_;
};

// Bytes that the predicted tokens stand for; 0 where that cannot be told.
std::int64_t predicted_bytes(const Text& text) {
  std::int64_t bytes = 0;
  for (std::size_t n = 1; n < text.spans.size(); ++n) {
    bytes += static_cast<std::int64_t>(text.spans[n].end - text.spans[n].begin);
  }
  return bytes;
}

}  // namespace

protocol::TextResult analyse_text(TextPass& pass, const Text& text, std::int64_t guesses) {
  const model::Model& model = pass.model();
  protocol::TextResult out;
  out.model = model.report.name;
  const std::vector<std::string> texts = token_texts(model, text.ids);
  std::vector<double> losses;
  std::vector<std::vector<protocol::Guess>> expected;
  if (const std::string why = pass.loss_obstacle(); why.empty()) {
    losses = to_vector<double>(pass.losses());
    if (guesses > 0) expected = Guesser(pass, guesses).run();
  } else {
    out.provenance.note = out.model + " has no loss of the next token: " + why;
  }
  double sum = 0;
  for (std::size_t n = 0; n < text.ids.size(); ++n) {
    protocol::TokenReading& token = out.tokens.emplace_back();
    token.id = text.ids[n], token.text = texts[n];
    if (n < text.spans.size()) {
      token.begin = static_cast<std::int64_t>(text.spans[n].begin);
      token.end = static_cast<std::int64_t>(text.spans[n].end);
    }
    if (n == 0 || losses.empty()) continue;
    token.loss = losses[n - 1];
    sum += losses[n - 1];
    if (!expected.empty()) token.guesses = std::move(expected[n - 1]);
  }
  const std::int64_t bytes = predicted_bytes(text);
  out.loss = losses.empty() ? std::nan("") : sum / static_cast<double>(losses.size());
  const bool told = bytes > 0 && !losses.empty();
  out.bits_per_byte = told ? sum / std::numbers::ln2 / static_cast<double>(bytes) : std::nan("");
  return out;
}

std::string as_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t valid = formats::first_invalid_utf8(bytes);
    text += bytes.substr(0, valid);
    if (valid == bytes.size()) break;
    text += "\xEF\xBF\xBD";
    bytes.remove_prefix(valid + 1);
  }
  return text;
}

namespace {

// Where a head, or the mean of a layer's heads, looks from the last token of each pass.
class LastRow final : public model::Observer {
 public:
  LastRow(const model::ModelConfig& config, const HeadName& head) : head_(head) {
    if (!head.stack.empty() && head.stack != "dec") {
      throw formats::bad_usage(
          "what is written looks at what stands before it: leave out \"" + head.stack + ".\"",
          "head");
    }
    if (head.layer < config.layers && !has_head(config, head.layer, 0)) {
      throw formats::Error("not_applicable", words_of_no_maps(head.layer), "head");
    }
    if (head.layer >= config.layers || !has_head(config, head.layer, head.head)) {
      throw formats::bad_usage(
          "the model has " + std::to_string(config.layers) + " layers, and no such head", "head");
    }
  }

  bool wants_attention(std::int64_t layer) override { return layer == head_.layer; }
  void on_attention(const std::shared_ptr<const model::LayerAttention>& attention) override {
    const std::int64_t last = attention->length() - 1;
    const model::Range heads = head_.head < 0 ? model::Range{0, attention->heads()}
                                              : model::Range{head_.head, head_.head + 1};
    const at::Tensor rows =
        attention->weights({heads, {last, last + 1}, {0, attention->keys()}})[0].select(1, 0);
    weights_ = rows.to(at::kDouble).mean(0);
    sink_.reset();
    if (const at::Tensor sinks = attention->sink_weights(); sinks.defined()) {
      const at::Tensor own = sinks[0].slice(0, heads.begin, heads.end).select(1, last);
      sink_ = own.to(at::kDouble).mean().item<double>();
    }
  }

  // Puts down the text that was read, whose last token was the query's own.
  void put(std::int64_t top, const model::Model& model, const std::vector<std::int64_t>& text,
           protocol::WrittenToken& to) const {
    const auto [sorted, order] =
        at::sort(weights_, /*stable=*/true, /*dim=*/0, /*descending=*/true);
    const auto weights = to_vector<double>(sorted);
    const auto keys = to_vector<std::int64_t>(order);
    const auto first = static_cast<std::int64_t>(text.size()) - weights_.size(0);
    for (std::size_t n = 0; n < std::min(keys.size(), static_cast<std::size_t>(top)); ++n) {
      if (!(weights[n] > 0)) break;  // hidden by a window
      to.keys.push_back(first + keys[n]);
      to.words.push_back(token_text(model, text[static_cast<std::size_t>(first + keys[n])]));
      to.weights.push_back(weights[n]);
    }
    to.sink = sink_;
  }

 private:
  HeadName head_;
  at::Tensor weights_;  // (keys)
  std::optional<double> sink_;
};

class Writer {
 public:
  Writer(const model::Model& model, const Text& prompt, const GenerateOptions& options)
      : model_(model),
        options_(options),
        random_(options.seed),
        context_(options.extend ? std::numeric_limits<std::int64_t>::max()
                                : model.config().context),
        kept_(std::max<std::int64_t>(1, context_ - std::max<std::int64_t>(1, context_ / 4))) {
    forward_.backend = options.backend;
    forward_.kernels = &kernels_;
    if (encodes()) {
      read_ = ids_tensor(last(prompt.ids));
      ids_ = {model.config().decoder_start};
    } else {
      ids_ = prompt.ids;
      begin_ = std::ssize(ids_) - std::ssize(last(ids_));
    }
    if (options.head) row_.emplace(model.config(), *options.head);
    begin_cache();
  }

  protocol::WrittenToken write() {
    protocol::WrittenToken token;
    token.id = chosen(next_logits());
    token.text = token_text(model_, token.id);
    if (row_) row_->put(options_.top, model_, ids_, token);
    ids_.push_back(token.id);
    return token;
  }
  const model::AllRan& kernels() const { return kernels_; }

  // GenerateResult::cache
  std::string cache() const {
    const std::string kept = why_not_.empty() ? "yes" : "no: " + why_not_;
    if (begun_at_.empty()) return kept;
    const std::size_t times = begun_at_.size();
    return kept + "; " + (times == 1 ? "once" : std::to_string(times) + " times") +
           " the trained context of " + std::to_string(context_) +
           " tokens was full, and the last " + std::to_string(kept_) +
           " began as a text of their own, where with extend positions would go on";
  }
  bool has_cache() const { return cache_.has_value(); }
  // GenerateResult::begun_at
  const std::vector<std::int64_t>& begun_at() const { return begun_at_; }

 private:
  bool encodes() const { return model_.config().encoder_layers > 0; }

  std::span<const std::int64_t> last(std::span<const std::int64_t> ids) const {
    return ids.last(std::min<std::size_t>(ids.size(), static_cast<std::size_t>(context_)));
  }

  void begin_cache() {
    const auto length = static_cast<std::int64_t>(ids_.size());
    const std::int64_t most = std::min(context_, length + options_.tokens);
    why_not_ = options_.whole ? "whole passes were asked for"
                              : model::cache_obstacle(model_.decoder, most);
    if (why_not_.empty()) cache_.emplace(model_.decoder, most);
  }

  // Where the context is full, the first of its tokens are let go, so many at once that reading the
  // others again costs each of the next tokens little.
  void begin_anew_if_full() {
    const auto length = static_cast<std::int64_t>(ids_.size());
    if (length - begin_ <= context_) return;
    begin_ = length - kept_;
    begun_at_.push_back(written_);
    if (cache_) begin_cache();
  }

  // The tokens to read: those that the cache has not, or all from where the text begins.
  std::span<const std::int64_t> unread() {
    begin_anew_if_full();
    ++written_;
    const std::int64_t known = cache_ ? cache_->length() : 0;
    return std::span(ids_).subspan(static_cast<std::size_t>(begin_ + known));
  }

  at::Tensor next_logits() {
    const at::NoGradGuard no_gradients;
    const at::Tensor tokens = ids_tensor(unread());
    forward_.cache = cache_ ? &*cache_ : nullptr;
    if (encodes()) forward_.decoder_ids = tokens;
    const at::Tensor hidden =
        model_.decoder.hidden(encodes() ? read_ : tokens, forward_, row_ ? &*row_ : nullptr);
    return model_.decoder.logits(hidden[0][-1]).to(at::kDouble);
  }

  std::int64_t chosen(const at::Tensor& logits) {
    require_numbers(logits);
    if (options_.temperature == 0) return logits.argmax().item<std::int64_t>();
    const std::vector<double> shares =
        to_vector<double>(at::softmax(logits / options_.temperature, -1));
    double left = random_.uniform();
    for (std::size_t id = 0; id < shares.size(); ++id) {
      left -= shares[id];
      if (left < 0) return static_cast<std::int64_t>(id);
    }
    return static_cast<std::int64_t>(shares.size()) - 1;
  }

  const model::Model& model_;
  const GenerateOptions& options_;
  Random random_;
  std::int64_t context_;  // most tokens that are read
  std::int64_t kept_;     // of a context that is full, so many of the last ones
  std::int64_t begin_ = 0, written_ = 0;
  std::vector<std::int64_t> begun_at_;
  model::ForwardOptions forward_;
  at::Tensor read_;                // by the encoder
  std::vector<std::int64_t> ids_;  // the text so far; of an encoder-decoder, what it has written
  std::optional<model::KeyValueCache> cache_;
  std::string why_not_;  // there is none; empty where there is one
  model::AllRan kernels_;
  std::optional<LastRow> row_;  // where it is asked for
};

// What was written last and where the head looked for it: writing " was" <- " it" 0.41, " The"
// 0.20
std::string written_words(const protocol::WrittenToken& token) {
  std::string words = "writing \"" + token.text + "\"";
  for (std::size_t n = 0; n < token.keys.size(); ++n) {
    char weight[16];
    std::snprintf(weight, sizeof weight, " %.2f", token.weights[n]);
    words += (n == 0 ? " <- \"" : ", \"") + token.words[n] + "\"" + weight;
  }
  return words;
}

// What would be lost at the end of a table of positions is not begun. The last token that is
// written is not read again.
void require_positions_of_all(const model::Model& model, const Text& prompt,
                              const GenerateOptions& options) {
  const bool encodes = model.config().encoder_layers > 0;
  const std::int64_t before = encodes ? 1 : std::ssize(prompt.ids);
  const std::int64_t read = before + options.tokens - 1;
  const std::int64_t there = positions_of(model, read);
  if (there == read) return;
  throw formats::bad_input(
      "the model has a table of " + std::to_string(there) + " positions, and " +
          std::to_string(options.tokens) + " tokens after " + std::to_string(before) + " take " +
          std::to_string(read),
      "tokens",
      before > there ? "give a shorter prompt, or leave out extend"
                     : "give " + std::to_string(there - before + 1) +
                           " at most, or leave out extend, so that the last ones begin anew");
}

void check_generate(const model::ModelConfig& config, const GenerateOptions& options) {
  if (options.tokens < 1) throw formats::bad_usage("tokens must be at least 1", "tokens");
  if (options.top < 1) throw formats::bad_usage("top must be at least 1", "top");
  if (!(options.temperature >= 0)) {
    throw formats::bad_usage("the temperature must be 0 or above", "temperature");
  }
  if (const std::string why = loss_obstacle(config); !why.empty()) {
    throw formats::Error("not_applicable", "the model cannot continue a text: " + why, "model");
  }
}

}  // namespace

protocol::GenerateResult generate(const model::Model& model, const Text& prompt,
                                  const GenerateOptions& options, protocol::Progress& progress) {
  check_generate(model.config(), options);
  if (options.extend) require_positions_of_all(model, prompt, options);
  using Clock = std::chrono::steady_clock;
  Writer writer(model, prompt, options);
  protocol::GenerateResult out;
  std::string words = "writing";
  for (std::int64_t n = 0; n < options.tokens; ++n) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(n) / static_cast<double>(options.tokens), words);
    const Clock::time_point start = Clock::now();
    protocol::WrittenToken token = writer.write();
    out.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    out.ids.push_back(token.id);
    words = written_words(token);
    if (options.head) out.tokens.push_back(std::move(token));
  }
  out.cache = writer.cache();
  out.cached = writer.has_cache() ? options.tokens : 0;
  out.begun_at = writer.begun_at();
  out.model = model.report.name;
  out.prompt = as_utf8(prompt.text);
  out.provenance.set_ran(protocol::listed(writer.kernels()));
  if (model.tokenizer) {
    out.text = model.tokenizer->decode_text(out.ids);
  } else {
    out.provenance.note = "without a tokenizer the continuation is ids alone";
  }
  return out;
}

}  // namespace phasescope::analysis
