#include "training/token_file.h"

#include <cstddef>

#include "formats/error.h"

namespace phasescope::training {

int token_width(std::int64_t ids) {
  if (ids <= 1 << 8) return 1;
  return ids <= 1 << 16 ? 2 : 4;
}

std::vector<std::int64_t> TokenFile::read(std::int64_t begin, std::int64_t count) const {
  const auto width = static_cast<std::size_t>(width_);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * width);
  try {
    file_.read(static_cast<std::uint64_t>(begin) * width, bytes);
    file_.check_unchanged();
  } catch (const formats::FileError&) {
    throw;
  } catch (const formats::Error&) {
    throw formats::bad_input("the training text was changed while it was read",
                             file_.path().string(), "put the old one back and resume the job");
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (std::size_t n = 0; n < ids.size(); ++n) {
    for (std::size_t b = width; b-- > 0;) {
      ids[n] = ids[n] << 8 | std::to_integer<std::int64_t>(bytes[n * width + b]);
    }
  }
  return ids;
}

void TokenWriter::add(std::span<const std::int64_t> ids) {
  const auto width = static_cast<std::size_t>(width_);
  std::vector<std::byte> bytes(ids.size() * width);
  for (std::size_t n = 0; n < ids.size(); ++n) {
    for (std::size_t b = 0; b < width; ++b) {
      bytes[n * width + b] = static_cast<std::byte>(ids[n] >> (8 * b));
    }
  }
  sha256_.update(bytes);
  file_.write(bytes);
  count_ += static_cast<std::int64_t>(ids.size());
}

}  // namespace phasescope::training
