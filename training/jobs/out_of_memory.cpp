#include "training/jobs/out_of_memory.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <new>
#include <string>

#include "formats/system_memory.h"

namespace phasescope::training {
namespace {

std::string megabytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

}  // namespace

bool says_out_of_memory(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const formats::Error*>(&exception)) {
    return error->code() == "out_of_memory";
  }
  return dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ||
         dynamic_cast<const c10::OutOfMemoryError*>(&exception) != nullptr ||
         bytes_wanted(exception.what()).has_value();
}

std::optional<std::int64_t> bytes_wanted(std::string_view message) {
  const std::size_t at = message.find("tried to allocate ");
  if (at == message.npos) return std::nullopt;
  const std::string_view rest = message.substr(at + 18);
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
  return error == std::errc() ? std::optional(bytes) : std::nullopt;
}

formats::Error memory_or_internal_error(const std::exception& exception) {
  if (!says_out_of_memory(exception)) return formats::internal_error(exception.what());
  const std::optional<std::int64_t> wanted = bytes_wanted(exception.what());
  const std::string asked = wanted ? megabytes(*wanted) + " were wanted, " : "";
  return formats::Error("out_of_memory",
                        "there is not enough memory for a step: " + asked +
                            megabytes(formats::available_bytes()) + " are free",
                        "train.batch_tokens", "halve train.batch_tokens or model.context");
}

}  // namespace phasescope::training
