#include "app/window/desk.h"

#include <chrono>

namespace phasescope::app {

void Shell::run_aside(std::function<std::string()> work) {
  tasks.push_back(std::async(std::launch::async, std::move(work)));
}

void Shell::collect() {
  for (auto it = tasks.begin(); it != tasks.end();) {
    if (it->wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      ++it;
      continue;
    }
    try {
      say(it->get());
    } catch (const std::exception& error) {
      say(error.what(), true);
    }
    it = tasks.erase(it);
  }
}

}  // namespace phasescope::app
