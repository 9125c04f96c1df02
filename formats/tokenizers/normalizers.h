#pragma once

#include <memory>
#include <string>

#include "formats/tokenizers/aligned_text.h"
#include "formats/tokenizers/json_fields.h"

namespace phasescope::formats {

// What a tokenizer does to a text before it is cut.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual AlignedText normalize(AlignedText text) const = 0;
};

// From tokenizer.json's `normalizer`; by its "type".
std::unique_ptr<Normalizer> make_normalizer(const JsonFields& fields);

}  // namespace phasescope::formats
