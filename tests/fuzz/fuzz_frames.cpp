// Bytes from anywhere into the reader of frames. The first input byte chooses how they are cut into
// pieces and whether checksums are put right first: without that no damage behind them is ever
// seen.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "protocol/crc32c.h"
#include "protocol/frame.h"
#include "protocol/frame_layout.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::protocol;

// Small, so that the fuzzer reaches the limits.
FrameLimits small_limits() {
  FrameLimits limits;
  limits.header = 4096;
  limits.payload = 1 << 16;
  limits.banner = 256;
  limits.tensors = 16;
  return limits;
}

// Writes a right checksum into the preamble at `at` and behind the frame's content.
void mend_checksums(std::vector<std::byte>& bytes, std::size_t at) {
  const auto frame = std::span(bytes).subspan(at);
  std::memcpy(frame.data(), frame_magic.data(), frame_magic.size());
  store_little(frame, layout::crc, crc32c(frame.first(layout::crc)));
  const std::uint64_t content =
      std::uint64_t{load_little<std::uint32_t>(frame, layout::header_bytes)} +
      load_little<std::uint64_t>(frame, layout::payload_bytes);
  if (content > frame.size() || frame.size() - content < preamble_bytes + 4) return;
  store_little(frame, preamble_bytes + content, crc32c(frame.subspan(preamble_bytes, content)));
}

// What was read must be what the limits allow, and must be written again without a complaint.
void check(const Frame& frame) {
  for (const auto& tensor : frame.tensors) {
    std::size_t sum = 0;
    for (const std::byte byte : tensor.bytes()) sum += static_cast<std::size_t>(byte);
    if (tensor.size_bytes() > small_limits().payload || sum > (std::size_t{1} << 40)) std::abort();
  }
  encode_frame(frame, FrameLimits{}, std::nullopt);
}

void read_all(std::span<const std::byte> bytes, std::size_t piece) {
  FrameDecoder decoder(small_limits());
  while (!bytes.empty()) {
    const auto wanted = decoder.wanted();
    if (wanted.empty()) std::abort();
    const std::size_t count = std::min({piece, wanted.size(), bytes.size()});
    std::memcpy(wanted.data(), bytes.data(), count);
    decoder.commit(count);
    bytes = bytes.subspan(count);
    if (decoder.complete()) check(decoder.take());
  }
}

std::string seed_frame(std::uint32_t seed) {
  std::mt19937 random(seed);
  Frame frame{static_cast<FrameType>(1 + random() % 9), random(), {{"method", "map"}}, {}};
  if (frame.type == FrameType::request || frame.type == FrameType::result) {
    frame.tensors.push_back(TensorRef::own<float>("x", {2, 3}, std::vector<float>(6, 1.f)));
  }
  const auto encoded = encode_frame(frame, {}, std::nullopt);
  std::string bytes = encoded.head;
  for (auto piece : encoded.payload) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return bytes + "1234";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::uint8_t choice = data[0];
  const auto* begin = reinterpret_cast<const std::byte*>(data + 1);
  std::vector<std::byte> bytes(begin, begin + size - 1);
  if ((choice & 1) && bytes.size() >= preamble_bytes) mend_checksums(bytes, 0);
  try {
    read_all(bytes, 1 + (choice >> 1));
  } catch (const FrameError&) {
  }
  return 0;
}

// A whole frame, its checksum put right by the first byte.
std::string phasescope::fuzz::seed(std::mt19937& random) {
  // As they are, and with checksums put right.
  if (const auto kept = case_of_tests(random, ".frames")) {
    return std::string(random() % 2 ? "\x7e" : "\x7f") + *kept;
  }
  return "\x7f" + seed_frame(static_cast<std::uint32_t>(random()));
}
