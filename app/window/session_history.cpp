#include "app/window/session_history.h"

namespace phasescope::app {
namespace {

constexpr std::size_t kSteps = 200;

}  // namespace

void SessionHistory::apply(const std::string& title, const std::function<void(Session&)>& change,
                           const std::string& merge) {
  Session next = session_;
  change(next);
  give_colors(next);
  if (next == session_) return;
  const bool merged = !merge.empty() && !past_.empty() && past_.back().merge == merge;
  if (!merged) past_.push_back({title, merge, session_});
  if (past_.size() > kSteps) past_.erase(past_.begin());
  future_.clear();
  session_ = std::move(next);
  ++revision_;
}

void SessionHistory::apply_silently(const std::function<void(Session&)>& change) {
  change(session_);
  give_colors(session_);
  ++revision_;
}

void SessionHistory::restore(std::vector<Step>& from, std::vector<Step>& to) {
  Step step = std::move(from.back());
  from.pop_back();
  to.push_back({step.title, "", session_});
  const std::string layout = session_.layout;
  session_ = std::move(step.before);
  session_.layout = layout;
  ++revision_;
}

bool SessionHistory::undo() {
  if (past_.empty()) return false;
  restore(past_, future_);
  return true;
}

bool SessionHistory::redo() {
  if (future_.empty()) return false;
  restore(future_, past_);
  return true;
}

std::string SessionHistory::undo_title() const { return past_.empty() ? "" : past_.back().title; }
std::string SessionHistory::redo_title() const {
  return future_.empty() ? "" : future_.back().title;
}

}  // namespace phasescope::app
