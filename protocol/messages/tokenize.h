#pragma once
// Texts to token ids and back.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/messages/common.h"

namespace phasescope::protocol {

// Text to ids and back: {"ids", "decoded", "tokens", "spans", "pre_tokens"}, or "items" of them for
// several.
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
    v("no_special", no_special, About{.help = "no template"});
    v("texts", texts,
      About{.help = "several texts in place of an input", .wire_only = true, .repeats = true});
  }
};

}  // namespace phasescope::protocol
