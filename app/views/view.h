#pragma once
// A view of the window. To add one: a pair app/views/NAME_view.{h,cpp} with a class derived from
// View, its line in views.cpp and its line in app/CMakeLists.txt. What it shows is a state of its
// own (window/view_states.h), what it asks an Asks constant (window/worker_requests.h), its place
// slot(). tests/app/window_views_test.cpp draws all that views.cpp lists empty, busy, failed and
// full.
#include <imgui.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/window/commands.h"
#include "app/window/saved.h"
#include "app/window/session_requests.h"
#include "protocol/messages/provenance.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// Where a view stands in the default layout; several in one slot are tabs, the first one of
// views.cpp in front.
enum class Slot { left_top, left_bottom, middle, middle_bottom, right, right_bottom };

// The limits of a figure that was zoomed or moved by hand.
struct FigureLimits {
  widgets::AxisLink x, y;
  template <class V>
  void fields(V& v) {
    v("x_low", x.low), v("x_high", x.high), v("y_low", y.low), v("y_high", y.high);
  }
  bool operator==(const FigureLimits&) const = default;
};
// Of all views, by the view, the figure and what its axes are of.
struct FiguresState {
  static constexpr const char* kView = "figures";
  std::map<std::string, FigureLimits> zoomed;
  template <class V>
  void fields(V& v) {
    v("zoomed", zoomed);
  }
};

// What ran attention, in words; none where nothing did.
struct WhatRan {
  std::string words;
  bool fell_back = false;  // something ran plain for want of a fused form
  bool operator==(const WhatRan&) const = default;
};
WhatRan what_ran(const protocol::Provenance& made);

class View {
 public:
  virtual ~View() = default;
  virtual std::string id() const = 0;     // "heads": names it in sessions and commands
  virtual std::string title() const = 0;  // on its tab
  virtual std::string help_text() const = 0;
  virtual Slot slot() const = 0;
  // Commands of its own, for palette and menu.
  virtual void add_commands(std::vector<Command>&) const {}
  // What it finds of the words that are typed into the palette.
  virtual void add_found(const ViewContext&, const std::string& /*words*/,
                         std::vector<Command>&) const {}

  // Forgets what was made of the answers of models that are closed, whether it is seen or not.
  virtual void drop_closed(const Session&) {}
  // Sends the questions whose answers are shown. Called while the view is visible, whenever the
  // session has changed; asking again for what is known costs nothing.
  virtual void ask(ViewContext&) {}
  virtual void draw_content(ViewContext& context) = 0;
  // The figures as they are now; empty where there are none.
  virtual std::vector<Saved> saved(ViewContext&) { return {}; }
  virtual bool has_figures() const { return true; }
  // Its questions are about the open models, and wait until those are known.
  virtual bool about_models() const { return true; }
  // Whether it can ask by now: what is asked of a model follows from its shape and its tokenizer.
  virtual bool ready(const ViewContext& context) const {
    return !about_models() || context.models_known();
  }
  // How often a view that asks again by itself needs a frame for that while it is seen; infinite:
  // it does not ask by itself.
  virtual double seconds_between_polls() const { return std::numeric_limits<double>::infinity(); }
  // What ran attention for the answers shown, as kernels_of() says it; empty where the view says so
  // in a place of its own.
  virtual WhatRan kernels(const ViewContext&) const { return {}; }
  // The command line that gives what is asked for now; empty where there is none.
  virtual std::string command_line(const ViewContext&) const { return ""; }

  // The window around it: asks, draws the content, marks the view as closed when its tab is closed.
  void draw(ViewContext& context);
  // What ran attention, "Save", "Command", "?" at the right end of the present line. What ran plain
  // for want of a fused form is said in any case, if need be below it. Models that are being opened
  // are told of under the whole bar, which stays where it is meanwhile: where it goes on in further
  // lines, the view calls draw_openings() after them.
  enum class Bar { ends, goes_on };
  void draw_tools(ViewContext& context, Bar bar = Bar::ends);
  void draw_openings(ViewContext& context);
  // A figure in its place, linked with all views: what the pointer is at anywhere is marked in it,
  // its values are said at the pointer, a click selects what its axes are of, and the right button
  // has the menu of figures. Views draw figures with this alone. The map's click on a pair is the
  // caller's. `model`: the session's model whose tokens its places are of, where it is of one: then
  // a token of another model is marked where that has the same one. How it is zoomed is kept in the
  // session and undone, but for axes that the caller links.
  widgets::PlotDrawn draw_figure(ViewContext& context, const widgets::PlotSpec& plot,
                                 widgets::PlotDraw options = {},
                                 std::optional<std::size_t> model = {});
  // Items of a context menu in the view: save, copy the picture, copy the command.
  void draw_menu_items(ViewContext& context);
  bool visible() const { return visible_; }
  // The frame in which it had the focus last; 0: never.
  int last_focused() const { return last_focused_; }
  // The keys are for its next figure from the next frame on, after its last one for its first.
  void focus_next_figure();
  // It is drawn no more until show_view().
  void close(ViewContext& context) const;
  // Asks where and how its figures are to be saved.
  void save(ViewContext& context);
  // The tab's name for Dear ImGui: shown title and stable id.
  std::string window_name() const { return title() + "###" + id(); }

 private:
  void copy_picture(ViewContext& context);
  void copy_command(ViewContext& context);
  void draw_tool_menu(ViewContext& context);
  void draw_tool_words(ViewContext& context);
  void draw_command_tools(ViewContext& context, bool folded);
  void ask_what_changed(ViewContext& context);
  std::optional<FigureLimits> limits_of(const ViewContext& context, const std::string& key,
                                        const widgets::PlotSpec& plot) const;
  void keep_limits(ViewContext& context, const std::string& key, ImGuiID figure,
                   const widgets::PlotDrawn& drawn, bool linked);
  widgets::PlotDrawn draw_in_turn(const widgets::PlotSpec& plot, widgets::PlotDraw& options);

  bool visible_ = false;
  int last_focused_ = 0;
  // Of its figures in the order in which they are drawn: in this frame, in the one before, which of
  // them has the focus and which one is to take it.
  std::size_t figures_drawn_ = 0, figures_seen_ = 0;
  std::optional<std::size_t> focused_figure_, next_figure_;
  std::uint64_t asked_revision_ = 0, asked_generation_ = 0;
  std::string hovered_command_;  // as its tooltip has it, of this state of session and answers
  std::pair<std::uint64_t, std::uint64_t> hovered_state_;
  // Of figures on the screen: as they were in the frame before, and while they are being moved.
  std::map<ImGuiID, FigureLimits> seen_limits_, moving_limits_;
};

// --- pieces that several views use ------------------------------------------------------------

// Progress or failure of a question, with its button; nothing when there is nothing to say. True
// where it was cancelled.
bool draw_question(ViewContext& context, Question& question, const std::string& who);

// Puts the next control on the present line where so many pixels are left on it, else on the next.
void next_control(float width);
// Makes it so many letters wide, but never so wide that its end, as the arrow of a choice, is out
// of sight: in a view, whose width is known, and not in a popup.
void width_of_next(float letters);
// What a choice among words, a button and a checkbox take of the line.
float choice_width(const std::vector<std::string>& words);
float button_width(const char* label);
float checkbox_width(const char* label);
// What a choice is called where nobody made one, and the button that goes back to that.
inline constexpr const char *kAutomatic = "automatic", *kReset = "Reset";
// A labelled choice among words; returns true when another one was taken.
bool draw_choice(const char* label, std::string& value, const std::vector<std::string>& words,
                 float width = 0);
// A labelled choice among keys, each shown as `words_of` has it.
using WordsOf = std::function<std::string(const std::string& key)>;
bool draw_named_choice(const char* label, std::string& value, const std::vector<std::string>& keys,
                       const WordsOf& words_of, float width = 0);
// "bits per byte" for "bits_per_byte".
std::string words_of_key(std::string key);
// What a worker says, with the short names of the open models in place of their paths.
std::string with_short_names(const Session& session, std::string words);
// The colour of the session's i-th model as a small square, then its short name; the whole on
// hover.
void draw_model_name(const Session& session, std::size_t index);
float model_name_width(const Session& session, std::size_t index);
// Shown on hover of the last item.
void tooltip(const std::string& words);
// One line, which ends in an ellipsis where it has no room and is said in full on hover.
void draw_cut_line(const std::string& words, const ImVec4& color);
// Takes all but the open models out of a map by models.
template <class T>
void keep_open(const Session& session, std::map<std::string, T>& by_model) {
  std::erase_if(by_model, [&](const auto& one) {
    return std::ranges::find(session.models, one.first) == session.models.end();
  });
}
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
  // What was made last; as T is by default before, when the version is 0.
  const T& value() const { return value_; }
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
struct ModelRan {
  std::string model;
  WhatRan ran;
};
// "fused cpu avx3", or "A: fused cpu avx3; B: plain (why)" where they differ.
WhatRan what_ran(std::vector<ModelRan> models);
// Its colour: that of warnings for a fallback.
const ImVec4& kernel_color(const WhatRan& ran);

// A key that differs whenever a model is named or coloured otherwise.
inline std::string names_key(const ViewContext& context) {
  const ModelNames names = names_of(context.session());
  std::string key;
  for (const std::string& model : context.session().models) {
    key += names.short_name(model) + "." + std::to_string(names.color(model)) + "/";
  }
  return key;
}

// The answers of a view that may stand in one figure, in one table and in one file.
template <class T>
struct ShownAnswers {
  std::vector<const Answer<T>*> list;  // in the order of the models, of those that have one
  // Whether all of these answers are to what was asked before, and none to what is asked now.
  bool old = false;

  bool empty() const { return list.empty(); }
  std::string key(const ViewContext& context) const {
    std::string key = names_key(context);
    for (const Answer<T>* answer : list) key += serials_of(answer);
    return key;
  }
  std::vector<Asked> asked() const {
    std::vector<Asked> all;
    for (const Answer<T>* answer : list) all.push_back(answer->asked);
    return all;
  }
};

// The answers to what is asked now; before there is any, older ones to a question of its kind.
template <class T>
ShownAnswers<T> shown_answers(const ViewContext& context, const Asks<T>& asks) {
  ShownAnswers<T> shown;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (const auto& question = context.of(asks, i); question.answers_now()) {
      shown.list.push_back(question.answer());
    }
  }
  if (!shown.empty()) return shown;
  shown.old = true;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (const auto* answer = context.of(asks, i).answer()) {
      if (shown.empty() || alike(shown.list.front()->asked, answer->asked)) {
        shown.list.push_back(answer);
      }
    }
  }
  return shown;
}

// What was asked last of every open model.
template <class T>
std::vector<Asked> asked_of_all(const ViewContext& context, const Asks<T>& asks) {
  std::vector<Asked> all;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (const Asked& asked = context.of(asks, i).asked(); !asked.params.is_null()) {
      all.push_back(asked);
    }
  }
  return all;
}

// Progress and failures of a view's question about every open model, each in a line. Where many
// wait they share one, whose Cancel is that of all of them.
void draw_questions(ViewContext& context, const std::vector<Question*>& of_models);
template <class T>
void draw_questions(ViewContext& context, const Asks<T>& asks) {
  std::vector<Question*> of_models;
  for (std::size_t i = 0; i < context.models(); ++i) of_models.push_back(&context.of(asks, i));
  draw_questions(context, of_models);
}

// What ran attention for the answers shown.
template <class T>
WhatRan kernels_of(const ViewContext& context, const Asks<T>& asks) {
  std::vector<ModelRan> models;
  for (const Answer<T>* answer : shown_answers(context, asks).list) {
    for (const protocol::Provenance& made : protocol::provenances(answer->result)) {
      const std::string model = made.models.empty() ? "" : made.models.front();
      models.push_back({short_name(context.session(), model), what_ran(made)});
    }
  }
  return what_ran(std::move(models));
}

// While it lives, what is drawn in the present ImGui window is drawn as what it is: not yet, or no
// more, what was asked for.
class Dimmed {
 public:
  explicit Dimmed(bool old);
  ~Dimmed();
  Dimmed(const Dimmed&) = delete;
  Dimmed& operator=(const Dimmed&) = delete;

 private:
  bool old_;
};

}  // namespace phasescope::app
