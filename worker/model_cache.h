// The models that requests name, opened once and kept while they are used.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "model/checkpoints/open_model.h"
#include "protocol/messages/common.h"
#include "protocol/model_reading.h"
#include "protocol/progress.h"
#include "worker/handlers.h"

namespace phasescope::worker {

// The model and the settings of a request: those of its name first, then those of its "set". Throws
// Error "bad_usage" where no model is named or a setting sets nothing.
protocol::ModelReading reading_of(const std::string& model, const protocol::Assignments& set);
// The name that a request's results give its model: as it was asked for, with the settings of a
// "set" written into it.
std::string asked_name(const std::string& model, const protocol::Assignments& set);

class ModelCache {
 public:
  // At most `most_models` are kept; the ones used longest ago go first.
  explicit ModelCache(WorkerSettings settings, std::size_t most_models = 6)
      : settings_(std::move(settings)), most_models_(most_models) {}

  // A name may carry settings of its own, "rope (yarn x2)" (protocol/model_reading.h); readings of
  // one file share its weights. Without a dtype it is f32. Opened again when its files have changed
  // since (a job's newest checkpoint). `progress` hears of the reading and may cancel it. Throws
  // Error "bad_usage" for parameters that are none, "device_unavailable", and what
  // model::open_model throws. Its report is named as
  // asked_name() says.
  std::shared_ptr<const model::Model> open(const std::string& name,
                                           const protocol::Opening& opening,
                                           protocol::Progress& progress);
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  using ModelPointer = std::shared_ptr<const model::Model>;

  ModelPointer find(const std::string& key);
  void keep(const std::string& key, const ModelPointer& model);

  struct Entry {
    std::string key;    // what was asked for
    std::string state;  // of its files when it was opened
    ModelPointer model;
  };

  WorkerSettings settings_;
  std::size_t most_models_;
  std::list<Entry> entries_;  // newest first
};

}  // namespace phasescope::worker
