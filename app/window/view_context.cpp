#include "app/window/view_context.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace phasescope::app {
namespace {

constexpr auto kSameWords = std::chrono::minutes(1);
// Bytes of a notice; a command with a typed text in it would cover the window.
constexpr std::size_t kMostShown = 300;

}  // namespace

std::string shortened(const std::string& text, const std::string& rest) {
  if (text.size() <= kMostShown) return text;
  std::size_t end = kMostShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + " ... (" + rest + ")";
}

void WindowState::say(std::string text, bool error) {
  const auto now = Clock::now();
  const auto before = last_said_.find(text);
  const bool again = before != last_said_.end() && now - before->second < kSameWords;
  std::erase_if(last_said_, [&](const auto& one) { return now - one.second >= kSameWords; });
  last_said_[text] = now;
  if (again && error) return;
  const std::string shown = shortened(text, "all of it: View, Messages");
  std::erase_if(notices, [&](const Notice& notice) { return notice.text == shown; });
  notices.push_back({shown, error, now});
  said.push_back({std::move(text), error, now});
  if (said.size() > kSaid) said.erase(said.begin());
}

void WindowState::drop_old_notices(bool held) {
  const auto now = Clock::now();
  for (Notice& notice : notices) {
    if (held) notice.born = now;
  }
  std::erase_if(notices, [&](const Notice& notice) {
    return std::chrono::duration<double>(now - notice.born).count() >= notice.seconds();
  });
}

double WindowState::seconds_to_next_change() const {
  double least = std::numeric_limits<double>::infinity();
  for (const Notice& notice : notices) {
    const std::chrono::duration<double> age = Clock::now() - notice.born;
    least = std::min(least, std::max(0.0, notice.seconds() - age.count()));
  }
  return least;
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

bool ViewContext::has_stacks(const std::string& model) const {
  const auto* report = info(model);
  return report && report->model.encoder_layers > 0;
}

bool ViewContext::model_known(std::size_t index) const {
  const auto& question = of(kInfo, index);
  return question.answer() || (window.may_ask && !question.waiting());
}

bool ViewContext::models_known() const {
  bool known = true;
  const auto ask = [&](std::size_t index) {
    protocol::InfoRequest request{.model = session().models[index]};
    request.length = session().text.length;
    if (window.may_ask) requests.ask(of(kInfo, index), request);
    known = known && model_known(index);
  };
  const auto first = static_cast<std::size_t>(std::max<std::int64_t>(0, session().selection.model));
  if (first < models()) ask(first);
  for (std::size_t i = 0; i < models(); ++i) {
    if (i != first) ask(i);
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
