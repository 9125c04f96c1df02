#include "formats/tokenizers/pre_tokenizers.h"

#include <algorithm>
#include <utility>

#include "formats/tokenizers/byte_letters.h"
#include "formats/tokenizers/make_by_type.h"
#include "formats/tokenizers/unicode.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

using Parts = std::vector<Pattern::Part>;

// What becomes of the matches that a text is cut at.
enum class Behavior { removed, isolated, contiguous, merged_with_previous, merged_with_next };

// Neighbouring parts as one, where `joins` says so of a part and the one before it.
template <typename Joins>
Parts joined(const Parts& parts, Joins joins) {
  Parts out;
  bool before = false;  // whether the part before matched
  for (const Pattern::Part& part : parts) {
    if (!out.empty() && joins(part.matches, before)) {
      out.back().begin = std::min(out.back().begin, part.begin);
      out.back().end = std::max(out.back().end, part.end);
    } else {
      out.push_back(part);
    }
    before = part.matches;
  }
  return out;
}

Parts arranged(Parts parts, Behavior behavior) {
  const auto after_plain = [](bool matches, bool before) { return matches && !before; };
  switch (behavior) {
    case Behavior::removed:
      std::erase_if(parts, [](const Pattern::Part& part) { return part.matches; });
      break;
    case Behavior::isolated:
      break;
    case Behavior::contiguous:
      return joined(parts, [](bool matches, bool before) { return matches == before; });
    case Behavior::merged_with_previous:
      return joined(parts, after_plain);
    case Behavior::merged_with_next:
      std::reverse(parts.begin(), parts.end());
      parts = joined(parts, after_plain);
      std::reverse(parts.begin(), parts.end());
      break;
  }
  return parts;
}

void add_cut(const AlignedText& text, const Parts& parts, std::vector<TextPiece>& out) {
  for (const Pattern::Part& part : parts) {
    if (part.begin < part.end) out.push_back({text.cut(part.begin, part.end), {}});
  }
}

// Every character that `is_match` holds for is a match of its own.
template <typename IsMatch>
Parts character_parts(std::string_view text, IsMatch is_match) {
  Parts parts;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char character = utf8_char_at(text, at);
    const std::size_t end = at + character.length;
    if (is_match(character.code)) {
      if (done < at) parts.push_back({done, at, false});
      parts.push_back({at, end, true});
      done = end;
    }
    at = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), false});
  return parts;
}

// A pre-tokenizer that treats every piece alike.
class EachPiece : public PreTokenizer {
 public:
  void cut(std::vector<TextPiece>& pieces) const final {
    std::vector<TextPiece> out;
    out.reserve(pieces.size());
    for (TextPiece& piece : pieces) {
      if (piece.id) {
        out.push_back(std::move(piece));
      } else {
        cut_one(std::move(piece.text), out);
      }
    }
    std::erase_if(out, [](const TextPiece& piece) { return !piece.id && piece.text.empty(); });
    pieces = std::move(out);
  }

 private:
  virtual void cut_one(AlignedText text, std::vector<TextPiece>& out) const = 0;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(const JsonFields& fields) {
    for (const JsonFields& part : fields.objects("pretokenizers")) {
      parts_.push_back(make_pre_tokenizer(part));
    }
  }
  void cut(std::vector<TextPiece>& pieces) const override {
    for (const auto& part : parts_) part->cut(pieces);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

Behavior read_behavior(const JsonFields& fields, const std::string& fallback) {
  const std::string name = fields.text("behavior", fallback);
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "Contiguous") return Behavior::contiguous;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  fields.fail("behavior", "the behavior " + in_quotes(name) + " is not known",
              "known: Removed, Isolated, Contiguous, MergedWithPrevious, MergedWithNext");
}

class Split : public EachPiece {
 public:
  explicit Split(const JsonFields& fields)
      : pattern_(read_pattern(fields)),
        behavior_(read_behavior(fields, "")),
        invert_(fields.flag("invert", false)) {}

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    Parts parts = pattern_.parts(text.text());
    if (invert_) {
      for (Pattern::Part& part : parts) part.matches = !part.matches;
    }
    add_cut(text, arranged(std::move(parts), behavior_), out);
  }

  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

class Digits : public EachPiece {
 public:
  explicit Digits(const JsonFields& fields) : single_(fields.flag("individual_digits", false)) {}

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    const Behavior behavior = single_ ? Behavior::isolated : Behavior::contiguous;
    add_cut(text, arranged(character_parts(text.text(), is_numeric), behavior), out);
  }

  bool single_;
};

class WhitespaceSplit : public EachPiece {
 public:
  explicit WhitespaceSplit(const JsonFields&) {}

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    add_cut(text, arranged(character_parts(text.text(), is_whitespace), Behavior::removed), out);
  }
};

// Words, and runs of what is neither word nor white space.
class Whitespace : public EachPiece {
 public:
  explicit Whitespace(const JsonFields&) {}

 private:
  enum class Kind { space, word, other };

  static Kind kind_of(char32_t code) {
    if (is_word_character(code)) return Kind::word;
    return is_whitespace(code) ? Kind::space : Kind::other;
  }

  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    for (std::size_t at = 0; at < text.size();) {
      const Kind kind = kind_of(utf8_char_at(text.text(), at).code);
      std::size_t end = at;
      while (end < text.size()) {
        const Utf8Char character = utf8_char_at(text.text(), end);
        if (kind_of(character.code) != kind) break;
        end += character.length;
      }
      if (kind != Kind::space) out.push_back({text.cut(at, end), {}});
      at = end;
    }
  }
};

class Punctuation : public EachPiece {
 public:
  explicit Punctuation(const JsonFields& fields) : behavior_(read_behavior(fields, "Isolated")) {}

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    add_cut(text, arranged(character_parts(text.text(), is_punctuation), behavior_), out);
  }

  Behavior behavior_;
};

class BertPreTokenizer : public EachPiece {
 public:
  explicit BertPreTokenizer(const JsonFields&) {}

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    for (const Pattern::Part& word : character_parts(text.text(), is_whitespace)) {
      if (word.matches) continue;
      const AlignedText piece = text.cut(word.begin, word.end);
      add_cut(piece, character_parts(piece.text(), is_punctuation), out);
    }
  }
};

class CharDelimiterSplit : public EachPiece {
 public:
  explicit CharDelimiterSplit(const JsonFields& fields)
      : delimiter_(fields.character("delimiter", ' ')) {}

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    const auto is_delimiter = [this](char32_t code) { return code == delimiter_; };
    add_cut(text, arranged(character_parts(text.text(), is_delimiter), Behavior::removed), out);
  }

  char32_t delimiter_;
};

// Spaces become a mark, one is put before the text, words are cut before their mark.
class Metaspace : public EachPiece {
 public:
  explicit Metaspace(const JsonFields& fields)
      : mark_(fields.character("replacement", 0x2581)),
        scheme_(read_prepend_scheme(fields)),
        split_(fields.flag("split", true)) {
    append_utf8(mark_text_, mark_);
  }

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    const AlignedText marked = with_marks(text);
    if (!split_) {
      out.push_back({marked, {}});
      return;
    }
    const auto is_mark = [this](char32_t code) { return code == mark_; };
    add_cut(marked, arranged(character_parts(marked.text(), is_mark), Behavior::merged_with_next),
            out);
  }

  AlignedText with_marks(const AlignedText& text) const {
    const bool has_mark =
        text.empty() || text.text().starts_with(' ') || text.text().starts_with(mark_text_);
    const bool wants_mark =
        scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && text.cut_at() == 0);
    AlignedText marked = AlignedText::like(text);
    if (wants_mark && !has_mark) marked.put(mark_text_, text, 0, 0);
    for (const Pattern::Part& part :
         character_parts(text.text(), [](char32_t code) { return code == ' '; })) {
      if (part.matches) {
        marked.put(mark_text_, text, part.begin, part.end);
      } else {
        marked.take(text, part.begin, part.end);
      }
    }
    return marked;
  }

  char32_t mark_;
  std::string mark_text_;
  PrependScheme scheme_;
  bool split_;
};

// GPT-2's: words with their space, then every byte as a letter of the byte alphabet.
class ByteLevel : public EachPiece {
 public:
  explicit ByteLevel(const JsonFields& fields)
      : prefix_space_(fields.flag("add_prefix_space", true)),
        pattern_(Pattern::regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+)"
                                R"(|\s+(?!\S)|\s+)",
                                fields.where())),
        use_pattern_(fields.flag("use_regex", true)) {}

 private:
  void cut_one(AlignedText text, std::vector<TextPiece>& out) const override {
    if (prefix_space_ && !text.empty() && !text.text().starts_with(' ')) {
      AlignedText spaced = AlignedText::like(text);
      spaced.put(" ", text, 0, 0);
      spaced.take(text, 0, text.size());
      text = std::move(spaced);
    }
    if (!use_pattern_) {
      out.push_back({in_byte_letters(text), {}});
      return;
    }
    for (const Pattern::Part& part : pattern_.parts(text.text())) {
      out.push_back({in_byte_letters(text.cut(part.begin, part.end)), {}});
    }
  }

  bool prefix_space_;
  Pattern pattern_;
  bool use_pattern_;
};

template <class Made>
constexpr MakeFromFields<PreTokenizer> make = make_from_fields<PreTokenizer, Made>;

constexpr std::pair<const char*, MakeFromFields<PreTokenizer>> kPreTokenizers[] = {
    {"Sequence", make<Sequence>},
    {"Split", make<Split>},
    {"ByteLevel", make<ByteLevel>},
    {"Metaspace", make<Metaspace>},
    {"Digits", make<Digits>},
    {"Whitespace", make<Whitespace>},
    {"WhitespaceSplit", make<WhitespaceSplit>},
    {"Punctuation", make<Punctuation>},
    {"BertPreTokenizer", make<BertPreTokenizer>},
    {"CharDelimiterSplit", make<CharDelimiterSplit>},
};

}  // namespace

PrependScheme read_prepend_scheme(const JsonFields& fields) {
  const bool prefix = fields.flag("add_prefix_space", true);
  const std::string name = fields.text("prepend_scheme", prefix ? "always" : "never");
  if (!prefix && name != "never") {
    fields.fail("add_prefix_space", "add_prefix_space is false, but prepend_scheme is " + name);
  }
  if (name == "always") return PrependScheme::always;
  if (name == "first") return PrependScheme::first;
  if (name == "never") return PrependScheme::never;
  fields.fail("prepend_scheme", "the prepend_scheme " + in_quotes(name) + " is not known",
              "known: always, first, never");
}

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonFields& fields) {
  return make_by_type(kPreTokenizers, fields);
}

}  // namespace phasescope::formats
