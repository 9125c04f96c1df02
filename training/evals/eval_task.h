#pragma once
// Extrapolation tasks: what a task is, and the list of them: perplexity of texts, and every task of
// tasks/ that a model can be asked (eval_samples). To add one that is not drawn as samples: its
// struct of options in protocol/messages/eval.h and their line in EvalRequest, a file pair
// eval_NAME, a line in eval_task.cpp, a line in CMakeLists.txt, a test. Texts (eval_texts), window
// rules (eval_windows) and sums by text with their intervals (eval_sums) are shared.
#include <memory>
#include <string>
#include <vector>

#include "analysis/eval_log.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/eval_tasks.h"
#include "protocol/progress.h"

namespace phasescope::training {

struct EvalModel {
  std::string name;  // as asked for
  std::shared_ptr<const model::Model> model;
};

// A model whose weights are not read yet.
struct AskedModel {
  std::string name;
  model::ModelConfig config;
  std::string path;  // of its files, or its bundled name; empty of one that is yet to be trained
};

using analysis::EvalLog;
using analysis::NoEvalLog;

// What eval.list tells of a task, and what runs it.
struct EvalTask : protocol::EvalTaskInfo {
  // Throws formats::Error, protocol::RequestError, protocol::Cancelled.
  protocol::EvalResult (*run)(const std::vector<EvalModel>& models,
                              const protocol::EvalRequest& request, protocol::Progress& progress,
                              EvalLog& log) = nullptr;
  // Throws what run() would of the request alone, of whichever models.
  void (*check)(const protocol::EvalRequest& request) = nullptr;
  // Throws what run() would of the models' configurations, and of the texts that they are to read,
  // before weights are read.
  void (*check_models)(const protocol::EvalRequest& request,
                       const std::vector<AskedModel>& models) = nullptr;
};

const std::vector<EvalTask>& eval_tasks();
// By key or alias. Throws Error "bad_usage" naming the near ones.
const EvalTask& eval_task(const std::string& name);

}  // namespace phasescope::training
