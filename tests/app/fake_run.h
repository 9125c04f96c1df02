#pragma once
// A Run whose worker is a table of canned replies.
#include <map>
#include <string>
#include <vector>

#include "app/verbs/verb.h"
#include "protocol/error_info.h"

namespace phasescope::app {

class FakeRun : public Run {
 public:
  struct Request {
    std::string method;
    nlohmann::json params;
  };

  const CommonOptions& common() const override { return common_; }
  protocol::Reply call(const std::string& method, nlohmann::json params) override {
    requests.push_back({method, std::move(params)});
    const auto found = replies.find(method);
    if (found == replies.end()) {
      throw protocol::RequestError({"bad_input", "no reply for " + method, "", ""});
    }
    return found->second;
  }
  using Run::call;
  void tell_fallback(const protocol::Provenance&) override {}
  void say(const std::string& line) override { said.push_back(line); }
  void show_progress(double, const std::string&) override {}
  bool interrupted() const override { return false; }
  const std::string& command() const override { return command_; }

  CommonOptions& options() { return common_; }

  std::map<std::string, protocol::Reply> replies;
  std::vector<Request> requests;
  std::vector<std::string> said;

 private:
  CommonOptions common_;
  std::string command_ = "phasescope test";
};

}  // namespace phasescope::app
