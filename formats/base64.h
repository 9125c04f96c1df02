#pragma once

#include <string>
#include <string_view>

namespace phasescope::formats {

// The bytes of a base64 text (RFC 4648, with its padding). Throws Error "bad_input" naming `where`.
std::string decoded_base64(std::string_view text, const std::string& where);
// Any bytes as such a text.
std::string base64_of(std::string_view bytes);

}  // namespace phasescope::formats
