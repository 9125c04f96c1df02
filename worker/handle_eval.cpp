#include "worker/handle_eval.h"

#include "formats/error.h"
#include "protocol/json_form.h"
#include "training/evals/eval_task.h"
#include "worker/model_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;
using protocol::Reply;

Reply eval_list(const json&, RequestContext&) {
  json tasks = json::array();
  for (const training::EvalTask& task : training::eval_tasks()) {
    tasks.push_back({{"key", task.key},
                     {"title", task.title},
                     {"help", task.help},
                     {"source", task.source},
                     {"options", protocol::to_json_form(task.options)}});
  }
  return {{{"tasks", std::move(tasks)}}, {}};
}

Reply eval(const json& params, RequestContext& context) {
  const training::EvalTask& task = training::eval_task(params.value("task", ""));
  std::vector<training::EvalModel> models;
  std::vector<std::shared_ptr<const model::Model>> opened;
  for (const std::string& name : model_names(params)) {
    context.progress(-1, "opening " + name);
    context.throw_if_cancelled();
    const json own = params_for(params, name);
    opened.push_back(context.models().open(own, context));
    // As asked for, with the settings that all of them got.
    models.push_back(
        {params.contains("set") ? protocol::name_of(reading_of(own)) : name, opened.back()});
  }
  protocol::EvalResult result = task.run(models, params, context);
  for (std::size_t m = 0; m < models.size() && m < result.provenance.size(); ++m) {
    protocol::Provenance& entry = result.provenance[m];
    const protocol::Provenance whole =
        provenance_of("eval", params, context, {opened[m]}, nullptr, entry.kernel);
    entry.command = whole.command;
    entry.version = whole.version;
    entry.device = whole.device;
    entry.dtype = whole.dtype;
  }
  return {protocol::to_json_form(result), {}};
}

}  // namespace

std::vector<Handler> eval_handlers() {
  return {{"eval.list", "extrapolation tasks and their options", eval_list},
          {"eval", "a task against length, for one model or several", eval}};
}

}  // namespace phasescope::worker
