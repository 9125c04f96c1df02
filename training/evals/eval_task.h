#pragma once
// Extrapolation tasks: what a task is, and the list of them: perplexity of texts, and every task of
// tasks/ that a model can be asked (eval_samples). To add one that is not drawn as samples: its
// struct of options in protocol/messages/eval.h and their line in EvalRequest, a file pair
// eval_NAME, a line in eval_task.cpp, a line in CMakeLists.txt, a test. Texts (eval_texts), window
// rules (eval_windows) and sums by text with their intervals (eval_sums) are shared.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/eval_log.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/eval.h"
#include "protocol/progress.h"
#include "protocol/request.h"

namespace phasescope::training {

struct EvalModel {
  std::string name;  // as asked for
  std::shared_ptr<const model::Model> model;
};

// One option as eval.list tells of it.
struct EvalOption {
  std::string key;
  nlohmann::json fallback;
  std::string help, choices;
  template <class V>
  void fields(V& v) {
    v("key", key), v("fallback", fallback), v("help", help), v("choices", choices);
  }
};

// Those of a task's struct of options (protocol/messages/eval.h).
template <class Options>
std::vector<EvalOption> options_of() {
  Options options;
  std::vector<EvalOption> list;
  for (const protocol::BoundField& field : protocol::detail::bound_fields(options)) {
    list.push_back({field.key, field.write(), field.about.help, field.about.choices});
  }
  return list;
}

using analysis::EvalLog;
using analysis::NoEvalLog;

struct EvalTask {
  std::string key, title, help;
  std::string source;  // where the task and its published numbers come from
  std::vector<EvalOption> options;
  // Throws formats::Error, protocol::RequestError, protocol::Cancelled.
  protocol::EvalResult (*run)(const std::vector<EvalModel>& models,
                              const protocol::EvalRequest& request, protocol::Progress& progress,
                              EvalLog& log) = nullptr;
};

const std::vector<EvalTask>& eval_tasks();
// By key or alias. Throws Error "bad_usage" naming the near ones.
const EvalTask& eval_task(const std::string& name);

}  // namespace phasescope::training
