#include "app/window/worker_requests.h"

#include <limits>

namespace phasescope::app {
namespace {

using Clock = std::chrono::steady_clock;
using widgets::BusyState;

// A third death within this time means that starting another one does not help.
constexpr auto kDeathWindow = std::chrono::seconds(30);
constexpr std::size_t kDeathsTooMany = 3;
// A request that two workers died on is not sent to a third.
constexpr int kDeathsOfOne = 2;

std::string key_of(const nlohmann::json& params) {
  return params.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::uint64_t next_serial() {
  static std::uint64_t last = 0;
  return ++last;
}

// --- one question ---------------------------------------------------------------------------

void Question::ask(WorkerLink& link, const nlohmann::json& params, const SharedText& text) {
  const bool reads = params.contains("input") && !text.empty();
  std::string key = key_of(params);
  if (reads) key += "#" + std::to_string(text.serial());
  if (key == key_ && state_ != BusyState::idle) return;
  if (key != key_) deaths_ = 0;
  nlohmann::json whole = params;
  if (reads) whole["input"]["text"] = text.str();
  send(link, std::move(whole), std::move(key));
}

void Question::ask_again(WorkerLink& link, const nlohmann::json& params) {
  if (!waiting()) send(link, params, key_of(params));
}

void Question::send(WorkerLink& link, nlohmann::json params, std::string key) {
  if (waiting()) link.cancel(request_);
  key_ = std::move(key);
  state_ = BusyState::busy;
  fraction_ = -1;
  progress_.clear();
  asked_at_ = Clock::now();
  const std::uint64_t ticket = ++ticket_;
  protocol::Callbacks callbacks;
  callbacks.on_result = [this, ticket](protocol::Reply reply) {
    on_result(ticket, std::move(reply));
  };
  callbacks.on_error = [this, ticket](const protocol::ErrorInfo& error) {
    on_error(ticket, error);
  };
  callbacks.on_progress = [this, ticket](double fraction, const std::string& text) {
    if (ticket == ticket_) fraction_ = fraction, progress_ = text;
  };
  request_ = link.submit(method_, std::move(params), std::move(callbacks), tag_);
}

void Question::cancel(WorkerLink& link) {
  if (waiting()) link.cancel(request_);
}

void Question::reset() {
  state_ = BusyState::idle;
  ++ticket_;
}

void Question::on_result(std::uint64_t ticket, protocol::Reply reply) {
  if (ticket != ticket_) return;
  try {
    take(std::move(reply), key_);
    state_ = BusyState::answered;
    deaths_ = 0;
    ++ends_;
  } catch (const std::exception& error) {
    on_error(ticket, {"internal", method_ + " gave an answer that cannot be read", error.what(),
                      "the worker may be of another version"});
  }
}

void Question::on_error(std::uint64_t ticket, const protocol::ErrorInfo& error) {
  if (ticket != ticket_) return;
  state_ = BusyState::failed;
  error_ = error;
  ++ends_;
  if (error.code == protocol::error_code::worker_died) ++deaths_;
}

widgets::BusySpec Question::busy() const {
  widgets::BusySpec spec;
  spec.state = state_;
  spec.fraction = fraction_;
  spec.seconds = std::chrono::duration<double>(Clock::now() - asked_at_).count();
  spec.text = progress_.empty() ? doing_ : progress_;
  if (state_ == BusyState::failed) {
    spec.text = error_.message + (error_.where.empty() ? "" : " (" + error_.where + ")");
    spec.hint = error_.hint;
  }
  return spec;
}

// --- the questions of a model ----------------------------------------------------------------

ModelQuestions::ModelQuestions(const std::string& model)
    : info("model.info", "info/" + model, "opening"),
      text("text.read", "text/" + model, "reading the text"),
      heads("heads", "heads/" + model, "measuring the heads"),
      map("map", "map/" + model, "computing the map"),
      patterns("patterns", "patterns/" + model, "computing the patterns"),
      distance("distance", "distance/" + model, "measuring distances", Lane::slow),
      shift("shift", "shift/" + model, "shifting", Lane::slow),
      theory("theory", "theory/" + model, "checking", Lane::slow),
      eval("eval", "eval/" + model, "evaluating", Lane::slow) {}

std::vector<Question*> ModelQuestions::all() {
  return {&info, &text, &heads, &map, &patterns, &distance, &shift, &theory, &eval};
}

// --- the requests ---------------------------------------------------------------------------------

WorkerRequests::WorkerRequests(WorkerLink& quick, WorkerLink& slow) : quick_{quick}, slow_{slow} {}

ModelQuestions& WorkerRequests::of(const std::string& model) {
  auto& questions = by_model_[model];
  if (!questions) questions = std::make_unique<ModelQuestions>(model);
  return *questions;
}

WorkerRequests::Side& WorkerRequests::side_of(const Question& question) {
  Side& side = question.lane() == Lane::slow && !one_worker() ? slow_ : quick_;
  if (!side.started) side.link.start();
  side.started = true;
  return side;
}

void WorkerRequests::ask(Question& question, const nlohmann::json& params, const SharedText& text) {
  question.ask(side_of(question).link, params, text);
}

void WorkerRequests::ask_again(Question& question, const nlohmann::json& params) {
  question.ask_again(side_of(question).link, params);
}

void WorkerRequests::cancel(Question& question) { question.cancel(side_of(question).link); }

void WorkerRequests::retry(Question& question) {
  question.reset();
  ++generation_;
}

std::vector<Question*> WorkerRequests::every() const {
  auto* self =
      const_cast<WorkerRequests*>(this);  // the list is read by const members and reset by others
  std::vector<Question*> list{&self->models, &self->jobs, &self->job, &self->start, &self->control};
  for (const auto& [name, questions] : by_model_)
    for (Question* question : questions->all()) list.push_back(question);
  return list;
}

void WorkerRequests::begin_frame() {
  look_after(quick_);
  look_after(slow_);
  std::uint64_t ends = 0;
  for (const auto& [name, questions] : by_model_) ends += questions->info.ends();
  if (ends != info_ends_) ++generation_;
  info_ends_ = ends;
}

void WorkerRequests::look_after(Side& side) {
  if (!side.started) return;
  side.link.drain();
  if (side.link.state() != protocol::WorkerState::dead) {
    side.dead = false;
    return;
  }
  const auto notice = side.link.death();
  if (side.dead || !notice) return;
  side.dead = true;
  on_death(side, *notice);
}

void WorkerRequests::on_death(Side& side, const protocol::DeathNotice& notice) {
  death_notice_ = notice.error.message;
  const auto now = Clock::now();
  std::erase_if(deaths_, [&](auto when) { return now - when > kDeathWindow; });
  deaths_.push_back(now);
  gave_up_ = deaths_.size() >= kDeathsTooMany;
  if (gave_up_) return;
  side.link.restart();
  side.dead = false;
  reset_orphans(kDeathsOfOne);
}

void WorkerRequests::reset_orphans(int below_deaths) {
  for (Question* question : every())
    if (question->failed() && question->error().code == protocol::error_code::worker_died &&
        question->deaths() < below_deaths)
      question->reset();
  ++generation_;
}

void WorkerRequests::start_again() {
  deaths_.clear();
  gave_up_ = false;
  death_notice_.clear();
  for (Side* side : {&quick_, &slow_})
    if (side->started && side->link.state() == protocol::WorkerState::dead) {
      side->link.restart();
      side->dead = false;
    }
  reset_orphans(std::numeric_limits<int>::max());
}

widgets::BusySpec WorkerRequests::busy(const Question& question) const {
  widgets::BusySpec spec = question.busy();
  if (!question.waiting() || question.begun()) return spec;
  int before = 0;  // a worker answers one question after the other
  for (const Question* other : every())
    before += other->waiting() && (one_worker() || other->lane() == question.lane()) &&
              other->asked_at() < question.asked_at();
  if (before > 0) spec.text = "waits for " + std::to_string(before) + " before it,";
  return spec;
}

// Jobs are looked at every second; once there is an answer that is nothing to wait for.
int WorkerRequests::waiting() const {
  int count = 0;
  for (const Question* question : every()) count += question->waiting();
  return count - (jobs.waiting() && jobs.answer()) - (job.waiting() && job.answer());
}

std::string WorkerRequests::doing() const {
  const Question* longest = nullptr;
  for (const Question* question : every())
    if (question->waiting() && (!longest || question->asked_at() < longest->asked_at()))
      longest = question;
  return longest ? longest->busy().text : "";
}

}  // namespace phasescope::app
