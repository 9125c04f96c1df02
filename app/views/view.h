#pragma once
// A view of the window. To add one: a pair app/views/NAME_view.{h,cpp} with a class derived from
// View, its line in views.cpp and its line in app/CMakeLists.txt. tests/app/window_views_test.cpp
// draws all that views.cpp lists empty, busy, failed and full.
#include <imgui.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/output.h"
#include "app/window/view_context.h"

namespace phasescope::app {

class View {
 public:
  virtual ~View() = default;
  virtual std::string id() const = 0;     // "heads": names it in sessions and commands
  virtual std::string title() const = 0;  // on its tab
  virtual std::string help_text() const = 0;

  // Sends the questions whose answers are shown. Called while the view is visible, whenever the
  // session has changed; asking again for what is known costs nothing.
  virtual void ask(ViewContext&) {}
  virtual void draw_content(ViewContext& context) = 0;
  // The figures as they are now, for files; empty where there are none.
  virtual Output exported(ViewContext&) { return {}; }
  virtual bool has_figures() const { return true; }
  // Its questions are about the open models, and wait until those are known.
  virtual bool about_models() const { return true; }
  // What ran attention for the answers shown, as kernels_of() says it; empty where the view says so
  // in a place of its own.
  virtual std::string kernels(const ViewContext&) const { return ""; }
  // The command line that gives the same; empty where there is none.
  virtual std::string command_line(const Session&) const { return ""; }

  // The window around it: asks, draws the content, marks the view as closed when its tab is closed.
  void draw(ViewContext& context);
  // What ran attention, "Save", "Command", "?" at the right end of the present line. What ran plain
  // for want of a fused form is said in any case, if need be below it.
  void draw_tools(ViewContext& context);
  bool visible() const { return visible_; }
  // The tab's name for Dear ImGui: shown title and stable id.
  std::string window_name() const { return title() + "###" + id(); }

 private:
  void save(ViewContext& context);
  std::string command_of(const ViewContext& context) const;
  void copy_command(ViewContext& context, const std::string& command);
  void draw_tool_menu(ViewContext& context, const std::string& command);
  void draw_command_tools(ViewContext& context, const std::string& command, bool folded);
  void ask_what_changed(ViewContext& context);

  bool visible_ = false;
  std::uint64_t asked_revision_ = 0, asked_generation_ = 0;
};

// --- pieces that several views use ------------------------------------------------------------

// Progress or failure of a question, with its button; nothing when there is nothing to say.
void draw_question(ViewContext& context, Question& question, const std::string& who);

// A labelled choice among words; returns true when another one was taken.
bool draw_choice(const char* label, std::string& value, const std::vector<std::string>& words,
                 float width = 0);
// The colour of the session's i-th model as a small square, then its short name; the whole on
// hover.
void draw_model_name(const Session& session, std::size_t index);
// Index of the colour that a model's curves have, for series_color; `model` may be its short name.
int color_of_model(const Session& session, const std::string& model);
// Shown on hover of the last item.
void tooltip(const std::string& words);
// One number in a table cell, right-aligned.
void number_cell(double value);

// Keeps what was made from answers until another key is asked for, so that frames only draw.
template <class T>
class Cached {
 public:
  template <class Make>
  const T& get(const std::string& key, Make make) {
    if (!made_ || key != key_) {
      value_ = make();
      key_ = key;
      made_ = true;
      version_ = next_serial();
    }
    return value_;
  }
  std::uint64_t version() const { return version_; }

 private:
  T value_{};
  std::string key_;
  bool made_ = false;
  std::uint64_t version_ = 0;
};

// A key that differs whenever one of the answers does.
template <class... Answers>
std::string serials_of(const Answers*... answers) {
  std::string key;
  ((key += std::to_string(answers ? answers->serial : 0) + "/"), ...);
  return key;
}

// What ran attention of a model.
struct ModelKernel {
  std::string model, kernel;
};
// "fused cpu avx3", or "A: fused cpu avx3; B: plain (why)" where they differ; empty where nothing
// ran.
std::string kernel_words(std::vector<ModelKernel> models);
// Whether such words say that something ran plain for want of a fused form. Float64 has none, and
// who computes in it knows.
bool fell_back(const std::string& words);
// Their colour: that of warnings for a fallback.
const ImVec4& kernel_color(const std::string& words);

template <class T>
void add_kernels(const std::string& model, const T& result, std::vector<ModelKernel>& kernels) {
  if constexpr (requires { result.provenance.kernel; }) {
    kernels.push_back({model, result.provenance.kernel});
  } else if constexpr (requires { result.provenance; }) {
    for (const protocol::Provenance& one : result.provenance)
      kernels.push_back({model, one.kernel});
  } else {
    for (const auto& one : result.models) kernels.push_back({model, one.provenance.kernel});
  }
}

// What ran attention for one question's answers.
template <class T>
std::string kernels_of(const ViewContext& context, QuestionOf<T> ModelQuestions::*question) {
  std::vector<ModelKernel> kernels;
  for (std::size_t i = 0; i < context.models(); ++i)
    if (const auto* answer = (context.of(i).*question).answer())
      add_kernels(short_name(context.session(), context.session().models[i]), answer->result,
                  kernels);
  return kernel_words(std::move(kernels));
}

// A key that differs whenever a model is named otherwise.
inline std::string names_key(const ViewContext& context) {
  std::string key;
  for (const std::string& model : context.session().models)
    key += short_name(context.session(), model) + "/";
  return key;
}

// The same for one question of every open model.
template <class T>
std::string answers_key(const ViewContext& context, QuestionOf<T> ModelQuestions::*question) {
  std::string key;
  for (std::size_t i = 0; i < context.models(); ++i)
    key += serials_of((context.of(i).*question).answer());
  return key;
}

}  // namespace phasescope::app
