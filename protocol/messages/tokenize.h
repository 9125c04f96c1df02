#pragma once
// Texts to token ids and back.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/common.h"

namespace phasescope::protocol {

// Text to ids and back: a TokenizeResult, or of several a TokenizeList.
struct TokenizeRequest {
  static constexpr const char* method = "tokenize";
  static constexpr const char* verb = "tokenize";
  std::string model;
  Input input;
  std::int64_t length = 0;
  bool no_special = false;
  std::vector<std::string> texts;
  template <class V>
  void fields(V& v) {
    v("model", model,
      About{.help = "folder, .safetensors file, bundled name, tokenizer.json or .model file",
            .argument = "MODEL"});
    v("input", input, kInputAbout);
    v("length", length,
      About{
          .help = "tokens read of a file of inputs (default: all)", .low = 1, .high = kMostTokens});
    v("no_special", no_special,
      About{.help = "without the tokenizer's template of special tokens"});
    v("texts", texts,
      About{.help = "several texts in place of an input", .wire_only = true, .repeats = true});
  }
};

// spans: [begin, end) in bytes of the text, one an id; an empty one for ids that the template put
// in. They and pre_tokens are of texts, not of ids.
struct TokenizeResult {
  std::vector<std::int64_t> ids;
  std::string decoded;
  std::vector<std::string> tokens;  // as they are shown
  std::optional<std::vector<std::vector<std::int64_t>>> spans;
  std::optional<std::vector<std::string>> pre_tokens;
  template <class V>
  void fields(V& v) {
    v("ids", ids), v("decoded", decoded), v("tokens", tokens);
    v("spans", spans, About{.unit = "bytes"}), v("pre_tokens", pre_tokens);
  }
};

struct TokenizeList {
  std::vector<TokenizeResult> items;
  template <class V>
  void fields(V& v) {
    v("items", items);
  }
};

}  // namespace phasescope::protocol
