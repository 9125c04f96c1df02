#include "worker/model_cache.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "formats/error.h"
#include "formats/gathered_errors.h"
#include "formats/system_memory.h"
#include "model/checkpoints/model_files.h"
#include "model/checkpoints/tensor_io.h"
#include "model/devices.h"
#include "protocol/error_info.h"
#include "worker/devices.h"
#include "worker/pass_cache.h"
#include "worker/room.h"

namespace phasescope::worker {

namespace {

using nlohmann::json;

// Where it is not known how much memory is free.
constexpr std::int64_t kLeastLimit = std::int64_t{1} << 30;
// From this size on, weights stay in their file where they can. Smaller ones cost little as copies,
// which no change of the file reaches.
constexpr std::uint64_t kMappedFrom = std::uint64_t{256} << 20;
// Readings take next to nothing, but each slider makes many.
constexpr std::size_t kMostReadings = 128;

std::pair<std::string, std::string> assignment_of(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw formats::bad_usage("'" + text + "' sets nothing", "set", "write it as key=value");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string times_of(const std::filesystem::path& path) {
  std::string state;
  for (const char* part :
       {"", "config.json", "model.safetensors", "checkpoints", "adapter_config.json",
        "adapter_model.safetensors", "adapter_model.bin"}) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(part[0] ? path / part : path, error);
    state += error ? "-;" : std::to_string(time.time_since_epoch().count()) + ";";
  }
  return state;
}

// Changes when one of the files that say which weights these are changes: an adapter's, and those
// of its base model.
std::string files_state(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path / "adapter_config.json", error)) return times_of(path);
  return times_of(path) + times_of(model::find_model_files(path.string()).weights);
}

}  // namespace

protocol::ModelReading reading_of(const std::string& model, const protocol::Assignments& set) {
  if (model.empty()) {
    throw formats::bad_usage("no model is named", "model",
                             "give a bundled model's name, a folder or a file");
  }
  protocol::ModelReading reading = protocol::model_reading(model);
  formats::GatheredErrors errors;
  for (const std::string& text : set.list) {
    errors.run([&] { reading.settings.push_back(assignment_of(text)); });
  }
  errors.throw_if_any("settings");
  return reading;
}

std::string asked_name(const std::string& model, const protocol::Assignments& set) {
  return set.list.empty() ? model : protocol::name_of(reading_of(model, set));
}

std::string ModelCache::dtype_of(const std::string& path, const std::string& asked,
                                 const at::Device& device) {
  if (asked.empty()) return "f32";
  const auto named = [&] {
    return model::name_of_dtype(model::dtype_to_compute_in(asked, device, path));
  };
  if (asked != "auto" || device.is_cpu()) return named();
  auto& [state, dtype] = own_dtypes_[path];
  const std::string now = files_state(path);
  if (dtype.empty() || state != now) dtype = named(), state = now;
  return dtype;
}

ModelPointer ModelCache::find(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  if (found->state != files_state(found->model->report.path)) {
    pass_cache().forget(found->model.get());
    entries_.erase(found);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().model;
}

void ModelCache::keep(const std::string& key, const ModelPointer& model, std::int64_t bytes) {
  entries_.push_front({key, files_state(model->report.path), model, bytes});
  const at::Device device = model->decoder.device();
  const std::int64_t limit = limit_of(device);
  std::int64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.model->decoder.device() == device) sum += entry.bytes;
  }
  for (auto entry = std::prev(entries_.end()); entry != entries_.begin();) {
    const auto oldest = entry--;
    const bool here = oldest->model->decoder.device() == device;
    if (!(here && sum > limit) && entries_.size() <= kMostReadings) continue;
    if (here) sum -= oldest->bytes;
    pass_cache().forget(oldest->model.get());
    entries_.erase(oldest);
  }
}

void ModelCache::drop(const std::function<bool(const Entry&)>& leaves) {
  std::erase_if(entries_, [&leaves](const Entry& entry) {
    const bool goes = leaves(entry);
    if (goes) pass_cache().forget(entry.model.get());
    return goes;
  });
}

void ModelCache::keep_newest() {
  if (entries_.empty()) return;
  const std::string path = entries_.front().model->report.path;
  const at::Device device = entries_.front().model->decoder.device();
  drop([&](const Entry& entry) {
    return entry.model->report.path != path || entry.model->decoder.device() != device;
  });
}

std::int64_t ModelCache::limit_of(const at::Device& device) {
  if (limit_bytes_ > 0) return limit_bytes_;
  const auto [found, is_new] = limits_.emplace(device.str(), 0);
  if (is_new) found->second = std::max(available_bytes(device) / 3, kLeastLimit);
  return found->second;
}

ModelPointer ModelCache::moved(const ModelPointer& model, const at::Device& device) {
  try {
    return model::on_device(model, device);
  } catch (const c10::OutOfMemoryError&) {
    // Outside: tensors that have moved already are gone then.
  }
  drop([&](const Entry& entry) { return entry.model->decoder.device() == device; });
  empty_device_cache();
  try {
    return model::on_device(model, device);
  } catch (const c10::OutOfMemoryError&) {
  }
  empty_device_cache();
  refuse_for_room(model->report.name, model->report.weight_bytes,
                  static_cast<std::int64_t>(at::elementSize(model->decoder.dtype())), device.str(),
                  available_bytes(device));
}

ModelPointer ModelCache::opened(const std::string& path, model::OpenModelOptions options) {
  options.memory = {.mapped_from = kMappedFrom, .free_bytes = formats::available_bytes()};
  try {
    return model::open_model(path, options);
  } catch (const formats::Error& error) {
    if (error.code() != protocol::error_code::out_of_memory || entries_.empty()) throw;
  }
  clear();
  options.memory.free_bytes = formats::available_bytes();
  return model::open_model(path, options);
}

std::shared_ptr<const model::Model> ModelCache::open(const std::string& name,
                                                     const protocol::Opening& opening,
                                                     protocol::Progress& progress) {
  const protocol::ModelReading reading = reading_of(name, opening.set);
  const at::Device device =
      model::device_named(opening.device.empty() ? settings_.device : opening.device);
  model::OpenModelOptions options;
  const std::string dtype = dtype_of(reading.model, opening.dtype, device);
  options.dtype = model::dtype_of_name(dtype);
  options.cancelled = [&progress] { return progress.cancelled(); };
  options.progress = [&progress, &reading](const model::LoadProgress& load) {
    progress.progress(load.fraction(), "opening " + reading.model + ", " + load.words());
  };
  const std::string key = json({reading.model, dtype, device.str()}).dump();
  ModelPointer model = find(key);
  if (!model) {
    model = moved(opened(reading.model, options), device);
    const std::int64_t mapped = device.is_cpu() ? model->report.mapped_bytes : 0;
    keep(key, model, model->report.weight_bytes - mapped);
  }
  if (reading.settings.empty()) return model;

  const std::string asked = asked_name(name, opening.set);
  const std::string changed_key = json({asked, dtype, device.str(), reading.settings}).dump();
  if (ModelPointer known = find(changed_key)) return known;
  model = model::with_overrides(model, reading.settings, asked);
  keep(changed_key, model, 0);
  return model;
}

}  // namespace phasescope::worker
