#pragma once
// Questions to the worker and their newest answers. Views ask by what they show; asking the same
// again costs nothing, another question of the same kind replaces the one that waits, and the old
// answer stays until a new one has come.
//
// Sections: one question | what is asked of a model | the requests.
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "app/window/session.h"
#include "app/window/worker_link.h"
#include "protocol/messages/models.h"
#include "protocol/request.h"
#include "widgets/busy.h"

namespace phasescope::app {

// --- one question ---------------------------------------------------------------------------

// quick: answered while the user looks on. slow: over many texts; a worker of its own answers it,
// so that a map never waits for an evaluation.
enum class Lane { quick, slow };

// A question as it was asked: the params of the request, without the words of a text, and those
// where the params have an input. Two equal ones have the same answer.
struct Asked {
  nlohmann::json params;
  SharedText text;
  bool operator==(const Asked& other) const {
    return params == other.params && text.serial() == other.text.serial();
  }
  // Whether it was of this text, read to this length.
  bool is_of(const TextInput& read) const;
};

// Whether two questions are the same but for the model, and for the lengths that follow from it.
bool alike(const Asked& a, const Asked& b);

class Question {
 public:
  // `doing` says what the worker does with it, while the worker itself says nothing.
  Question(std::string method, std::string tag, std::string doing, Lane lane = Lane::quick)
      : method_(std::move(method)), tag_(std::move(tag)), doing_(std::move(doing)), lane_(lane) {}
  virtual ~Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // Sends the request unless just this one was sent last and has not been reset. `text` goes with
  // it where `params` have an input; it is told from others without being read.
  void ask(WorkerLink& link, const nlohmann::json& params, const SharedText& text = {});
  // Sends it though it was sent before (a job's state changes by itself).
  void ask_again(WorkerLink& link, const nlohmann::json& params);
  void cancel(WorkerLink& link);
  // Forgets the failure and what was asked, so that the next ask() sends.
  void reset();
  // Forgets the failure, what was asked, and the answer.
  void forget();

  // What was asked last, whether it was answered or not.
  const Asked& asked() const { return asked_; }
  widgets::BusySpec busy() const;
  bool waiting() const { return state_ == widgets::BusyState::busy; }
  bool failed() const { return state_ == widgets::BusyState::failed; }
  // The worker has told of its progress.
  bool begun() const { return fraction_ >= 0 || !progress_.empty(); }
  const protocol::ErrorInfo& error() const { return error_; }
  Lane lane() const { return lane_; }
  const std::string& method() const { return method_; }
  // How often a worker died on just this request.
  int deaths() const { return deaths_; }
  // How often it was answered or failed.
  std::uint64_t ends() const { return ends_; }
  std::chrono::steady_clock::time_point asked_at() const { return asked_at_; }
  // Once at the start of a frame: takes what has been read beside the window by now. With `hold` it
  // is left there, and what comes in this frame is read beside the window too.
  void begin_frame(bool hold);

 protected:
  using Read = std::shared_ptr<const void>;
  // Parses an answer, maybe in another thread; throws where it is not what it should be.
  virtual std::function<Read()> reader_of(protocol::Reply reply, const Asked& asked) const = 0;
  virtual void take(Read answer) = 0;
  virtual void drop_answer() = 0;

 private:
  struct Reading {
    std::uint64_t ticket;
    std::future<Read> answer;
  };
  void take_from(std::uint64_t ticket, const std::function<Read()>& read);
  void send(WorkerLink& link, Asked asked);
  void on_result(std::uint64_t ticket, protocol::Reply reply);
  void on_error(std::uint64_t ticket, const protocol::ErrorInfo& error);

  std::string method_, tag_, doing_;
  Asked asked_;
  Lane lane_;
  widgets::BusyState state_ = widgets::BusyState::idle;
  protocol::ErrorInfo error_;
  protocol::RequestId request_ = 0;
  std::uint64_t ticket_ = 0;
  double fraction_ = -1;
  std::string progress_;
  std::chrono::steady_clock::time_point asked_at_;
  int deaths_ = 0;
  std::uint64_t ends_ = 0;
  std::vector<Reading> readings_;  // also of what is not asked any more
  bool reads_at_once_ = false;     // as the link that it was asked of says
  bool hold_ = false;              // begin_frame()
};

// Immutable once it is there; `serial` differs between any two answers.
template <class T>
struct Answer {
  T result;
  std::vector<protocol::TensorRef> tensors;
  Asked asked;
  std::uint64_t serial = 0;
};

std::uint64_t next_serial();

template <class T>
class QuestionOf : public Question {
 public:
  using Question::Question;
  // The newest answer, or nullptr before the first.
  const Answer<T>* answer() const { return answer_.get(); }
  // Whether that is the answer to what was asked last.
  bool answers_now() const { return answer_ && answer_->asked == asked(); }

 protected:
  std::function<Read()> reader_of(protocol::Reply reply, const Asked& asked) const override {
    auto shared = std::make_shared<protocol::Reply>(std::move(reply));
    return [shared, asked, serial = next_serial()]() -> Read {
      const protocol::Reply reply = std::move(*shared);
      return std::make_shared<const Answer<T>>(
          Answer<T>{protocol::from_json_form<T>(reply.result), reply.tensors, asked, serial});
    };
  }
  void take(Read answer) override {
    answer_ = std::static_pointer_cast<const Answer<T>>(std::move(answer));
  }
  void drop_answer() override { answer_.reset(); }

 private:
  std::shared_ptr<const Answer<T>> answer_;
};

// --- what is asked of a model ----------------------------------------------------------------

// What a view asks of a worker, about each model or, with "" for the model, about none. A view has
// one for each method that it calls:
//   inline constexpr Asks<protocol::ShiftResult> kShift{"shift", protocol::ShiftRequest::method,
//                                                       "shifting", Lane::slow};
template <class Result>
struct Asks {
  const char* view;    // id of the view that asks
  const char* method;  // of the worker
  const char* doing;   // what the worker does with it, while the worker itself says nothing
  Lane lane = Lane::quick;
  // Asked again and again, so that waiting for a new answer is nothing to tell of.
  bool polled = false;
};

// What a model is; every view's questions wait for it.
inline constexpr Asks<protocol::LoadReport> kInfo{"models", protocol::InfoRequest::method,
                                                  "opening"};

// --- the requests ---------------------------------------------------------------------------------

class WorkerRequests {
 public:
  // Both links may be the same object. The slow one is started with its first question.
  WorkerRequests(WorkerLink& quick, WorkerLink& slow);

  // What a view asks about a model; made when first asked for. The answer is kept while the model
  // is open, and that of some that were closed last, so that one that is opened again shows at
  // once.
  template <class T>
  QuestionOf<T>& of(const Asks<T>& asks, const std::string& model = "") {
    auto& entry = questions_[{asks.view, asks.method, model}];
    if (!entry.question) {
      const std::string tag = std::string(asks.view) + "/" + asks.method + "/" + model;
      entry.question = std::make_unique<QuestionOf<T>>(asks.method, tag, asks.doing, asks.lane);
      entry.polled = asks.polled;
    }
    return dynamic_cast<QuestionOf<T>&>(*entry.question);
  }

  template <class Request>
  void ask(Question& question, Request request, const SharedText& text = {}) {
    computing_.put(request);
    ask_params(question, protocol::params_of(request), text);
  }
  template <class Request>
  void ask_again(Question& question, const Request& request) {
    ask_params_again(question, protocol::params_of(request));
  }
  // What models are computed in from now on, for the requests that open or run one.
  void compute_with(const Computing& computing) { computing_ = computing; }
  const Computing& computing() const { return computing_; }
  void cancel(Question& question);
  // Sends a failed or cancelled question again when its view next asks; of a model that could not
  // be opened, all that failed for it.
  void retry(Question& question);

  // Which models are open now: once a frame, before views are drawn. Of those that were closed long
  // ago no answers are kept.
  void keep_answers_of(const std::vector<std::string>& open);

  // Runs what has come; once at the start of a frame. While a map that was just clicked is on its
  // way, other answers wait until it is on screen. Sees to workers that have died. Throws what an
  // answer's reader threw; what came after it waits for the next frame.
  void begin_frame();
  // Sends what was asked since; once at the end of a frame.
  void end_frame();
  // What a view says of a question: also that the worker has others to answer first.
  widgets::BusySpec busy(const Question& question) const;
  // Requests without an answer.
  int waiting() const;
  // What the longest waiting question says of itself, for the status bar.
  std::string doing() const;
  protocol::WorkerState state() const { return quick_.link.state(); }
  std::string description() const { return quick_.link.description(); }
  // Why answers are recorded ones; empty with a worker.
  std::string recorded() const { return quick_.link.recorded(); }

  // How the last worker ended, until dismissed; empty when all is well.
  const std::string& death_notice() const { return death_notice_; }
  void dismiss_death() { death_notice_.clear(); }
  // True when workers died so often that none is started any more without being asked.
  bool gave_up() const { return gave_up_; }
  // For tests: for how long a death is remembered.
  void remember_deaths_for(std::chrono::milliseconds window) { death_window_ = window; }
  // Starts workers and asks again whatever failed with the last ones.
  void start_again();
  // The links have other workers, who are asked all anew.
  void begin_anew();
  // How many questions were answered or failed so far.
  std::uint64_t ends() const;
  // Grows when questions were reset, and when a model became known, so that views ask again.
  std::uint64_t generation() const { return generation_; }

 private:
  struct Side {
    WorkerLink& link;
    bool started = false;
    bool dead = false;      // its death was seen to
    int silent_deaths = 0;  // one after the other, of workers that never said that they are ready
    bool was_ready = false;
    bool recorded = false;
  };
  void ask_params(Question& question, const nlohmann::json& params, const SharedText& text);
  void ask_params_again(Question& question, const nlohmann::json& params);
  Side& side_of(const Question& question);
  bool one_worker() const { return &slow_.link == &quick_.link; }
  bool holds_for_urgent();
  void look_after(Side& side);
  void on_death(Side& side, const protocol::DeathNotice& notice);
  void ask_the_worker();
  void reset_orphans(int below_deaths);
  enum class Forgets { waiting, all };
  void forget_model(const std::string& model, Forgets which);

  // By view, method and model.
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Entry {
    std::unique_ptr<Question> question;
    bool polled = false;
  };
  std::uint64_t ends_of_info() const;

  Side quick_, slow_;
  Computing computing_;
  std::map<Key, Entry> questions_;
  std::vector<std::string> open_, closed_;  // models; of the closed ones the last first
  std::string death_notice_;
  std::chrono::milliseconds death_window_{30'000};
  std::vector<std::chrono::steady_clock::time_point> deaths_;
  bool gave_up_ = false;
  // Since when, without a frame between, something urgent has been waited for.
  std::optional<std::chrono::steady_clock::time_point> urgent_since_;
  std::uint64_t generation_ = 1, info_ends_ = 0;
};

}  // namespace phasescope::app
