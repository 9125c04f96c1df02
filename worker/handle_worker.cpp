#include "worker/handle_worker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <thread>

#include "formats/folder_listing.h"
#include "protocol/messages/worker.h"
#include "worker/failure.h"

namespace phasescope::worker {

namespace {

using nlohmann::json;
using protocol::Reply;
using std::chrono::milliseconds;

Reply worker_info(const protocol::WorkerInfoRequest&, RequestContext& context) {
  json facts = context.facts();
  facts["device"] = context.settings().device;
  facts["process_id"] = ::getpid();
  return {std::move(facts), {}};
}

Reply worker_folder(const protocol::FolderRequest& request, RequestContext&) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::absolute(request.path.empty() ? fs::current_path() : fs::path(request.path))
          .lexically_normal();
  protocol::FolderResult result{.path = folder.string(), .above = folder.parent_path().string()};
  for (formats::ListedEntry& entry : formats::listed_entries(folder)) {
    result.entries.push_back({std::move(entry.name), entry.folder});
  }
  return reply_of(result);
}

Reply worker_sleep(const protocol::SleepRequest& request, RequestContext& context) {
  constexpr milliseconds step{10};
  const milliseconds total(static_cast<int>(request.seconds * 1000));
  for (milliseconds slept{0}; slept < total; slept += step) {
    context.throw_if_cancelled();
    context.progress(static_cast<double>(slept / step) / static_cast<double>(total / step),
                     "sleeping");
    std::this_thread::sleep_for(std::min(step, total - slept));
  }
  return {{{"slept", static_cast<double>(total.count()) / 1000}}, {}};
}

Reply worker_crash(const json& params, RequestContext&) {
  const auto how = params.at("how").get<std::string>();
  if (how == "abort") std::abort();
  if (how == "segv") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn it into a status
    std::raise(SIGSEGV);
  }
  if (how == "exit") ::_exit(params.value("status", 1));
  if (how == "kill") std::raise(SIGKILL);
  if (how == "fatal") throw FatalError("the device reported an illegal memory access");
  throw std::invalid_argument("no such crash: " + how);
}

Reply worker_misbehave(const json& params, RequestContext&) {
  const auto how = params.at("how").get<std::string>();
  if (how == "print") {
    std::puts("a library says hello");
    std::fflush(stdout);
  } else if (how == "stuck") {
    std::this_thread::sleep_for(std::chrono::duration<double>(params.value("seconds", 1.0)));
  } else if (how == "memory") {
    throw std::bad_alloc();
  } else if (how == "throw") {
    throw std::runtime_error("thrown on request");
  }
  return {json::object(), {}};
}

Reply worker_echo(const json& params, RequestContext& context) {
  const auto tensors = context.tensors();
  return {params, {tensors.begin(), tensors.end()}};
}

}  // namespace

std::vector<Handler> worker_handlers() {
  return {method("versions, devices and threads of the worker", worker_info),
          method("what is in a folder of the worker's machine", worker_folder),
          method("does nothing for some seconds", worker_sleep)};
}

std::vector<Handler> test_handlers() {
  return {{"worker.crash", "ends the process", worker_crash},
          {"worker.misbehave", "does what no handler should", worker_misbehave},
          {"worker.echo", "what came with the request", worker_echo}};
}

}  // namespace phasescope::worker
