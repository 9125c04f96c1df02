#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace phasescope::formats {

// SHA-256 (FIPS 180-4), fed piece by piece; by the processor's instructions for it where it has
// them, unless `plain` is asked for.
class Sha256 {
 public:
  enum class Path { fastest, plain };
  explicit Sha256(Path path = Path::fastest);

  void update(std::span<const std::byte> bytes);
  // The digest as 64 lower-case hex digits. The object must not be used after it.
  std::string finish();

 private:
  void (*compress_)(std::array<std::uint32_t, 8>& state, const std::byte* block);
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_ = {};
  std::size_t filled_ = 0;
  std::uint64_t length_ = 0;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);
// Throws FileError. `after_piece` is told how many bytes have been read since it was last called,
// and may throw.
std::string sha256_of_file(const std::filesystem::path& path,
                           const std::function<void(std::uint64_t)>& after_piece = {});

}  // namespace phasescope::formats
