#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "formats/tokenizers/aligned_text.h"
#include "formats/tokenizers/json_fields.h"

namespace phasescope::formats {

// A stretch of text, or an added token found in it, which nothing changes any more.
struct TextPiece {
  AlignedText text;
  std::optional<std::int64_t> id;
};

// Cuts texts into the pieces that the vocabulary's model gets one by one.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Pieces with an id pass through; empty ones go.
  virtual void cut(std::vector<TextPiece>& pieces) const = 0;
};

// From tokenizer.json's `pre_tokenizer`; by its "type".
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonFields& fields);

// When a Metaspace puts its mark before a text.
enum class PrependScheme { always, first, never };
PrependScheme read_prepend_scheme(const JsonFields& fields);

}  // namespace phasescope::formats
