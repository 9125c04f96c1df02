// Frames as bytes, for tests of whoever reads them.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "protocol/crc32c.h"
#include "protocol/frame.h"
#include "protocol/frame_layout.h"
#include "tests/temporary_folder.h"

namespace phasescope::protocol {

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string trailer_of(const std::string& content) {
  std::byte bytes[4];
  store_little(std::span<std::byte>(bytes), 0, crc32c(std::as_bytes(std::span(content))));
  return text_of(bytes);
}

// A preamble with a right checksum and whatever is to follow it; a header length of 0 is filled in.
inline std::string raw_frame(Preamble preamble, const std::string& header,
                             const std::string& payload = "", bool trailer = true) {
  if (preamble.header_bytes == 0) preamble.header_bytes = static_cast<std::uint32_t>(header.size());
  std::string bytes = text_of(encode_preamble(preamble)) + header + payload;
  return trailer ? bytes + trailer_of(header + payload) : bytes;
}

inline std::string frame_bytes(const Frame& frame) {
  const auto encoded = encode_frame(frame, {}, std::nullopt);
  std::string payload;
  for (auto piece : encoded.payload) payload += text_of(piece);
  return encoded.head + payload + trailer_of(encoded.head.substr(preamble_bytes) + payload);
}

// What a decoder makes of the bytes when they come in pieces of at most `piece`.
inline std::vector<Frame> decode_all(FrameDecoder& decoder, const std::string& bytes,
                                     std::size_t piece) {
  keep_case("bytes.frames", bytes);
  std::vector<Frame> frames;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto wanted = decoder.wanted();
    const std::size_t count = std::min({piece, wanted.size(), bytes.size() - at});
    std::memcpy(wanted.data(), bytes.data() + at, count);
    decoder.commit(count);
    at += count;
    if (decoder.complete()) frames.push_back(decoder.take());
  }
  return frames;
}

}  // namespace phasescope::protocol
