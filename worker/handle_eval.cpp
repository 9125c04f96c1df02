#include "worker/handle_eval.h"

#include "formats/error.h"
#include "protocol/messages/eval.h"
#include "training/evals/eval_task.h"
#include "worker/model_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using protocol::Reply;

Reply eval_list(const protocol::EvalListRequest&, RequestContext&) {
  protocol::EvalTasks list;
  for (const training::EvalTask& task : training::eval_tasks()) list.tasks.push_back(task);
  return {protocol::to_json_form(list), {}};
}

Reply eval(const protocol::EvalRequest& request, RequestContext& context) {
  const training::EvalTask& task = training::eval_task(request.task);
  require_models(request.models);
  std::vector<training::EvalModel> models;
  std::vector<std::shared_ptr<const model::Model>> opened;
  for (const std::string& name : request.models) {
    context.progress(-1, "opening " + name);
    context.throw_if_cancelled();
    opened.push_back(context.models().open(name, request.running, context));
    models.push_back({opened.back()->report.name, opened.back()});
  }
  training::NoEvalLog nothing_kept;
  protocol::EvalResult result = task.run(models, request, context, nothing_kept);
  for (std::size_t m = 0; m < models.size() && m < result.provenance.size(); ++m) {
    protocol::Provenance& entry = result.provenance[m];
    const protocol::Provenance whole =
        provenance_of(asked(request), context, {opened[m]}, nullptr, entry.ran);
    entry.command = whole.command;
    entry.version = whole.version;
    entry.device = whole.device;
    entry.dtype = whole.dtype;
  }
  return {protocol::to_json_form(result), {}};
}

}  // namespace

std::vector<Handler> eval_handlers() {
  return {method("extrapolation tasks and their options", eval_list),
          method("a task against length, for one model or several", eval)};
}

}  // namespace phasescope::worker
