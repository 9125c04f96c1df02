#include "app/window/view_context.h"

#include <chrono>

#include "app/window/session_requests.h"

namespace phasescope::app {

void WindowState::run_aside(std::function<std::string()> work) {
  tasks.push_back(std::async(std::launch::async, std::move(work)));
}

void WindowState::collect() {
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

bool ViewContext::models_known() const {
  bool known = true;
  for (const std::string& model : session().models) {
    auto& info = requests.of(model).info;
    requests.ask(info, info_params(session(), model));
    known = known && (info.answer() || !info.waiting());
  }
  return known;
}

bool ViewContext::reads_text(const std::string& model) const {
  const auto* info = requests.of(model).info.answer();
  return !session().text.untouched() || !info || !info->result.tokenizer.empty();
}

Session ViewContext::session_for(const std::string& model) const {
  Session asked = session();
  if (!reads_text(model)) asked.text.words = {};
  return asked;
}

}  // namespace phasescope::app
