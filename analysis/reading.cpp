#include "analysis/reading.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "analysis/random.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "formats/text_input.h"

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

// Guesses of rows of logits, a block of rows at a time: (N, V) is never kept.
class Guesser {
 public:
  Guesser(TextPass& pass, std::int64_t count) : pass_(pass) {
    count_ = std::min(count, pass.model().config().vocab_size);
  }

  // Row n: what was expected as token n + 1.
  std::vector<std::vector<protocol::Guess>> run() {
    const at::NoGradGuard no_gradients;
    std::vector<std::vector<protocol::Guess>> rows;
    const at::Tensor hidden = pass_.hidden()[0];
    for (std::int64_t begin = 0; begin < hidden.size(0); begin += kRows) {
      const std::int64_t end = std::min(begin + kRows, hidden.size(0));
      const at::Tensor logits = pass_.model().decoder.logits(hidden.slice(0, begin, end));
      const auto [values, ids] = at::softmax(logits.to(at::kFloat), -1).topk(count_, -1);
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
  const std::vector<double> losses = to_vector<double>(pass.losses());
  const std::vector<std::string> texts = token_texts(model, text.ids);
  std::vector<std::vector<protocol::Guess>> expected;
  if (guesses > 0) expected = Guesser(pass, guesses).run();
  double sum = 0;
  for (std::size_t n = 0; n < text.ids.size(); ++n) {
    protocol::TokenReading& token = out.tokens.emplace_back();
    token.id = text.ids[n], token.text = texts[n];
    if (n < text.spans.size()) {
      token.begin = static_cast<std::int64_t>(text.spans[n].begin);
      token.end = static_cast<std::int64_t>(text.spans[n].end);
    }
    if (n == 0) continue;
    token.loss = losses[n - 1];
    sum += losses[n - 1];
    if (!expected.empty()) token.guesses = std::move(expected[n - 1]);
  }
  const std::int64_t bytes = predicted_bytes(text);
  out.loss = losses.empty() ? std::nan("") : sum / static_cast<double>(losses.size());
  out.bits_per_byte =
      bytes > 0 ? sum / std::numbers::ln2 / static_cast<double>(bytes) : std::nan("");
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

// The next token of the last `context` ids.
std::int64_t next_token(const model::Model& model, std::span<const std::int64_t> ids,
                        const GenerateOptions& options, Random& random) {
  const at::NoGradGuard no_gradients;
  const at::Tensor hidden = model.decoder.hidden(ids_tensor(ids));
  const at::Tensor logits = model.decoder.logits(hidden[0][-1]).to(at::kDouble);
  if (options.temperature == 0) return logits.argmax().item<std::int64_t>();
  const std::vector<double> shares =
      to_vector<double>(at::softmax(logits / options.temperature, -1));
  double left = random.uniform();
  for (std::size_t id = 0; id < shares.size(); ++id) {
    left -= shares[id];
    if (left < 0) return static_cast<std::int64_t>(id);
  }
  return static_cast<std::int64_t>(shares.size()) - 1;
}

}  // namespace

protocol::GenerateResult generate(const model::Model& model, const Text& prompt,
                                  const GenerateOptions& options, protocol::Progress& progress) {
  if (options.tokens < 1) throw formats::bad_usage("tokens must be at least 1", "tokens");
  if (!(options.temperature >= 0)) {
    throw formats::bad_usage("the temperature must be 0 or above", "temperature");
  }
  Random random(options.seed);
  std::vector<std::int64_t> ids = prompt.ids;
  const auto context = static_cast<std::size_t>(model.config().context);
  for (std::int64_t n = 0; n < options.tokens; ++n) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(n) / static_cast<double>(options.tokens), "writing");
    const std::span<const std::int64_t> all(ids);
    ids.push_back(next_token(model, all.last(std::min(context, ids.size())), options, random));
  }
  protocol::GenerateResult out;
  out.model = model.report.name;
  out.prompt = as_utf8(prompt.text);
  out.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(prompt.ids.size()), ids.end());
  if (model.tokenizer) out.text = model.tokenizer->decode_text(out.ids);
  return out;
}

}  // namespace phasescope::analysis
