#include "app/window/worker_requests.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "app/cli/given_input.h"
#include "app/window/urgent_link.h"
#include "formats/error.h"
#include "protocol/messages/common.h"

namespace phasescope::app {
namespace {

using Clock = std::chrono::steady_clock;
using widgets::BusyState;

// A third death within this time means that starting another one does not help.
constexpr std::size_t kDeathsTooMany = 3;
constexpr int kSilentDeathsTooMany = 3;
// A request that two workers died on is not sent to a third.
constexpr int kDeathsOfOne = 2;

// Other answers wait for a map that somebody waits for, but no longer than this: one of a long text
// takes a pass of minutes.
constexpr auto kHoldForUrgent = std::chrono::milliseconds(300);

// Models that were closed last, whose answers are kept: a slider makes a reading at each place.
constexpr std::size_t kClosedKept = 8;

// One text for all questions without a text, so that they are equal.
const SharedText& no_text() {
  static const SharedText none;
  return none;
}

// An answer of more values than these is read beside the window: a thousandth of a second is the
// time of about as many.
constexpr std::size_t kReadAtOnce = 8000;

// Whether a value holds no more than so many values; looks at no more of them than that.
bool counted(const nlohmann::json& value, std::size_t& left) {
  if (left == 0) return false;
  --left;
  if (!value.is_structured()) return true;
  for (const nlohmann::json& part : value) {
    if (!counted(part, left)) return false;
  }
  return true;
}

bool at_most(const nlohmann::json& value, std::size_t most) { return counted(value, most); }

// A text as the command line would send it, and a sample of a task as its ids or its prompt.
nlohmann::json input_named(const std::string& name, const std::string& words) {
  if (const std::string sample = TextInput::sample_in(name); !sample.empty()) {
    try {
      return input_of_sample(sample);
    } catch (const formats::Error&) {
      // The session was edited by hand: its words are a text.
    }
  }
  return input_of_text("text", words, name);
}

// Names of what differs between the models of one figure: the model and its own lengths.
constexpr const char* kOfTheModel[] = {"model", "models", "lengths"};

}  // namespace

std::uint64_t next_serial() {
  static std::uint64_t last = 0;
  return ++last;
}

// --- one question ---------------------------------------------------------------------------

bool Asked::is_of(const TextInput& read) const {
  return text.serial() == read.words.serial() &&
         protocol::part_of<protocol::Reading>(params).length == read.length;
}

bool alike(const Asked& a, const Asked& b) {
  nlohmann::json one = a.params, other = b.params;
  for (const char* name : kOfTheModel) one.erase(name), other.erase(name);
  return one == other && a.text.serial() == b.text.serial();
}

void Question::ask(WorkerLink& link, const nlohmann::json& params, const SharedText& text) {
  Asked asked{params, no_text()};
  if (params.contains("input") && !text.empty()) asked.text = text;
  if (asked == asked_ && state_ != BusyState::idle) return;
  if (!(asked == asked_)) deaths_ = 0;
  send(link, std::move(asked));
}

void Question::ask_again(WorkerLink& link, const nlohmann::json& params) {
  if (!waiting()) send(link, {params, no_text()});
}

void Question::send(WorkerLink& link, Asked asked) {
  if (waiting()) link.cancel(request_);
  asked_ = std::move(asked);
  state_ = BusyState::busy;
  fraction_ = -1;
  progress_.clear();
  asked_at_ = Clock::now();
  reads_at_once_ = link.reads_at_once();
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
  nlohmann::json params = asked_.params;
  if (!asked_.text.empty()) {
    params["input"] = input_named(params["input"].value("name", ""), asked_.text.str());
  }
  request_ = link.submit(method_, std::move(params), std::move(callbacks), tag_);
}

void Question::cancel(WorkerLink& link) {
  if (waiting()) link.cancel(request_);
}

void Question::reset() {
  state_ = BusyState::idle;
  ++ticket_;
}

void Question::forget() {
  reset();
  asked_ = {nullptr, no_text()};
  drop_answer();
}

void Question::on_result(std::uint64_t ticket, protocol::Reply reply) {
  if (ticket != ticket_) return;
  const bool aside = !reads_at_once_ && (hold_ || !at_most(reply.result, kReadAtOnce));
  std::function<Read()> read = reader_of(std::move(reply), asked_);
  if (aside) {
    readings_.push_back({ticket, std::async(std::launch::async, std::move(read))});
  } else {
    take_from(ticket, read);
  }
}

void Question::begin_frame(bool hold) {
  hold_ = hold;
  if (hold) return;
  auto ready = std::ranges::stable_partition(readings_, [](const Reading& one) {
    return one.answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  });
  std::vector<Reading> done(std::move_iterator(ready.begin()), std::move_iterator(ready.end()));
  readings_.erase(ready.begin(), ready.end());
  for (Reading& one : done) {
    if (one.ticket == ticket_) take_from(one.ticket, [&one] { return one.answer.get(); });
  }
}

void Question::take_from(std::uint64_t ticket, const std::function<Read()>& read) {
  try {
    take(read());
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

// --- the requests ---------------------------------------------------------------------------------

WorkerRequests::WorkerRequests(WorkerLink& quick, WorkerLink& slow) : quick_{quick}, slow_{slow} {}

WorkerRequests::Side& WorkerRequests::side_of(const Question& question) {
  Side& side = question.lane() == Lane::slow && !one_worker() ? slow_ : quick_;
  if (!side.started) side.link.start();
  side.started = true;
  return side;
}

void WorkerRequests::ask_params(Question& question, const nlohmann::json& params,
                                const SharedText& text) {
  question.ask(side_of(question).link, params, text);
}

void WorkerRequests::ask_params_again(Question& question, const nlohmann::json& params) {
  question.ask_again(side_of(question).link, params);
}

void WorkerRequests::cancel(Question& question) { question.cancel(side_of(question).link); }

void WorkerRequests::retry(Question& question) {
  const bool opening = question.method() == kInfo.method;
  const protocol::ErrorInfo error = question.error();
  for (auto& [key, entry] : questions_) {
    Question& other = *entry.question;
    if (opening && other.failed() && other.error().message == error.message &&
        other.error().where == error.where) {
      other.reset();
    }
  }
  question.reset();
  ++generation_;
}

void WorkerRequests::keep_answers_of(const std::vector<std::string>& open) {
  if (open == open_) return;
  const auto is_open = [&](const std::string& model) {
    return std::ranges::find(open, model) != open.end();
  };
  std::erase_if(closed_, is_open);
  for (const std::string& model : open_) {
    if (is_open(model)) continue;
    closed_.insert(closed_.begin(), model);
    forget_model(model, Forgets::waiting);  // what nobody looks at holds up no other answer
  }
  for (; closed_.size() > kClosedKept; closed_.pop_back()) {
    forget_model(closed_.back(), Forgets::all);
  }
  open_ = open;
}

// Those about one head of it too, whose name stands behind the model's; not those of its readings,
// "rope (yarn x2)".
void WorkerRequests::forget_model(const std::string& model, Forgets which) {
  for (auto& [key, entry] : questions_) {
    const std::string& about = std::get<2>(key);
    const bool of_a_head = about.starts_with(model + " ") && !about.starts_with(model + " (");
    if (about != model && !of_a_head) continue;
    const bool waiting = entry.question->waiting();
    if (waiting) cancel(*entry.question);
    if (waiting || which == Forgets::all) entry.question->forget();
  }
}

std::uint64_t WorkerRequests::ends_of_info() const {
  std::uint64_t ends = 0;
  for (const auto& [key, entry] : questions_) {
    if (std::get<1>(key) == kInfo.method) ends += entry.question->ends();
  }
  return ends;
}

std::uint64_t WorkerRequests::ends() const {
  std::uint64_t ends = 0;
  for (const auto& [key, entry] : questions_) ends += entry.question->ends();
  return ends;
}

// Whether a map that was asked for a moment ago, as by a click, has not come.
bool WorkerRequests::holds_for_urgent() {
  const bool waits = std::ranges::any_of(questions_, [](const auto& one) {
    const Question& question = *one.second.question;
    return question.waiting() && UrgentLink::is_urgent(question.method());
  });
  if (!waits) urgent_since_.reset();
  if (waits && !urgent_since_) urgent_since_ = Clock::now();
  return waits && Clock::now() - *urgent_since_ < kHoldForUrgent;
}

void WorkerRequests::begin_frame() {
  const bool map_first = holds_for_urgent();
  for (auto& [key, entry] : questions_) {
    entry.question->begin_frame(map_first && !UrgentLink::is_urgent(entry.question->method()));
  }
  look_after(quick_);
  look_after(slow_);
  const std::uint64_t ends = ends_of_info();
  if (ends != info_ends_) ++generation_;
  info_ends_ = ends;
}

void WorkerRequests::end_frame() {
  quick_.link.flush();
  if (!one_worker()) slow_.link.flush();
}

void WorkerRequests::look_after(Side& side) {
  if (!side.started) return;
  side.link.drain();
  if (std::exchange(side.recorded, !side.link.recorded().empty()) && !side.recorded) {
    ask_the_worker();
  }
  side.was_ready = side.was_ready || side.link.state() == protocol::WorkerState::ready;
  if (side.link.state() != protocol::WorkerState::dead) {
    side.dead = false;
    return;
  }
  const auto notice = side.link.death();
  if (side.dead || !notice) return;
  // It may have died after the draining above: what its requests ended with has come by now.
  side.link.drain();
  side.dead = true;
  on_death(side, *notice);
}

// What was recorded stands until the worker has answered the same.
void WorkerRequests::ask_the_worker() {
  for (auto& [key, entry] : questions_) {
    if (!entry.question->waiting()) entry.question->reset();
  }
  ++generation_;
}

void WorkerRequests::on_death(Side& side, const protocol::DeathNotice& notice) {
  death_notice_ = notice.error.message;
  const auto now = Clock::now();
  std::erase_if(deaths_, [&](auto when) { return now - when > death_window_; });
  deaths_.push_back(now);
  // A worker that is too slow to begin, or a host that does not answer, takes longer to die than a
  // death is remembered.
  side.silent_deaths = std::exchange(side.was_ready, false) ? 0 : side.silent_deaths + 1;
  gave_up_ = deaths_.size() >= kDeathsTooMany || side.silent_deaths >= kSilentDeathsTooMany;
  if (gave_up_) return;
  side.link.restart();
  side.dead = false;
  reset_orphans(kDeathsOfOne);
}

void WorkerRequests::reset_orphans(int below_deaths) {
  for (auto& [key, entry] : questions_) {
    Question& question = *entry.question;
    if (question.failed() && question.error().code == protocol::error_code::worker_died &&
        question.deaths() < below_deaths) {
      question.reset();
    }
  }
  ++generation_;
}

void WorkerRequests::start_again() {
  deaths_.clear();
  gave_up_ = false;
  death_notice_.clear();
  for (Side* side : {&quick_, &slow_}) side->silent_deaths = 0;
  for (Side* side : {&quick_, &slow_}) {
    if (side->started && side->link.state() == protocol::WorkerState::dead) {
      side->link.restart();
      side->dead = false;
    }
  }
  reset_orphans(std::numeric_limits<int>::max());
}

void WorkerRequests::begin_anew() {
  for (auto& [key, entry] : questions_) entry.question->reset();
  deaths_.clear();
  gave_up_ = false;
  death_notice_.clear();
  for (Side* side : {&quick_, &slow_}) {
    side->dead = side->was_ready = side->recorded = false, side->silent_deaths = 0;
  }
  ++generation_;
}

widgets::BusySpec WorkerRequests::busy(const Question& question) const {
  widgets::BusySpec spec = question.busy();
  if (!question.waiting() || question.begun()) return spec;
  int before = 0;  // a worker answers one question after the other, a long one last
  for (const auto& [key, entry] : questions_) {
    const Question& other = *entry.question;
    const bool lets_it_go_first = UrgentLink::is_long(other.method()) && !other.begun() &&
                                  !UrgentLink::is_long(question.method());
    before += other.waiting() && (one_worker() || other.lane() == question.lane()) &&
              other.asked_at() < question.asked_at() && !lets_it_go_first;
  }
  if (before > 0) spec.text = "waits for " + std::to_string(before) + " before it,";
  return spec;
}

// What is polled is nothing to wait for once it was answered, or while there is no worker.
int WorkerRequests::waiting() const {
  const bool recorded = !this->recorded().empty();
  int count = 0;
  for (const auto& [key, entry] : questions_) {
    count +=
        entry.question->waiting() && !(entry.polled && (recorded || entry.question->ends() > 0));
  }
  return count;
}

std::string WorkerRequests::doing() const {
  const Question* longest = nullptr;
  for (const auto& [key, entry] : questions_) {
    const Question* question = entry.question.get();
    if (question->waiting() && (!longest || question->asked_at() < longest->asked_at())) {
      longest = question;
    }
  }
  return longest ? longest->busy().text : "";
}

}  // namespace phasescope::app
