#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/tokenizers/json_fields.h"

namespace phasescope::formats {

// What is put around the ids of a single text.
struct TemplateIds {
  std::vector<std::int64_t> before, after;
};

// From tokenizer.json's `post_processor`; by its "type". Templates for pairs of texts are not read.
// `ids_end`: template ids must be below.
TemplateIds read_template(const JsonFields& fields, std::int64_t ids_end);

}  // namespace phasescope::formats
