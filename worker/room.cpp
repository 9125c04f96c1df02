#include "worker/room.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <regex>
#include <utility>

#include "formats/error.h"
#include "kernels/cuda/cuda_error.h"
#include "protocol/error_info.h"
#include "worker/devices.h"
#include "worker/model_cache.h"
#include "worker/pass_cache.h"

namespace phasescope::worker {

namespace {

void make_room(RequestContext& context) {
  pass_cache().clear();
  context.models().keep_newest();
  empty_device_cache();
}

double bytes_of(const std::string& number, const std::string& unit) {
  const double value = std::stod(number);
  if (unit == "GiB") return value * 0x1p30;
  if (unit == "MiB") return value * 0x1p20;
  return unit == "KiB" ? value * 0x1p10 : value;
}

std::string megabytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

}  // namespace

Handler with_second_try(Handler handler) {
  if (handler.name.starts_with("jobs.")) return handler;
  handler.run = [run = std::move(handler.run)](const nlohmann::json& params,
                                               RequestContext& context) {
    // What the first try held has to be gone before the second one.
    try {
      return run(params, context);
    } catch (const c10::OutOfMemoryError&) {
    } catch (const kernels::CudaOutOfMemory&) {
    }
    make_room(context);
    const PassCache::Keeping none(pass_cache(), 0);
    return run(params, context);
  };
  return handler;
}

std::optional<DeviceShortage> shortage_of(std::string_view sentence) {
  static const std::regex wanted("Tried to allocate ([0-9.]+) (GiB|MiB|KiB|bytes)");
  static const std::regex free("of which ([0-9.]+) (GiB|MiB|KiB|bytes) is free");
  const std::string text(sentence);
  std::smatch of_wanted, of_free;
  if (!std::regex_search(text, of_wanted, wanted) || !std::regex_search(text, of_free, free)) {
    return std::nullopt;
  }
  return DeviceShortage{bytes_of(of_wanted[1], of_wanted[2]), bytes_of(of_free[1], of_free[2])};
}

std::string what_would_fit(const std::optional<DeviceShortage>& shortage) {
  const std::string less = "ask for fewer rows, columns or layers, or a shorter text";
  if (!shortage || !(shortage->wanted > 0)) return less;
  const int percent = static_cast<int>(100 * std::min(1.0, shortage->free / shortage->wanted));
  if (percent == 0) return less + "; close what else is open on the device";
  // What grows with the square of a text's length shrinks by more than its tokens do.
  return "about " + std::to_string(percent) + " % of what was wanted at once is free: " + less +
         " of so many of its tokens";
}

void refuse_for_room(const std::string& model, std::int64_t weight_bytes,
                     std::int64_t element_bytes, const std::string& device,
                     std::int64_t free_bytes) {
  const bool half_fits = element_bytes > 2 && weight_bytes * 2 / element_bytes < free_bytes;
  throw formats::Error(std::string(protocol::error_code::out_of_memory),
                       model + " has " + megabytes(weight_bytes) + " of weights, and " + device +
                           " has " + megabytes(free_bytes) + " free",
                       "device",
                       half_fits ? "with the dtype bf16 it would fit"
                                 : "open it on the cpu, or on a device with more memory");
}

}  // namespace phasescope::worker
