#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "app/window/session_history.h"
#include "app/window/worker_requests.h"

namespace phasescope::app {

// What views and commands may ask of the window itself.
struct WindowState {
  bool quit = false;
  bool palette_open = false;
  bool help_open = false;
  bool reset_layout = false;
  bool save_session = false;
  bool may_ask = false;                          // views send nothing to workers before this is set
  bool moving = false;                           // set by a view that waits for its axes to rest
  std::string focus_view;                        // id of the view to bring to the front
  std::string open_dialog;                       // "model" or "text": the file chooser to show
  std::function<void(const std::string&)> copy;  // to the clipboard

  // A short message in the corner; errors stay until clicked.
  struct Notice {
    std::string text;
    bool error = false;
    double born = 0;
  };
  std::vector<Notice> notices;
  void say(std::string text, bool error = false) { notices.push_back({std::move(text), error, 0}); }

  // Runs `work` beside the window; the sentence it returns, or its error, becomes a notice.
  void run_aside(std::function<std::string()> work);
  // Once a frame: turns finished work into notices.
  void collect();
  bool working() const { return !tasks.empty(); }
  std::vector<std::future<std::string>> tasks;
};

// All that a view or a command works on.
struct ViewContext {
  SessionHistory& edit;
  WorkerRequests& requests;
  WindowState& window;

  const Session& session() const { return edit.session(); }
  // Questions of the session's i-th model.
  ModelQuestions& of(std::size_t index) const { return requests.of(session().models[index]); }
  std::size_t models() const { return session().models.size(); }
  // Asks what every open model is. False while an answer is missing: what a view asks depends on
  // the model's shape and its tokenizer.
  bool models_known() const;
  // False where nobody chose the text and the model has no tokenizer: its questions then go without
  // an input, and the worker takes seeded random ids.
  bool reads_text(const std::string& model) const;
  // What is asked of a model: the session, without the text where it does not read it.
  Session session_for(const std::string& model) const;
};

}  // namespace phasescope::app
