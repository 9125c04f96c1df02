#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/window/worker_link.h"
#include "protocol/messages/ran.h"

namespace phasescope::app {

// Shape of the made-up model.
struct MadeUpShape {
  int layers = 4, heads = 4;
  int tokens = 256;
  int thumbnail = 32;  // cells of a thumbnail's edge
  int map = 0;         // cells of a map's edge; 0: as the request asks
  bool losses = true;  // false: as of a model without a head, which sees both ways
  bool tokenizer = true;
  std::string shallow = {};  // the name of a model of one layer among the others
  protocol::Ran ran{.implementation = "made up"};  // attention; nothing where it has no name
  std::string other_tokens = {};  // the name of a model that reads the text as other tokens
  int curves = 1;                 // of each check, on axes of their own
  bool sink = false;              // heads have a learned sink
  bool stacks = false;            // an encoder stands before the decoder
  std::string one_stack = {};     // the name of a model without that encoder among the others
  bool flat_thumbnails = false;   // a tensor of another shape than it should have
  std::string jobs = "running";   // their state
  bool read_later = false;        // large answers are read beside the window, as a worker's are
};

// A link without a worker: it answers every request by itself with smooth made-up values that
// depend only on the request. For tests of the window.
class MadeUpWorker : public WorkerLink {
 public:
  enum class Manner { answer, hold, fail, unfit };  // unfit: not of this model

  explicit MadeUpWorker(MadeUpShape shape = {}) : shape_(shape) {}

  // How requests of a method end; "" sets it for all methods without a manner of their own.
  void set_manner(const std::string& method, Manner manner) { manners_[method] = manner; }
  // The same for the requests about one model, before what is set for their methods.
  void set_manner_of_model(const std::string& model, Manner manner) { of_models_[model] = manner; }
  // Of the newest request of a method.
  const nlohmann::json& last_params(const std::string& method) const { return params_.at(method); }
  // Every request that is held ends with "worker_died", and so does every later one until
  // restart().
  void die(const std::string& how);
  // Every job has ended.
  void end_jobs() { shape_.jobs = "done"; }
  // Workers that are started from now on never say that they are ready.
  void begin_slowly() { slow_ = true; }
  int starts() const { return starts_; }
  // Requests that came, by method.
  const std::map<std::string, int>& counts() const { return counts_; }

  void start() override;
  void restart() override { start(); }
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override;
  void cancel(protocol::RequestId id) override;
  std::size_t drain() override;
  protocol::WorkerState state() const override { return state_; }
  std::optional<protocol::DeathNotice> death() const override { return death_; }
  std::string description() const override { return "made-up values"; }
  bool reads_at_once() const override { return !shape_.read_later; }
  void set_wake(std::function<void()>) override {}

 private:
  struct Request {
    protocol::RequestId id = 0;
    std::string method, tag;
    nlohmann::json params;
    protocol::Callbacks callbacks;
    bool cancelled = false;
  };
  Manner manner_of(const Request& request) const;
  void finish(const Request& request);

  MadeUpShape shape_;
  std::map<std::string, Manner> manners_;
  std::map<std::string, Manner> of_models_;
  std::map<std::string, int> counts_;
  std::map<std::string, nlohmann::json> params_;
  std::vector<Request> requests_;
  protocol::RequestId last_id_ = 0;
  protocol::WorkerState state_ = protocol::WorkerState::not_started;
  std::optional<protocol::DeathNotice> death_;
  int starts_ = 0;
  bool slow_ = false;
};

// The model that a request is about, the first of several; "sample" where it names none.
std::string model_of(const nlohmann::json& params);
// The made-up answer to one request. Throws std::out_of_range for an unknown method.
protocol::Reply made_up_reply(const std::string& method, const nlohmann::json& params,
                              const MadeUpShape& shape);

}  // namespace phasescope::app
