// The models that requests name, opened once and kept while they are used.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "model/open_model.h"
#include "worker/handlers.h"

namespace phasescope::worker {

class ModelCache {
 public:
  // At most `most_models` are kept; the ones used longest ago go first.
  explicit ModelCache(WorkerSettings settings, std::size_t most_models = 6)
      : settings_(std::move(settings)), most_models_(most_models) {}

  // The model of {"model", "dtype"? ("f32"), "set"? (["a.b=c"] or {"a.b": c}), "device"?}. Opened
  // again when its files have changed since (a job's newest checkpoint). Throws Error "bad_usage"
  // for parameters that are none, "device_unavailable", and what model::open_model throws.
  std::shared_ptr<const model::Model> open(const nlohmann::json& params);
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;    // what was asked for
    std::string state;  // of its files when it was opened
    std::shared_ptr<const model::Model> model;
  };

  WorkerSettings settings_;
  std::size_t most_models_;
  std::list<Entry> entries_;  // newest first
};

}  // namespace phasescope::worker
