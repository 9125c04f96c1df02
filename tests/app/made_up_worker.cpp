#include "tests/app/made_up_worker.h"

#include <algorithm>
#include <cmath>

namespace phasescope::app {

MadeUpWorker::Manner MadeUpWorker::manner_of(const Request& request) const {
  const auto of_model = of_models_.find(model_of(request.params));
  // What a model is has to be known before anything is asked of it.
  if (of_model != of_models_.end() && request.method != "model.info") return of_model->second;
  const auto found = manners_.find(request.method);
  if (found != manners_.end()) return found->second;
  const auto all = manners_.find("");
  return all != manners_.end() ? all->second : Manner::answer;
}

void MadeUpWorker::start() {
  state_ = slow_ ? protocol::WorkerState::starting : protocol::WorkerState::ready;
  death_.reset();
  ++starts_;
}

void MadeUpWorker::die(const std::string& how) {
  protocol::DeathNotice notice;
  notice.how = how;
  notice.error = {std::string(protocol::error_code::worker_died), "The worker was " + how + ".", "",
                  ""};
  death_ = notice;
  state_ = protocol::WorkerState::dead;
}

protocol::RequestId MadeUpWorker::submit(const std::string& method, nlohmann::json params,
                                         protocol::Callbacks callbacks, const std::string& tag) {
  ++counts_[method];
  params_[method] = params;
  requests_.push_back({++last_id_, method, tag, std::move(params), std::move(callbacks), false});
  return last_id_;
}

void MadeUpWorker::cancel(protocol::RequestId id) {
  for (Request& request : requests_) {
    if (request.id == id) request.cancelled = true;
  }
}

void MadeUpWorker::finish(const Request& request) {
  // As a worker does.
  if (request.params.contains("input") && !request.params["input"].contains("text")) {
    request.callbacks.on_error({"bad_input", "the input has no text", "input", ""});
    return;
  }
  if (request.params.contains("input") && !shape_.tokenizer) {
    request.callbacks.on_error({"bad_input", "the model has no tokenizer, so it cannot read text",
                                "", "give ids instead"});
    return;
  }
  try {
    request.callbacks.on_result(made_up_reply(request.method, request.params, shape_));
  } catch (const std::out_of_range&) {
    request.callbacks.on_error({"bad_usage", "no method is called " + request.method, "", ""});
  }
}

std::size_t MadeUpWorker::drain() {
  std::vector<Request> held, now;
  for (Request& request : requests_) {
    const bool hold = !death_ && !request.cancelled && manner_of(request) == Manner::hold;
    (hold ? held : now).push_back(std::move(request));
  }
  requests_ = std::move(held);
  for (const Request& request : requests_) {
    if (request.callbacks.on_progress) request.callbacks.on_progress(0.4, "reading texts");
  }
  for (const Request& request : now) {
    if (death_) {
      request.callbacks.on_error(death_->error);
    } else if (request.cancelled) {
      request.callbacks.on_error({"cancelled", "cancelled", "", ""});
    } else if (manner_of(request) == Manner::fail) {
      request.callbacks.on_error({"bad_input", "The file is not a model", "config.json",
                                  "choose a folder with a config.json"});
    } else if (manner_of(request) == Manner::unfit) {
      request.callbacks.on_error({"not_applicable", "It has no such thing", "", ""});
    } else {
      finish(request);
    }
  }
  return now.size();
}

}  // namespace phasescope::app
