#include "formats/tokenizers/token_decoders.h"

#include <algorithm>
#include <utility>

#include "formats/text_input.h"
#include "formats/tokenizer.h"
#include "formats/tokenizers/byte_letters.h"
#include "formats/tokenizers/growth.h"
#include "formats/tokenizers/make_by_type.h"
#include "formats/tokenizers/pre_tokenizers.h"
#include "formats/tokenizers/subword_model.h"
#include "formats/tokenizers/unicode.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

Tokens one_token(std::string text) {
  Tokens tokens;
  tokens.push_back(std::move(text));
  return tokens;
}

class Sequence : public TokenDecoder {
 public:
  explicit Sequence(const JsonFields& fields) : where_(fields.where()) {
    for (const JsonFields& part : fields.objects("decoders")) {
      parts_.push_back(make_token_decoder(part));
    }
  }
  Tokens decode(Tokens tokens, BrokenBytes broken) const override {
    const std::size_t given = size_of(tokens);
    for (const auto& part : parts_) {
      tokens = part->decode(std::move(tokens), broken);
      check_growth(size_of(tokens), given, where_);
    }
    return tokens;
  }
  bool is_byte_level() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const auto& part) { return part->is_byte_level(); });
  }

 private:
  static std::size_t size_of(const Tokens& tokens) {
    std::size_t size = tokens.size();
    for (const std::string& token : tokens) size += token.size();
    return size;
  }

  std::string where_;
  std::vector<std::unique_ptr<TokenDecoder>> parts_;
};

class ByteLevel : public TokenDecoder {
 public:
  explicit ByteLevel(const JsonFields&) {}
  Tokens decode(Tokens tokens, BrokenBytes broken) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_letters(token).value_or(token);
    return one_token(broken == BrokenBytes::replace ? with_replacements(bytes) : bytes);
  }
  bool is_byte_level() const override { return true; }
};

class ByteFallback : public TokenDecoder {
 public:
  explicit ByteFallback(const JsonFields&) {}
  Tokens decode(Tokens tokens, BrokenBytes broken) const override {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
      if (broken == BrokenBytes::keep || first_invalid_utf8(bytes) == bytes.size()) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(kReplacement));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    return out;
  }
};

class Fuse : public TokenDecoder {
 public:
  explicit Fuse(const JsonFields&) {}
  Tokens decode(Tokens tokens, BrokenBytes) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    return one_token(std::move(all));
  }
};

class Replace : public TokenDecoder {
 public:
  explicit Replace(const JsonFields& fields)
      : pattern_(read_pattern(fields)), content_(fields.short_text("content")) {}
  Tokens decode(Tokens tokens, BrokenBytes) const override {
    for (std::string& token : tokens) {
      if (first_invalid_utf8(token) != token.size()) continue;  // bytes, not text to search
      std::string replaced;
      for (const Pattern::Part& part : pattern_.parts(token)) {
        replaced += part.matches ? content_ : token.substr(part.begin, part.end - part.begin);
      }
      token = std::move(replaced);
    }
    return tokens;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Strip : public TokenDecoder {
 public:
  explicit Strip(const JsonFields& fields)
      : start_(fields.integer("start", 0, 1 << 20)), stop_(fields.integer("stop", 0, 1 << 20)) {
    append_utf8(content_, fields.character("content", ' '));
  }
  Tokens decode(Tokens tokens, BrokenBytes) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (auto n = start_; n > 0 && rest.starts_with(content_); --n) {
        rest.remove_prefix(content_.size());
      }
      for (auto n = stop_; n > 0 && rest.ends_with(content_); --n) {
        rest.remove_suffix(content_.size());
      }
      token = std::string(rest);
    }
    return tokens;
  }

 private:
  std::int64_t start_, stop_;
  std::string content_;
};

class WordPiece : public TokenDecoder {
 public:
  explicit WordPiece(const JsonFields& fields)
      : prefix_(fields.short_text("prefix", "##")), cleanup_(fields.flag("cleanup", true)) {}
  Tokens decode(Tokens tokens, BrokenBytes) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix_)) {
        tokens[i].erase(0, prefix_.size());
      } else if (i > 0) {
        tokens[i].insert(0, " ");
      }
      if (cleanup_) clean_up(tokens[i]);
    }
    return tokens;
  }

 private:
  static void clean_up(std::string& token) {
    constexpr std::pair<const char*, const char*> rules[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (const auto& [from, to] : rules) replace_all(token, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

class Metaspace : public TokenDecoder {
 public:
  explicit Metaspace(const JsonFields& fields) : scheme_(read_prepend_scheme(fields)) {
    append_utf8(mark_, fields.character("replacement", 0x2581));
  }
  Tokens decode(Tokens tokens, BrokenBytes) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool drops = i == 0 && scheme_ != PrependScheme::never;
      replace_all(tokens[i], mark_, drops ? "" : " ");
    }
    return tokens;
  }

 private:
  PrependScheme scheme_;
  std::string mark_;
};

class BpeDecoder : public TokenDecoder {
 public:
  explicit BpeDecoder(const JsonFields& fields) : suffix_(fields.short_text("suffix", "</w>")) {}
  Tokens decode(Tokens tokens, BrokenBytes) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
    return tokens;
  }

 private:
  std::string suffix_;
};

template <class Made>
constexpr MakeFromFields<TokenDecoder> make = make_from_fields<TokenDecoder, Made>;

constexpr std::pair<const char*, MakeFromFields<TokenDecoder>> kDecoders[] = {
    {"Sequence", make<Sequence>},         {"ByteLevel", make<ByteLevel>},
    {"ByteFallback", make<ByteFallback>}, {"Fuse", make<Fuse>},
    {"Replace", make<Replace>},           {"Strip", make<Strip>},
    {"WordPiece", make<WordPiece>},       {"Metaspace", make<Metaspace>},
    {"BPEDecoder", make<BpeDecoder>},
};

}  // namespace

std::unique_ptr<TokenDecoder> make_token_decoder(const JsonFields& fields) {
  return make_by_type(kDecoders, fields);
}

}  // namespace phasescope::formats
