#pragma once

#include "formats/tokenizers/aligned_text.h"
#include "formats/tokenizers/unicode.h"

namespace phasescope::formats {

// Unicode normalisation (UAX 15) that keeps track of where its characters come from.
AlignedText in_normal_form(const AlignedText& text, NormalForm form);

}  // namespace phasescope::formats
