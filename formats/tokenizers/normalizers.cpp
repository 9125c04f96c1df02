#include "formats/tokenizers/normalizers.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/base64.h"
#include "formats/tokenizers/byte_letters.h"
#include "formats/tokenizers/char_map.h"
#include "formats/tokenizers/growth.h"
#include "formats/tokenizers/make_by_type.h"
#include "formats/tokenizers/normal_forms.h"
#include "formats/tokenizers/unicode.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// Characters rewritten one by one: `rewrite` gives what a character becomes, or nothing where it
// stays.
template <typename Rewrite>
AlignedText rewritten(const AlignedText& text, Rewrite rewrite) {
  AlignedText made = AlignedText::like(text);
  std::size_t kept = 0;  // what is before it has been taken over
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char character = utf8_char_at(text.text(), at);
    bytes.clear();
    if (rewrite(character.code, bytes)) {
      made.take(text, kept, at);
      made.put(bytes, text, at, at + character.length);
      kept = at + character.length;
    }
    at += character.length;
  }
  if (kept == 0) return text;
  made.take(text, kept, text.size());
  return made;
}

template <typename Drop>
AlignedText filtered(const AlignedText& text, Drop drop) {
  return rewritten(text, [&drop](char32_t code, std::string&) { return drop(code); });
}

AlignedText lower_cased(const AlignedText& text) {
  return rewritten(text, [](char32_t code, std::string& out) {
    const std::u32string lower = lower_case(code);
    if (lower.size() == 1 && lower[0] == code) return false;
    for (const char32_t part : lower) append_utf8(out, part);
    return true;
  });
}

class Sequence : public Normalizer {
 public:
  explicit Sequence(const JsonFields& fields) : where_(fields.where()) {
    for (const JsonFields& part : fields.objects("normalizers")) {
      parts_.push_back(make_normalizer(part));
    }
  }
  AlignedText normalize(AlignedText text) const override {
    const std::size_t given = text.size();
    for (const auto& part : parts_) {
      text = part->normalize(std::move(text));
      check_growth(text.size(), given, where_);
    }
    return text;
  }

 private:
  std::string where_;
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

template <NormalForm form>
class UnicodeForm : public Normalizer {
 public:
  explicit UnicodeForm(const JsonFields&) {}
  AlignedText normalize(AlignedText text) const override { return in_normal_form(text, form); }
};

class Lowercase : public Normalizer {
 public:
  explicit Lowercase(const JsonFields&) {}
  AlignedText normalize(AlignedText text) const override { return lower_cased(text); }
};

class StripAccents : public Normalizer {
 public:
  explicit StripAccents(const JsonFields&) {}
  AlignedText normalize(AlignedText text) const override { return filtered(text, is_mark); }
};

class Strip : public Normalizer {
 public:
  explicit Strip(const JsonFields& fields)
      : left_(fields.flag("strip_left", true)), right_(fields.flag("strip_right", true)) {}
  AlignedText normalize(AlignedText text) const override {
    std::size_t first = text.size(), last = 0;  // what is not white space
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char character = utf8_char_at(text.text(), at);
      if (!is_whitespace(character.code)) {
        first = std::min(first, at);
        last = at + character.length;
      }
      at += character.length;
    }
    AlignedText made = AlignedText::like(text);
    if (last == 0 && (left_ || right_)) return made;
    made.take(text, left_ ? first : 0, right_ ? last : text.size());
    return made;
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(const JsonFields& fields) : prepend_(fields.short_text("prepend")) {}
  AlignedText normalize(AlignedText text) const override {
    if (text.empty()) return text;
    AlignedText made = AlignedText::like(text);
    made.put(prepend_, text, 0, 0);
    made.take(text, 0, text.size());
    return made;
  }

 private:
  std::string prepend_;
};

class Replace : public Normalizer {
 public:
  explicit Replace(const JsonFields& fields)
      : pattern_(read_pattern(fields)),
        content_(fields.text("content")),
        where_(fields.where("content")) {}
  AlignedText normalize(AlignedText text) const override {
    AlignedText made = AlignedText::like(text);
    for (const Pattern::Part& part : pattern_.parts(text.text())) {
      if (part.matches) {
        made.put(content_, text, part.begin, part.end);
        check_growth(made.size(), text.size(), where_);
      } else {
        made.take(text, part.begin, part.end);
      }
    }
    return made;
  }

 private:
  Pattern pattern_;
  std::string content_, where_;
};

bool is_ideograph(char32_t c) {
  // The gap from 2B820 to 2B91F is the reference's.
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

// BERT's: clean, space around ideographs, accents off, lower case.
class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const JsonFields& fields)
      : clean_(fields.flag("clean_text", true)),
        space_ideographs_(fields.flag("handle_chinese_chars", true)),
        lowercase_(fields.flag("lowercase", true)),
        strip_accents_(fields.flag("strip_accents", lowercase_)) {}

  AlignedText normalize(AlignedText text) const override {
    if (clean_) text = cleaned(text);
    if (space_ideographs_) text = with_spaced_ideographs(text);
    if (strip_accents_) {
      text = filtered(in_normal_form(text, NormalForm::nfd), is_nonspacing_mark);
    }
    return lowercase_ ? lower_cased(text) : text;
  }

 private:
  static AlignedText cleaned(const AlignedText& text) {
    return rewritten(text, [](char32_t code, std::string& out) {
      const bool space = code == '\t' || code == '\n' || code == '\r';
      if (!space && (code == 0 || code == 0xFFFD || is_control_or_format(code))) return true;
      if (code == ' ' || !is_whitespace(code)) return false;
      out = " ";
      return true;
    });
  }

  static AlignedText with_spaced_ideographs(const AlignedText& text) {
    return rewritten(text, [](char32_t code, std::string& out) {
      if (!is_ideograph(code)) return false;
      out = " ";
      append_utf8(out, code);
      out += ' ';
      return true;
    });
  }

  bool clean_, space_ideographs_, lowercase_, strip_accents_;
};

// Control characters go, unusual white space becomes a space.
class Nmt : public Normalizer {
 public:
  explicit Nmt(const JsonFields&) {}
  AlignedText normalize(AlignedText text) const override {
    return rewritten(text, [](char32_t code, std::string& out) {
      const auto in = [code](char32_t first, char32_t last) {
        return code >= first && code <= last;
      };
      const bool space = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                         in(0x200B, 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
                         code == 0xFEFF || code == 0xFFFD;
      if (space) out = " ";
      return space || in(1, 8) || code == 0xB || in(0xE, 0x1F) || code == 0x7F || code == 0x8F ||
             code == 0x9F;
    });
  }
};

// SentencePiece's rules as the reference applies them: a grapheme cluster of less than six bytes
// by the shortest rule that its beginning fits, else character by character.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(const JsonFields& fields)
      : map_(fields.has("precompiled_charsmap")
                 ? decoded_base64(fields.text("precompiled_charsmap"),
                                  fields.where("precompiled_charsmap"))
                 : std::string(),
             fields.where("precompiled_charsmap")) {}

  AlignedText normalize(AlignedText text) const override {
    if (map_.empty()) return text;
    AlignedText made = AlignedText::like(text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = cluster_end(text.text(), at);
      if (end - at >= 6 || !put(made, text, at, end)) {
        for (std::size_t c = at; c < end; c += utf8_char_at(text.text(), c).length) {
          const std::size_t next = c + utf8_char_at(text.text(), c).length;
          if (!put(made, text, c, next)) made.take(text, c, next);
        }
      }
      at = end;
    }
    return made;
  }

 private:
  bool put(AlignedText& made, const AlignedText& text, std::size_t first, std::size_t last) const {
    const auto rule = map_.shortest(std::string_view(text.text()).substr(first, last - first));
    if (rule) made.put(rule->replacement, text, first, last);
    return rule.has_value();
  }

  static std::size_t cluster_end(std::string_view text, std::size_t at) {
    utf8proc_int32_t state = 0;
    Utf8Char before = utf8_char_at(text, at);
    at += before.length;
    while (at < text.size()) {
      const Utf8Char next = utf8_char_at(text, at);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.code),
                                           static_cast<utf8proc_int32_t>(next.code), &state)) {
        break;
      }
      at += next.length;
      before = next;
    }
    return at;
  }

  CharMap map_;
};

class ByteLevel : public Normalizer {
 public:
  explicit ByteLevel(const JsonFields&) {}
  AlignedText normalize(AlignedText text) const override { return in_byte_letters(text); }
};

template <class Made>
constexpr MakeFromFields<Normalizer> make = make_from_fields<Normalizer, Made>;

constexpr std::pair<const char*, MakeFromFields<Normalizer>> kNormalizers[] = {
    {"Sequence", make<Sequence>},
    {"NFC", make<UnicodeForm<NormalForm::nfc>>},
    {"NFD", make<UnicodeForm<NormalForm::nfd>>},
    {"NFKC", make<UnicodeForm<NormalForm::nfkc>>},
    {"NFKD", make<UnicodeForm<NormalForm::nfkd>>},
    {"Lowercase", make<Lowercase>},
    {"StripAccents", make<StripAccents>},
    {"Strip", make<Strip>},
    {"Prepend", make<Prepend>},
    {"Replace", make<Replace>},
    {"BertNormalizer", make<BertNormalizer>},
    {"Nmt", make<Nmt>},
    {"Precompiled", make<Precompiled>},
    {"ByteLevel", make<ByteLevel>},
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonFields& fields) {
  return make_by_type(kNormalizers, fields);
}

}  // namespace phasescope::formats
