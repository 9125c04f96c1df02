#pragma once
// Extrapolation tasks: what a task is, and the list of them. To add one: a file pair eval_NAME, a
// line in eval_task.cpp, a line in CMakeLists.txt, a test.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoints/open_model.h"
#include "protocol/messages/eval.h"
#include "protocol/progress.h"

namespace phasescope::training {

struct EvalModel {
  std::string name;  // as asked for
  std::shared_ptr<const model::Model> model;
};

struct EvalOption {
  std::string key;
  nlohmann::json fallback;
  std::string help;
  template <class V>
  void fields(V& v) {
    v("key", key), v("fallback", fallback), v("help", help);
  }
};

struct EvalTask {
  std::string key, title, help;
  std::string source;  // where the task and its published numbers come from
  std::vector<EvalOption> options;
  // `params` holds the options by name; those that are absent take their default. Throws
  // formats::Error, protocol::Cancelled.
  protocol::EvalResult (*run)(const std::vector<EvalModel>& models, const nlohmann::json& params,
                              protocol::Progress& progress) = nullptr;
};

const std::vector<EvalTask>& eval_tasks();
// Throws Error "bad_usage" naming the near ones.
const EvalTask& eval_task(const std::string& key);

}  // namespace phasescope::training
