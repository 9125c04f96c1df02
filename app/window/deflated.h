#pragma once
// Text in the deflate format with zlib's header (RFC 1950), as python's zlib module reads it too.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::app {

// Throws std::length_error for a text of 2^31 bytes and more.
std::vector<std::byte> deflated(std::string_view text);

// The text of `size` bytes that deflated() was given. Throws std::invalid_argument where `bytes`
// hold no such text.
std::string inflated(std::span<const std::byte> bytes, std::size_t size);

}  // namespace phasescope::app
