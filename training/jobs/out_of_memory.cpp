#include "training/jobs/out_of_memory.h"

#include <c10/util/Exception.h>
#include <sys/sysinfo.h>

#include <charconv>
#include <new>
#include <string>

namespace phasescope::training {
namespace {

constexpr const char* kSmaller = "halve train.batch_tokens or model.context";

std::string megabytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

std::int64_t free_bytes() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return 0;
  return static_cast<std::int64_t>((info.freeram + info.bufferram) * info.mem_unit);
}

}  // namespace

std::optional<std::int64_t> bytes_wanted(std::string_view message) {
  const std::size_t at = message.find("tried to allocate ");
  if (at == message.npos) return std::nullopt;
  const std::string_view rest = message.substr(at + 18);
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
  return error == std::errc() ? std::optional(bytes) : std::nullopt;
}

formats::Error memory_or_internal_error(const std::exception& exception) {
  if (const auto* device = dynamic_cast<const c10::OutOfMemoryError*>(&exception)) {
    // A device's allocator says in its own sentence what was wanted and is free.
    const std::string said = device->what_without_backtrace();
    return formats::Error(
        "out_of_memory",
        "there is not enough memory for a step: " + said.substr(0, said.find('\n')),
        "train.batch_tokens", kSmaller);
  }
  const std::optional<std::int64_t> wanted = bytes_wanted(exception.what());
  if (!wanted && !dynamic_cast<const std::bad_alloc*>(&exception)) {
    return formats::internal_error(exception.what());
  }
  const std::string asked = wanted ? megabytes(*wanted) + " were wanted, " : "";
  return formats::Error(
      "out_of_memory",
      "there is not enough memory for a step: " + asked + megabytes(free_bytes()) + " are free",
      "train.batch_tokens", kSmaller);
}

}  // namespace phasescope::training
