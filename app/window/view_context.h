#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/window/session_history.h"
#include "app/window/worker_requests.h"

namespace phasescope::app {

struct ExportRequest;

// What views and commands may ask of the window itself.
struct WindowState {
  using Clock = std::chrono::steady_clock;
  bool quit = false;
  std::string remote;  // host whose worker is used, over ssh; empty: this machine's
  // Uses that of another host; not set where there is no choice.
  std::function<void(const std::string& host)> connect;
  bool messages_open = false;
  bool sessions_open = false;
  std::shared_ptr<const ExportRequest> to_export;  // figures that the export dialog is about
  bool palette_open = false;
  bool help_open = false;
  bool reset_layout = false;
  bool save_session = false;
  bool may_ask = false;                          // views send nothing to workers before this is set
  bool moving = false;                           // set by a view that waits for its axes to rest
  std::string focus_view;                        // id of the view to bring to the front
  std::string open_dialog;                       // "model" or "text": the file chooser to show
  std::function<void(const std::string&)> copy;  // to the clipboard

  // What the pointer was at in the frame before, in whichever view; empty where it is at nothing.
  // A view says so with point_at() in every frame in which the pointer is in it.
  const widgets::Hover& hover() const { return hover_; }
  void point_at(const widgets::Hover& hover) { next_hover_ = hover; }
  // Once at the start of a frame.
  void begin_hover() { hover_ = std::exchange(next_hover_, {}); }

  // A short message in the corner, the beginning of a long one. It leaves by itself, an error later
  // than the rest; all of them stay in `said`, whole.
  struct Notice {
    static constexpr double kSeconds = 6, kErrorSeconds = 25;
    std::string text;
    bool error = false;
    Clock::time_point born;
    double seconds() const { return error ? kErrorSeconds : kSeconds; }
  };
  std::vector<Notice> notices;
  // What was said since the window opened, the newest last; at most kSaid.
  static constexpr std::size_t kSaid = 200;
  std::vector<Notice> said;
  // What is said over and over, as in every frame, is said once: again only when it was not said
  // for a minute.
  void say(std::string text, bool error = false);
  // Drops notices whose time is over; those that `held` stay.
  void drop_old_notices(bool held);
  // Seconds until one of them is to leave; infinite without any.
  double seconds_to_next_change() const;

  // Runs `work` beside the window; the sentence it returns, or its error, becomes a notice.
  void run_aside(std::function<std::string()> work);
  // Once a frame: turns finished work into notices.
  void collect();
  bool working() const { return !tasks.empty(); }
  std::vector<std::future<std::string>> tasks;

 private:
  widgets::Hover hover_, next_hover_;
  std::map<std::string, Clock::time_point> last_said_;
};

// The first bytes of a text, without a part of a character at their end, and where the rest is.
std::string shortened(const std::string& text, const std::string& rest);

// All that a view or a command works on.
struct ViewContext {
  SessionHistory& edit;
  WorkerRequests& requests;
  WindowState& window;

  const Session& session() const { return edit.session(); }
  // What the pointer is at, and saying so.
  const widgets::Hover& hover() const { return window.hover(); }
  void point_at(const widgets::Hover& hover) const { window.point_at(hover); }
  std::size_t models() const { return session().models.size(); }
  // What a view asks about the session's i-th model.
  template <class T>
  QuestionOf<T>& of(const Asks<T>& asks, std::size_t index) const {
    return requests.of(asks, session().models[index]);
  }
  // What the model is; nullptr before that is known.
  const protocol::LoadReport* info(const std::string& model) const;
  // Whether its heads are in several stacks: an encoder-decoder, as far as is known.
  bool has_stacks(const std::string& model) const;
  // Asks what every open model is, that of the selected head first. False while an answer is
  // missing: what a view asks depends on the model's shape and its tokenizer.
  bool models_known() const;
  // Whether that is known of one of them, or cannot be, once it was asked.
  bool model_known(std::size_t index) const;
  // The session's text; without its words for a model that does not read it. Nobody chose the text
  // that the window opens on: a model without a tokenizer is asked without an input, and the worker
  // takes seeded random ids.
  TextInput text_for(const std::string& model) const;

  // A view's own state, and a change of it as one step of undo.
  template <class State>
  State state() const {
    return session().views.get<State>();
  }
  template <class State>
  void set_state(const std::string& title, const State& state, const std::string& merge = "") {
    edit.apply(
        title, [&](Session& s) { s.views.set(state); }, merge);
  }
};

// Sends a view's question about every open model. `request_of(model, text)` makes the request, with
// set_text() where it reads the text.
template <class T, class Make>
void ask_of_all(ViewContext& context, const Asks<T>& asks, Make request_of) {
  for (const std::string& model : context.session().models) {
    const TextInput text = context.text_for(model);
    context.requests.ask(context.requests.of(asks, model), request_of(model, text), text.words);
  }
}

}  // namespace phasescope::app
