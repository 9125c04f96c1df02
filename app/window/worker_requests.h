#pragma once
// Questions to the worker and their newest answers. Views ask by what they show; asking the same
// again costs nothing, another question of the same kind replaces the one that waits, and the old
// answer stays until a new one has come.
//
// Sections: one question | the questions of a model | the requests.
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "app/window/session.h"
#include "app/window/worker_link.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"
#include "widgets/busy.h"

namespace phasescope::app {

// --- one question ---------------------------------------------------------------------------

// quick: answered while the user looks on. slow: over many texts; a worker of its own answers it,
// so that a map never waits for an evaluation.
enum class Lane { quick, slow };

class Question {
 public:
  // `doing` says what the worker does with it, while the worker itself says nothing.
  Question(std::string method, std::string tag, std::string doing, Lane lane = Lane::quick)
      : method_(std::move(method)), tag_(std::move(tag)), doing_(std::move(doing)), lane_(lane) {}
  virtual ~Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // Sends the request unless just this one was sent last and has not been reset. `text` goes with
  // it as input.text where `params` have an input; it is told from others without being read.
  void ask(WorkerLink& link, const nlohmann::json& params, const SharedText& text = {});
  // Sends it though it was sent before (a job's state changes by itself).
  void ask_again(WorkerLink& link, const nlohmann::json& params);
  void cancel(WorkerLink& link);
  // Forgets the failure and what was asked, so that the next ask() sends.
  void reset();

  widgets::BusySpec busy() const;
  bool waiting() const { return state_ == widgets::BusyState::busy; }
  bool failed() const { return state_ == widgets::BusyState::failed; }
  // The worker has told of its progress.
  bool begun() const { return fraction_ >= 0 || !progress_.empty(); }
  const protocol::ErrorInfo& error() const { return error_; }
  Lane lane() const { return lane_; }
  // How often a worker died on just this request.
  int deaths() const { return deaths_; }
  // How often it was answered or failed.
  std::uint64_t ends() const { return ends_; }
  std::chrono::steady_clock::time_point asked_at() const { return asked_at_; }

 protected:
  // Parses and keeps the answer; throws where it is not what it should be.
  virtual void take(protocol::Reply reply, const std::string& key) = 0;

 private:
  void send(WorkerLink& link, nlohmann::json params, std::string key);
  void on_result(std::uint64_t ticket, protocol::Reply reply);
  void on_error(std::uint64_t ticket, const protocol::ErrorInfo& error);

  std::string method_, tag_, doing_, key_;
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
};

// Immutable once it is there; `serial` differs between any two answers.
template <class T>
struct Answer {
  T result;
  std::vector<protocol::TensorRef> tensors;
  std::string key;
  std::uint64_t serial = 0;
};

std::uint64_t next_serial();

template <class T>
class QuestionOf : public Question {
 public:
  using Question::Question;
  // The newest answer, or nullptr before the first.
  const Answer<T>* answer() const { return answer_.get(); }
  std::shared_ptr<const Answer<T>> shared_answer() const { return answer_; }

 protected:
  void take(protocol::Reply reply, const std::string& key) override {
    answer_ = std::make_shared<const Answer<T>>(Answer<T>{
        protocol::from_json_form<T>(reply.result), std::move(reply.tensors), key, next_serial()});
  }

 private:
  std::shared_ptr<const Answer<T>> answer_;
};

// --- the questions of a model ----------------------------------------------------------------

struct ModelQuestions {
  explicit ModelQuestions(const std::string& model);
  QuestionOf<protocol::LoadReport> info;
  QuestionOf<protocol::TextResult> text;
  QuestionOf<protocol::HeadsResult> heads;
  QuestionOf<protocol::MapResult> map;
  QuestionOf<protocol::PatternsResult> patterns;
  QuestionOf<protocol::DistanceResult> distance;
  QuestionOf<protocol::ShiftResult> shift;
  QuestionOf<protocol::TheoryResult> theory;
  QuestionOf<protocol::EvalResult> eval;

  std::vector<Question*> all();
};

// --- the requests ---------------------------------------------------------------------------------

class WorkerRequests {
 public:
  // Both links may be the same object. The slow one is started with its first question.
  WorkerRequests(WorkerLink& quick, WorkerLink& slow);

  // The questions about a model; made when first asked for and kept, so that a model that is opened
  // again shows at once.
  ModelQuestions& of(const std::string& model);

  QuestionOf<protocol::ModelsResult> models{"models.list", "models", "listing models"};
  QuestionOf<protocol::JobsResult> jobs{"jobs.list", "jobs", "listing jobs"};
  QuestionOf<protocol::JobStatus> job{"jobs.show", "job", "reading the job"};
  QuestionOf<protocol::JobStatus> start{"jobs.start", "start", "starting the job"};
  QuestionOf<nlohmann::json> control{"jobs.control", "control", "telling the job"};

  void ask(Question& question, const nlohmann::json& params, const SharedText& text = {});
  void ask_again(Question& question, const nlohmann::json& params);
  void cancel(Question& question);
  // Sends a failed or cancelled question again when its view next asks.
  void retry(Question& question);

  // Runs what has come; once at the start of a frame. Sees to workers that have died.
  void begin_frame();
  // What a view says of a question: also that the worker has others to answer first.
  widgets::BusySpec busy(const Question& question) const;
  // Requests without an answer.
  int waiting() const;
  // What the longest waiting question says of itself, for the status bar.
  std::string doing() const;
  protocol::WorkerState state() const { return quick_.link.state(); }
  std::string description() const { return quick_.link.description(); }

  // How the last worker ended, until dismissed; empty when all is well.
  const std::string& death_notice() const { return death_notice_; }
  void dismiss_death() { death_notice_.clear(); }
  // True when workers died so often that none is started any more without being asked.
  bool gave_up() const { return gave_up_; }
  // Starts workers and asks again whatever failed with the last ones.
  void start_again();
  // Grows when questions were reset, and when a model became known, so that views ask again.
  std::uint64_t generation() const { return generation_; }

 private:
  struct Side {
    WorkerLink& link;
    bool started = false;
    bool dead = false;  // its death was seen to
  };
  Side& side_of(const Question& question);
  bool one_worker() const { return &slow_.link == &quick_.link; }
  std::vector<Question*> every() const;
  void look_after(Side& side);
  void on_death(Side& side, const protocol::DeathNotice& notice);
  void reset_orphans(int below_deaths);

  Side quick_, slow_;
  std::map<std::string, std::unique_ptr<ModelQuestions>> by_model_;
  std::string death_notice_;
  std::vector<std::chrono::steady_clock::time_point> deaths_;
  bool gave_up_ = false;
  std::uint64_t generation_ = 1, info_ends_ = 0;
};

}  // namespace phasescope::app
