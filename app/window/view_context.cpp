#include "app/window/view_context.h"

#include <algorithm>
#include <chrono>

namespace phasescope::app {

void WindowState::say(std::string text, bool error) {
  const bool stands = error && std::ranges::any_of(notices, [&](const Notice& notice) {
                        return notice.error && notice.text == text;
                      });
  if (!stands) notices.push_back({std::move(text), error, 0});
}

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

const protocol::LoadReport* ViewContext::info(const std::string& model) const {
  const auto* answer = requests.of(kInfo, model).answer();
  return answer ? &answer->result : nullptr;
}

bool ViewContext::models_known() const {
  bool known = true;
  for (const std::string& model : session().models) {
    auto& question = requests.of(kInfo, model);
    protocol::InfoRequest request{.model = model};
    request.length = session().text.length;
    requests.ask(question, request);
    known = known && (question.answer() || !question.waiting());
  }
  return known;
}

TextInput ViewContext::text_for(const std::string& model) const {
  TextInput text = session().text;
  const auto* report = info(model);
  if (text.untouched() && report && report->tokenizer.empty()) text.words = {};
  return text;
}

}  // namespace phasescope::app
