#include "formats/tokenizers/hf_tokenizer.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/text_input.h"
#include "formats/tokenizers/added_tokens.h"
#include "formats/tokenizers/byte_letters.h"
#include "formats/tokenizers/post_processors.h"
#include "formats/tokenizers/space_mark.h"
#include "formats/tokenizers/subword_model.h"
#include "formats/tokenizers/token_decoders.h"

namespace phasescope::formats {
namespace {

template <typename Part>
std::unique_ptr<Part> read_part(const JsonFields& file, const char* name,
                                std::unique_ptr<Part> (*make)(const JsonFields&)) {
  return file.has(name) ? make(file.object(name)) : nullptr;
}

std::string joined(const std::vector<std::string>& pieces, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) text += (i > 0 ? between : "") + pieces[i];
  return text;
}

class HfTokenizer : public Tokenizer {
 public:
  HfTokenizer(const JsonFields& file, std::optional<std::int64_t> embedding_rows)
      : normalizer_(read_part(file, "normalizer", make_normalizer)),
        pre_tokenizer_(read_part(file, "pre_tokenizer", make_pre_tokenizer)),
        model_(make_subword_model(file.object("model"))),
        added_(file, model_->vocabulary(), normalizer_.get(), embedding_rows),
        decoder_(read_part(file, "decoder", make_token_decoder)) {
    vocab_size_ = std::max(model_->vocabulary().end(), added_.end());
    check_embedding(vocab_size_, embedding_rows, file.where());
    if (file.has("post_processor")) {
      template_ = read_template(file.object("post_processor"), vocab_size_);
    }
    // Rows of the embedding that no token has are ids too: they decode to nothing.
    vocab_size_ = std::max(vocab_size_, embedding_rows.value_or(0));
    marks_spaces_ =
        decoder_ &&
        joined(decoder_->decode({"x", std::string(kSpaceMark)}, BrokenBytes::keep), "") == "x ";
  }

  std::string name() const override { return model_->name(); }
  std::int64_t vocab_size() const override { return vocab_size_; }

  std::optional<std::int64_t> bos_id() const override {
    if (template_.before.empty()) return std::nullopt;
    return template_.before.front();
  }

  TokenizedText encode(std::string_view text, Template use) const override {
    check_text(text);
    TokenizedText result;
    const auto put = [&result](std::int64_t id, TextSpan span) {
      result.ids.push_back(id);
      result.spans.push_back(span);
    };
    if (use == Template::apply) {
      for (const std::int64_t id : template_.before) put(id, {0, 0});
    }
    std::vector<TextPiece> pieces = added_.cut(text, normalizer_.get());
    if (pre_tokenizer_) pre_tokenizer_->cut(pieces);
    std::vector<PieceToken> tokens;
    for (const TextPiece& piece : pieces) {
      tokens.clear();
      if (piece.id) {
        put(*piece.id, piece.text.origin(0, piece.text.size()));
      } else if (!piece.text.empty()) {
        model_->tokenize(piece.text.text(), tokens);
      }
      for (const PieceToken& token : tokens) {
        put(token.id, piece.text.origin(token.begin, token.end));
      }
    }
    if (use == Template::apply) {
      for (const std::int64_t id : template_.after) put(id, {text.size(), text.size()});
    }
    return result;
  }

  std::vector<std::string> pre_tokens(std::string_view text) const override {
    check_text(text);
    std::vector<TextPiece> pieces(1);
    pieces[0].text = AlignedText(text);
    if (normalizer_) pieces[0].text = normalizer_->normalize(std::move(pieces[0].text));
    if (pre_tokenizer_) pre_tokenizer_->cut(pieces);
    std::vector<std::string> texts;
    for (const TextPiece& piece : pieces) {
      if (!piece.text.empty()) texts.push_back(piece.text.text());
    }
    return texts;
  }

  std::string decode(std::span<const std::int64_t> ids, SpecialTokens special) const override {
    return decoded(ids, special, BrokenBytes::keep);
  }

  std::string decode_text(std::span<const std::int64_t> ids, SpecialTokens special) const override {
    return with_replacements(decoded(ids, special, BrokenBytes::replace));
  }

  std::string token_text(std::int64_t id) const override {
    check_id(id);
    if (const auto bytes = token_bytes(id)) return visible_text(*bytes);
    const std::string* token = token_of(id);
    return token ? visible_text(*token) : '[' + std::to_string(id) + ']';
  }

  std::optional<std::string> token_bytes(std::int64_t id) const override {
    check_id(id);
    const std::string* token = token_of(id);
    if (!token || added_.token_of(id)) return std::nullopt;
    if (decoder_ && decoder_->is_byte_level()) return bytes_of_letters(*token).value_or(*token);
    const int byte = model_->has_byte_tokens() ? byte_of_token(*token) : -1;
    if (byte >= 0) return std::string(1, static_cast<char>(byte));
    return marks_spaces_ ? with_spaces(*token) : *token;
  }

 private:
  const std::string* token_of(std::int64_t id) const {
    const std::string* added = added_.token_of(id);
    return added ? added : model_->vocabulary().token_of(id);
  }

  std::string decoded(std::span<const std::int64_t> ids, SpecialTokens special,
                      BrokenBytes broken) const {
    std::vector<std::string> tokens;
    for (const std::int64_t id : ids) {
      check_id(id);
      const std::string* token = token_of(id);
      if (!token || (special == SpecialTokens::skip && added_.is_special(*token))) continue;
      tokens.push_back(*token);
    }
    if (!decoder_) return joined(tokens, " ");
    return joined(decoder_->decode(std::move(tokens), broken), "");
  }

  void check_id(std::int64_t id) const { check_ids(std::span(&id, 1), vocab_size_, name()); }

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<SubwordModel> model_;
  AddedTokens added_;
  std::unique_ptr<TokenDecoder> decoder_;
  TemplateIds template_;
  std::int64_t vocab_size_ = 0;
  bool marks_spaces_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> make_hf_tokenizer(const Json& file, const std::string& where,
                                             std::optional<std::int64_t> embedding_rows) {
  return std::make_unique<HfTokenizer>(JsonFields(file, where, ""), embedding_rows);
}

void check_text(std::string_view text) {
  const std::size_t broken = first_invalid_utf8(text);
  if (broken < text.size()) {
    throw bad_input("the text is not UTF-8", "byte " + std::to_string(broken) + " of the text",
                    "this tokenizer reads characters, not bytes; convert the text to UTF-8");
  }
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw bad_input("the text is longer than 4 GiB", "", "give a shorter one");
  }
}

}  // namespace phasescope::formats
