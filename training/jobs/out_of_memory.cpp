#include "training/jobs/out_of_memory.h"

#include <charconv>
#include <new>
#include <string>
#include <string_view>

#include "formats/system_memory.h"

namespace phasescope::training {
namespace {

std::string megabytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

// A device's allocator says in its first line how much was wanted and is free.
bool is_of_a_device(std::string_view message) {
  return message.find("out of memory") != message.npos;
}

// oneDNN, which makes bfloat16 products, says no more than this of memory that it could not get.
bool is_of_a_product(std::string_view message) {
  return message.find("could not create a primitive") != message.npos;
}

}  // namespace

bool says_out_of_memory(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const formats::Error*>(&exception)) {
    return error->code() == "out_of_memory";
  }
  return dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ||
         bytes_wanted(exception.what()).has_value() || is_of_a_device(exception.what()) ||
         is_of_a_product(exception.what());
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
  const std::string_view message = exception.what();
  const std::optional<std::int64_t> wanted = bytes_wanted(message);
  std::string said = wanted ? megabytes(*wanted) + " were wanted, " : "";
  if (is_of_a_product(message)) said = "oneDNN could not create a primitive, ";
  said += megabytes(formats::available_bytes()) + " are free now";
  if (!wanted && is_of_a_device(message)) said = message.substr(0, message.find('\n'));
  return formats::Error("out_of_memory", "there is not enough memory for a step: " + said,
                        "train.batch_tokens", "halve train.batch_tokens or model.context");
}

}  // namespace phasescope::training
