#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"

namespace phasescope::formats {

// Bytes [begin, end) of a text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct TokenizedText {
  std::vector<std::int64_t> ids;
  std::vector<TextSpan> spans;  // one an id; empty for ids the template put in
};

// Whether texts get the tokenizer's own template ([BOS] and the like).
enum class Template { apply, leave_out };
// What becomes of the template's tokens on the way back to text.
enum class SpecialTokens { skip, keep };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "bytes", or the kind of model: "BPE", "WordPiece", "Unigram", ...
  virtual std::string name() const = 0;
  // The byte tokenizer takes any bytes; the others throw Error "bad_input" with the byte offset for
  // what is not UTF-8. Template tokens written in the text are found where the tokenizer does so.
  virtual TokenizedText encode(std::string_view text, Template use = Template::apply) const = 0;
  // Bytes, which need not be valid UTF-8. Throws Error "bad_input" for ids out of range.
  virtual std::string decode(std::span<const std::int64_t> ids,
                             SpecialTokens special = SpecialTokens::skip) const = 0;
  // The ids as UTF-8: broken bytes become U+FFFD, as many as in the tokenizer's reference library.
  virtual std::string decode_text(std::span<const std::int64_t> ids,
                                  SpecialTokens special = SpecialTokens::skip) const = 0;
  // What the model gets one by one once the text is normalised and cut, template tokens in it not
  // taken out first; empty for tokenizers that cut nothing.
  virtual std::vector<std::string> pre_tokens(std::string_view) const { return {}; }
  // The token as shown on screen: valid UTF-8, white space visible ("·" space, "⏎" newline,
  // "⇥" tab), other control bytes and broken UTF-8 as "<0x1F>", special tokens by name ("[BOS]").
  virtual std::string token_text(std::int64_t id) const = 0;
  // The bytes of text that a token stands for; nothing for special tokens.
  virtual std::optional<std::string> token_bytes(std::int64_t id) const = 0;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::optional<std::int64_t> bos_id() const = 0;
};

// Bytes as tokens: id b is byte b; ids from 256 up, where there are any, are special. The bundled
// models have 256 ids and give byte 0 a second use as [BOS] at the start of every window; decode
// takes one leading [BOS] away and leaves every other byte 0 as it is.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(std::int64_t vocab_size = 256, std::optional<std::int64_t> bos = 0);

  std::string name() const override { return "bytes"; }
  TokenizedText encode(std::string_view text, Template use = Template::apply) const override;
  std::string decode(std::span<const std::int64_t> ids,
                     SpecialTokens special = SpecialTokens::skip) const override;
  std::string decode_text(std::span<const std::int64_t> ids,
                          SpecialTokens special = SpecialTokens::skip) const override;
  std::string token_text(std::int64_t id) const override;
  std::optional<std::string> token_bytes(std::int64_t id) const override;
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::optional<std::int64_t> bos_id() const override { return bos_; }

 private:
  void check_id(std::int64_t id) const;

  std::int64_t vocab_size_;
  std::optional<std::int64_t> bos_;
};

// From a configuration's `tokenizer` value, {"type": "bytes", "vocab_size": 256, "bos": 0}.
// `embedding_rows`, where known, must not be less than the vocabulary. `where` names the file.
std::unique_ptr<Tokenizer> make_tokenizer(const Json& description, const std::string& where,
                                          std::optional<std::int64_t> embedding_rows = {});

// Throws Error "bad_input" where `ids_end` (the largest id + 1) is above `embedding_rows`.
void check_embedding(std::int64_t ids_end, std::optional<std::int64_t> embedding_rows,
                     const std::string& where);

// The ids must lie in [0, vocab_size); throws Error "bad_input" naming the first that does not.
void check_ids(std::span<const std::int64_t> ids, std::int64_t vocab_size,
               const std::string& where);

// Any bytes as text for the screen, by token_text's rules.
std::string visible_text(std::string_view bytes);

// Broken UTF-8 as U+FFFD, one for each longest beginning of a character that a byte ends too soon
// (Unicode's recommended practice).
std::string with_replacements(std::string_view bytes);

// The texts of a whole token sequence: as token_text, except that a character spread over several
// tokens is shown whole at its first one and not at the others.
std::vector<std::string> visible_tokens(const Tokenizer& tokenizer,
                                        std::span<const std::int64_t> ids);

}  // namespace phasescope::formats
