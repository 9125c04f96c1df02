// Requests that wait for the one thread that computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "protocol/tensor.h"

namespace phasescope::worker {

struct Request {
  std::uint64_t id = 0;
  std::string method;
  nlohmann::json params;
  std::string tag;  // empty: replaces nothing
  std::vector<protocol::TensorRef> tensors;
};

class RequestQueue {
 public:
  static constexpr std::size_t longest = 4096;

  enum class Pushed { queued, replaced_older, full };
  struct PushResult {
    Pushed outcome = Pushed::queued;
    std::uint64_t replaced = 0;  // id of the older request with the same tag, dropped
  };

  // The newer request takes the place of the older one.
  PushResult push(Request request);
  // Waits for the next one; nothing once closed.
  std::optional<Request> pop();
  // Drops a waiting request; false when there is none with that id.
  bool remove(std::uint64_t id);
  // Drops all that wait.
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> requests_;
  bool closed_ = false;
};

}  // namespace phasescope::worker
