// Request methods: what a handler is, what it is given, and the list of them all.
//
// To add a group of methods: a pair worker/handle_GROUP.{h,cpp} with `std::vector<Handler>
// GROUP_handlers();`, a line in handlers.cpp, a line in worker/CMakeLists.txt, a test. A method is
//
//   protocol::Reply model_info(const protocol::InfoRequest& request, RequestContext& context) {
//     auto model = context.models().open(request.model, request.opening, context);
//     context.progress(0.5, "reading tensors");
//     context.throw_if_cancelled();                      // at every step that may take long
//     return reply_of(result, {std::move(tensor)});
//   }
//
// with its request in protocol/messages/ and its registry line
// method("load report of a model", model_info). handle_worker.cpp is the example. Handlers run one
// after another in one thread, so they need no locks of their own. Errors are thrown:
// formats::Error, protocol::RequestError, protocol::Cancelled, std::bad_alloc and torch's out of
// memory have codes of their own, all else is "internal".
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/progress.h"
#include "protocol/reply.h"
#include "protocol/request.h"
#include "protocol/tensor.h"

namespace phasescope::worker {

class ModelCache;

// What the worker was started with.
struct WorkerSettings {
  std::string device = "cpu";  // default of requests without `device`
  int threads = 0;             // 0: as many as there are cores
};

// What a handler sees of the request and of the worker. `protocol::Progress` is what analysis and
// training take, so a context can be passed on to them.
class RequestContext : public protocol::Progress {
 public:
  // Tensors sent with the request.
  virtual std::span<const protocol::TensorRef> tensors() const = 0;
  virtual const WorkerSettings& settings() const = 0;
  // Models opened so far. Throws RequestError("internal") in a worker without models.
  virtual ModelCache& models() const = 0;
  // What worker.info reports: versions, devices, threads.
  virtual const nlohmann::json& facts() const = 0;
};

using HandlerFunction =
    std::function<protocol::Reply(const nlohmann::json& params, RequestContext& context)>;

struct Handler {
  std::string name;
  std::string help;
  HandlerFunction run;
  std::vector<protocol::FieldInfo> fields = {};  // of its request, for the page of methods
};

// The handler of a request that is a struct: what its fields do not take is refused before it runs.
template <class R>
Handler method(std::string help, protocol::Reply (*run)(const R&, RequestContext&)) {
  return {R::method, std::move(help),
          [run](const nlohmann::json& params, RequestContext& context) {
            return run(protocol::request_of<R>(params), context);
          },
          protocol::fields_of<R>()};
}

template <class T>
protocol::Reply reply_of(const T& result, std::vector<protocol::TensorRef> tensors = {}) {
  return {protocol::to_json_form(result), std::move(tensors)};
}

// Every method of phasescope-worker.
std::vector<Handler> all_handlers();

}  // namespace phasescope::worker
