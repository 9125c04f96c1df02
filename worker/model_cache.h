// The models that requests name, opened once and kept while they are used.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "model/checkpoints/open_model.h"
#include "protocol/messages/common.h"
#include "protocol/model_reading.h"
#include "protocol/progress.h"
#include "worker/handlers.h"

namespace phasescope::worker {

using ModelPointer = std::shared_ptr<const model::Model>;

// The model and the settings of a request: those of its name first, then those of its "set". Throws
// Error "bad_usage" where no model is named or a setting sets nothing.
protocol::ModelReading reading_of(const std::string& model, const protocol::Assignments& set);
// The name that a request's results give its model: as it was asked for, with the settings of a
// "set" written into it.
std::string asked_name(const std::string& model, const protocol::Assignments& set);

class ModelCache {
 public:
  // Kept are as many as take no more than `limit_bytes` of weights together on each device, the one
  // used last always; those used longest ago go first. Without a limit it is a third of what is
  // free there when the first one is opened.
  explicit ModelCache(WorkerSettings settings, std::int64_t limit_bytes = 0)
      : settings_(std::move(settings)), limit_bytes_(limit_bytes) {}

  // A name may carry settings of its own, "rope (yarn x2)" (protocol/model_reading.h); readings of
  // one file share its weights. Without a dtype it is f32, and "auto" is by the device
  // (model::dtype_to_compute_in). Opened again when its files have changed
  // since (a job's newest checkpoint). `progress` hears of the reading and may cancel it. Throws
  // Error "bad_usage" for parameters that are none, "device_unavailable", and what
  // model::open_model throws. Its report is named as asked_name() says.
  std::shared_ptr<const model::Model> open(const std::string& name,
                                           const protocol::Opening& opening,
                                           protocol::Progress& progress);
  void clear() {
    drop([](const Entry&) { return true; });
  }
  // All but the one used last, and the readings of its file, leave.
  void keep_newest();
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;    // what was asked for
    std::string state;  // of its files when it was opened
    ModelPointer model;
    std::int64_t bytes = 0;
  };

  ModelPointer find(const std::string& key);
  // The name of what it is computed in there.
  std::string dtype_of(const std::string& path, const std::string& asked, const at::Device& device);
  // Entries leave, and with them the passes that read them.
  void drop(const std::function<bool(const Entry&)>& leaves);
  // Where its weights do not fit beside the models that are kept, without those.
  ModelPointer opened(const std::string& path, model::OpenModelOptions options);
  // `bytes` of weights that no other entry has.
  void keep(const std::string& key, const ModelPointer& model, std::int64_t bytes);
  std::int64_t limit_of(const at::Device& device);
  // The model there; where it has no room, once more when all others have left the device.
  ModelPointer moved(const ModelPointer& model, const at::Device& device);

  WorkerSettings settings_;
  std::int64_t limit_bytes_;                    // given; 0: by device
  std::map<std::string, std::int64_t> limits_;  // by device
  std::list<Entry> entries_;                    // newest first
  // What "auto" was on a device, by model, with the state of its files.
  std::map<std::string, std::pair<std::string, std::string>> own_dtypes_;
};

}  // namespace phasescope::worker
