#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/tokenizers/json_fields.h"

namespace phasescope::formats {

// What becomes of bytes that are no UTF-8 when tokens become text.
enum class BrokenBytes { keep, replace };

// Turns tokens into the pieces of a text.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // With `replace` broken bytes become U+FFFD, as many as in the reference.
  virtual std::vector<std::string> decode(std::vector<std::string> tokens,
                                          BrokenBytes broken) const = 0;
  // Whether tokens are written in the byte alphabet.
  virtual bool is_byte_level() const { return false; }
};

// From tokenizer.json's `decoder`; by its "type".
std::unique_ptr<TokenDecoder> make_token_decoder(const JsonFields& fields);

}  // namespace phasescope::formats
