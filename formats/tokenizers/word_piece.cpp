// WordPiece (Schuster & Nakajima 2012; BERT): the longest token that fits, again and again.
#include <algorithm>

#include "formats/error.h"
#include "formats/tokenizers/subword_model.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

class WordPiece : public SubwordModel {
 public:
  explicit WordPiece(const JsonFields& fields)
      : vocabulary_(Vocabulary::from_json(fields, "vocab")),
        prefix_(fields.short_text("continuing_subword_prefix", "##")),
        most_characters_(fields.has("max_input_chars_per_word")
                             ? fields.integer("max_input_chars_per_word", 0, 1 << 20)
                             : 100) {
    const std::string unknown = fields.text("unk_token", "[UNK]");
    const auto id = vocabulary_.id_of(unknown);
    if (!id) {
      fields.fail("unk_token",
                  "the unknown token " + in_quotes(unknown) + " is not in the vocabulary");
    }
    unknown_ = *id;
  }

  std::string name() const override { return "WordPiece"; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, std::vector<PieceToken>& tokens) const override {
    const std::size_t before = tokens.size();
    if (characters(word) <= most_characters_ && append_pieces(word, tokens)) return;
    tokens.resize(before);
    tokens.push_back({unknown_, 0, word.size()});
  }

 private:
  static std::int64_t characters(std::string_view word) {
    std::int64_t count = 0;
    for (const char c : word) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return count;
  }

  bool append_pieces(std::string_view word, std::vector<PieceToken>& tokens) const {
    std::string name;
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t end = std::min(word.size(), begin + vocabulary_.longest());
      std::optional<std::int64_t> id;
      for (; end > begin; --end) {
        const bool inside =
            end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80;
        if (inside) continue;
        name = (begin > 0 ? prefix_ : "") + std::string(word.substr(begin, end - begin));
        id = vocabulary_.id_of(name);
        if (id) break;
      }
      if (!id) return false;
      tokens.push_back({*id, begin, end});
      begin = end;
    }
    return true;
  }

  Vocabulary vocabulary_;
  std::string prefix_;
  std::int64_t most_characters_;
  std::int64_t unknown_ = 0;
};

class WordLevel : public SubwordModel {
 public:
  explicit WordLevel(const JsonFields& fields)
      : vocabulary_(Vocabulary::from_json(fields, "vocab")),
        unknown_(vocabulary_.id_of(fields.text("unk_token", "<unk>"))),
        where_(fields.where("unk_token")) {}

  std::string name() const override { return "WordLevel"; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, std::vector<PieceToken>& tokens) const override {
    const auto id = vocabulary_.id_of(word);
    if (!id && !unknown_) {
      throw bad_input("the word " + in_quotes(word) +
                          " is not in the vocabulary, and there is no unknown token",
                      where_);
    }
    tokens.push_back({id ? *id : *unknown_, 0, word.size()});
  }

 private:
  Vocabulary vocabulary_;
  std::optional<std::int64_t> unknown_;
  std::string where_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_word_piece(const JsonFields& fields) {
  return std::make_unique<WordPiece>(fields);
}

std::unique_ptr<SubwordModel> make_word_level(const JsonFields& fields) {
  return std::make_unique<WordLevel>(fields);
}

}  // namespace phasescope::formats
