#include "training/jobs/out_of_memory.h"

#include <sys/sysinfo.h>

#include <charconv>
#include <new>
#include <string>

namespace phasescope::training {
namespace {

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
  const std::string_view said = exception.what();
  const std::optional<std::int64_t> wanted = bytes_wanted(said);
  constexpr const char* kWhere = "train.batch_tokens";
  constexpr const char* kHint = "halve train.batch_tokens or model.context";
  // Of a GPU its own allocator says how much was wanted and is free, in its first sentences.
  if (!wanted && said.find("out of memory") != said.npos) {
    return formats::Error(
        "out_of_memory",
        "there is not enough memory for a step: " + std::string(said.substr(0, said.find('\n'))),
        kWhere, kHint);
  }
  if (!wanted && !dynamic_cast<const std::bad_alloc*>(&exception)) {
    return formats::internal_error(exception.what());
  }
  const std::string asked = wanted ? megabytes(*wanted) + " were wanted, " : "";
  return formats::Error(
      "out_of_memory",
      "there is not enough memory for a step: " + asked + megabytes(free_bytes()) + " are free",
      kWhere, kHint);
}

}  // namespace phasescope::training
