#pragma once
// What a command runs with: the common options, and the worker that answers its requests.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/messages/provenance.h"
#include "protocol/reply.h"
#include "protocol/request.h"

namespace phasescope::app {

// What verbs have in common beside their requests (cli.md, "Common").
struct CommonOptions {
  std::string out, remote;
  bool json = false, quiet = false;
};

// The answer to a request: as a struct, as the JSON that came, and the tensors beside it.
template <class Result>
struct Answered {
  Result result;
  nlohmann::json json;
  std::vector<protocol::TensorRef> tensors;
};

// What a verb runs with: the worker, and what was asked for on the command line.
class Run {
 public:
  virtual ~Run() = default;
  virtual const CommonOptions& common() const = 0;
  // Sends a request, shows its progress, cancels it on Ctrl-C. Throws protocol::RequestError.
  virtual protocol::Reply call(const std::string& method, nlohmann::json params) = 0;
  template <class Request>
  protocol::Reply call(const Request& request) {
    return call(Request::method, protocol::params_of(request));
  }
  // Calls, and reads the result; a line is said where attention ran plain for want of a form.
  template <class Result, class Request>
  Answered<Result> ask(const Request& request) {
    protocol::Reply reply = call(request);
    Answered<Result> out{protocol::from_json_form<Result>(reply.result), std::move(reply.result),
                         std::move(reply.tensors)};
    for (const protocol::Provenance& one : protocol::provenances(out.result)) tell_fallback(one);
    return out;
  }
  virtual void tell_fallback(const protocol::Provenance& provenance) = 0;
  // A line on standard error, unless --quiet.
  virtual void say(const std::string& line) = 0;
  // A bar on standard error where that is a terminal, a line every few seconds elsewhere; an empty
  // text clears the bar. A fraction below 0 is not known.
  virtual void show_progress(double fraction, const std::string& text) = 0;
  virtual bool interrupted() const = 0;
  // The command line as it was given, quoted for a shell.
  virtual const std::string& command() const = 0;
  // The sidecar of exported files: the command, and what makes their results repeatable.
  nlohmann::json sidecar(const nlohmann::json& provenance) const;
};

}  // namespace phasescope::app
