#pragma once
// A view of a question that takes long: the fields of its request as a form, what it will take, a
// button that asks it, and the tables and figures of its verb. The answers are kept with their
// questions; what was answered before is dimmed while another question stands in the form.
//
// A view of one: a state and an Asks constant in its header, and a class derived from
// QuestionView<Request, Result> that says what it asks of a text and how its answers are shown.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "app/outputs/question_output.h"
#include "app/views/controls_room.h"
#include "app/views/field_form.h"
#include "app/views/output_tables.h"
#include "app/views/view.h"
#include "protocol/error_info.h"
#include "protocol/messages/questions.h"
#include "protocol/shell_word.h"
#include "widgets/theme.h"

namespace phasescope::app {

// What the session keeps of such a view.
struct QuestionForm {
  // What the form has that is not the request's default; without models, heads and the text.
  nlohmann::json params = nlohmann::json::object();
  std::string heads = "all heads";  // or those of the selection: "layer", "head"
  std::string reads = "corpus";     // or "text": the session's own
  std::string of, figure;  // whose figures, and the title of one; empty: what the selection says
  template <class V>
  void fields(V& v) {
    v("params", params), v("heads", heads), v("reads", reads), v("of", of), v("figure", figure);
  }
};
template <class Request>
struct QuestionState : QuestionForm {
  static constexpr const char* kView = Request::verb;
};

// What a question of one model will take: passes over texts of so many tokens.
struct Expected {
  double passes = 0;
  std::int64_t texts = 0, tokens = 0;
  double seconds = 0;  // by what the last one took; 0 where that is not known
  bool at_least = false;
};
std::string words_of(const Expected& expected);
// How many of the texts "a:b:step" names; 0 where that is no such range.
std::int64_t texts_in(const std::string& range);

// The command line of one model's question with further models behind it.
std::string with_models(const std::string& command, const std::string& verb,
                        const std::vector<std::string>& models);

// The text of questions that read none: one, so that they are alike.
const SharedText& no_text_asked();

// What is shown of answers: of all models together, then of each.
struct ShownGroup {
  std::string name;
  Output output;
};

// What does not depend on the request.
class AnyQuestionView : public View {
 public:
  bool has_figures() const override { return true; }

 protected:
  // The end of the id of the figure that shows the selection; empty where all do.
  virtual std::string figure_of_selection(const Selection&) const { return ""; }
  // Width over height, where a figure has a shape of its own; 0: as there is room.
  virtual float shape_of_figures() const { return 0; }
  // The choices of groups and figures; true where one was changed.
  bool draw_figure_choice(const std::vector<ShownGroup>& groups, QuestionForm& form);
  void draw_shown(ViewContext& context, const std::vector<ShownGroup>& groups,
                  const QuestionForm& form, std::uint64_t version, bool old);

 private:
  std::vector<const widgets::PlotSpec*> figures_shown(const Session& session, const Output& output,
                                                      const QuestionForm& form) const;
  void draw_plot_of(ViewContext& context, const Output& output, const QuestionForm& form,
                    std::uint64_t version);
  OutputTables tables_;
  FigureTextures textures_;
};

// Whether a row of a table is of the selected head, and the head that it is of.
bool is_of_selection(const Session& session, const nlohmann::json& row);
void select_row(ViewContext& context, const nlohmann::json& row);

template <class Request, class Result, class StateType = QuestionState<Request>>
class QuestionView : public AnyQuestionView {
 public:
  using State = StateType;

  std::string id() const override { return State::kView; }
  void add_commands(std::vector<Command>& list) const override {
    auto* self =
        const_cast<QuestionView*>(this);  // a command asks, which the view keeps account of
    list.push_back({id() + ".run", "Run: " + title(), "Ask the question of every open model", 0,
                    [self](ViewContext& context) { self->run(context); }});
  }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override {
    std::vector<Asked> all;
    if (context.models_known()) {
      for (std::size_t i = 0; i < context.models(); ++i) {
        if (is_asked(context, i)) all.push_back(asked_now(context, i));
      }
    }
    return command_of_all(all);
  }
  // Asks it of every open model, as the form says.
  void run(ViewContext& context);

 protected:
  virtual const Asks<Result>& asks() const = 0;
  // What stands in the view before anything was asked.
  virtual std::string what_it_shows() const = 0;
  // Forward passes over a text, a backward one being two.
  virtual double passes_of_a_text(const Request& request,
                                  const protocol::LoadReport& model) const = 0;
  // Tokens that are read of a text where the form does not say.
  virtual std::int64_t tokens_of_a_text(const Request&, const protocol::LoadReport& model) const {
    return model.model.context;
  }
  // How many passes there will be depends on what they find.
  virtual bool may_take_longer(const Request&) const { return false; }
  // Whether the question is quick, and asked whenever the selection changes.
  virtual bool instant(const QuestionForm&) const { return false; }
  // Whether one command, one table and one figure hold the answers of several models.
  virtual bool joins(const Request&) const { return true; }
  // Why it cannot be asked of the i-th model; empty where it can.
  virtual std::string obstacle(const ViewContext&, std::size_t) const { return ""; }
  // Whether it is asked of the i-th model at all.
  virtual bool concerns(const ViewContext&, std::size_t) const { return true; }
  // The model that is asked about where this one is looked at.
  virtual std::string model_asked(const std::string& model) const { return model; }
  // Controls of its own between the form and the button.
  virtual void draw_more(ViewContext&) {}
  // What of the selection is asked for, beside the heads.
  virtual void add_selection(Request&, const Session&) const {}
  // Keys of the form that the selection gives.
  virtual std::vector<std::string> given_by_selection() const { return {}; }

 private:
  using KeptAnswer = std::shared_ptr<const Answer<Result>>;
  static constexpr std::size_t kKept = 48;  // answers, of all models

  static constexpr bool kReads = requires(Request r) { r.reading.input; };
  static constexpr bool kReadsMany = requires(Request r) { r.reading.texts; };

  static Request request_in(const QuestionForm& form);
  static bool reads_own_text(const QuestionForm& form) {
    return kReads && (!kReadsMany || form.reads == "text");
  }
  bool is_asked(const ViewContext& context, std::size_t index) const {
    return concerns(context, index) && obstacle(context, index).empty();
  }
  Request request_now(const ViewContext& context, std::size_t index) const;
  // Null params where the form's fields mean nothing together; fault() says why.
  Asked asked_now(const ViewContext& context, std::size_t index) const;
  std::string fault(const ViewContext& context) const;
  std::string command_of_all(const std::vector<Asked>& asked) const;
  Expected expected(const ViewContext& context, std::size_t index) const;
  void keep_answers(ViewContext& context);
  ShownAnswers<Result> shown(const ViewContext& context) const;
  std::vector<ShownGroup> groups_of(const ViewContext& context,
                                    const ShownAnswers<Result>& answers) const;
  void draw_controls(ViewContext& context);
  bool draw_form(QuestionForm& form);
  void draw_run(ViewContext& context);
  void draw_nothing_yet(ViewContext& context);

  OptionsForm options_;
  std::vector<KeptAnswer> kept_;  // oldest first
  Cached<std::vector<ShownGroup>> groups_;
  struct Timing {
    std::uint64_t ends = 0;
    std::chrono::steady_clock::time_point begun;
    bool running = false;
  };
  std::map<std::string, Timing> timings_;  // by model
  double seconds_a_token_ = 0;             // of one pass; 0 before the first answer
};

// ---- what follows is of the template ------------------------------------------------------------

template <class Request, class Result, class StateType>
Request QuestionView<Request, Result, StateType>::request_in(const QuestionForm& form) {
  return with_choices(Request{}, form.params);
}

template <class Request, class Result, class StateType>
Request QuestionView<Request, Result, StateType>::request_now(const ViewContext& context,
                                                              std::size_t index) const {
  const auto form = context.state<State>();
  const Session& session = context.session();
  Request request = request_in(form);
  request.model = session.models[index];
  if constexpr (kReads) {
    if (reads_own_text(form)) {
      const std::int64_t length = request.reading.length;
      set_text(request.reading, context.text_for(request.model));
      if (length > 0) request.reading.length = length;
      if constexpr (kReadsMany) {
        request.reading.texts = Request{}.reading.texts, request.reading.corpus = {};
      }
    }
  }
  if constexpr (requires { request.chosen.layers; }) {
    const Selection& at = session.selection;
    if (form.heads != "all heads") request.chosen.layers = {at.layer};
    if (form.heads == "head" && at.head >= 0) request.chosen.heads = {at.head};
  }
  add_selection(request, session);
  context.requests.computing().put(request);
  return request;
}

template <class Request, class Result, class StateType>
Asked QuestionView<Request, Result, StateType>::asked_now(const ViewContext& context,
                                                          std::size_t index) const {
  nlohmann::json params;
  try {
    params = protocol::params_of(request_now(context, index));
  } catch (const protocol::RequestError&) {  // fields that mean nothing together
    return {};
  }
  const bool reads = params.contains("input");
  return {std::move(params),
          reads ? context.text_for(context.session().models[index]).words : no_text_asked()};
}

template <class Request, class Result, class StateType>
std::string QuestionView<Request, Result, StateType>::fault(const ViewContext& context) const {
  if (context.models() == 0) return "";
  try {
    protocol::params_of(request_now(context, 0));
    return "";
  } catch (const protocol::RequestError& error) {
    return error.info().message;
  }
}

// Whether an answer is to just this question; texts count where the question reads one.
inline bool is_answer_to(const Asked& answered, const Asked& asked) {
  return answered.params == asked.params &&
         (!asked.params.contains("input") || answered.text.serial() == asked.text.serial());
}

template <class Request, class Result, class StateType>
std::string QuestionView<Request, Result, StateType>::command_of_all(
    const std::vector<Asked>& asked) const {
  if (asked.empty() || !asked.front().params.is_object()) return "";
  const bool one =
      std::ranges::all_of(asked, [&](const Asked& other) { return alike(asked.front(), other); });
  if (!one || !joins(protocol::request_of<Request>(asked.front().params))) {
    return command_of<Request>(asked);
  }
  std::vector<std::string> models;
  for (const Asked& each : asked) models.push_back(each.params.value("model", ""));
  return with_models(command_of<Request>({asked.front()}), Request::verb, models);
}

template <class Request, class Result, class StateType>
void QuestionView<Request, Result, StateType>::run(ViewContext& context) {
  if (!context.window.may_ask || !context.models_known()) return;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (!is_asked(context, i)) continue;
    const Asked asked = asked_now(context, i);
    if (!asked.params.is_object()) return;
    const bool known = std::ranges::any_of(
        kept_, [&](const KeptAnswer& answer) { return is_answer_to(answer->asked, asked); });
    if (known) continue;
    Question& question = context.of(asks(), i);
    if (question.failed()) question.reset();
    context.requests.ask(question, protocol::request_of<Request>(asked.params), asked.text);
  }
}

// What was asked is asked again where a worker died on it; the rest waits for the button.
template <class Request, class Result, class StateType>
void QuestionView<Request, Result, StateType>::ask(ViewContext& context) {
  if (instant(context.state<State>())) return run(context);
  for (std::size_t i = 0; i < context.models(); ++i) {
    Question& question = context.of(asks(), i);
    const Asked asked = question.asked();
    if (asked.params.is_null() || question.busy().state != widgets::BusyState::idle) continue;
    context.requests.ask(question, protocol::request_of<Request>(asked.params), asked.text);
  }
}

template <class Request, class Result, class StateType>
void QuestionView<Request, Result, StateType>::keep_answers(ViewContext& context) {
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto& question = context.of(asks(), i);
    Timing& timing = timings_[context.session().models[i]];
    if (question.waiting() && question.begun() && !timing.running) {
      timing.running = true, timing.begun = now;
    }
    const auto* answer = question.answer();
    const bool there = answer && std::ranges::any_of(kept_, [&](const KeptAnswer& kept) {
                         return kept->serial == answer->serial;
                       });
    if (!answer || there) continue;
    std::erase_if(kept_,
                  [&](const KeptAnswer& kept) { return is_answer_to(kept->asked, answer->asked); });
    kept_.push_back(std::make_shared<const Answer<Result>>(*answer));
    if (kept_.size() > kKept) kept_.erase(kept_.begin());
    if (std::exchange(timing.running, false)) {
      const Expected took = expected(context, i);
      const double tokens = took.passes * static_cast<double>(took.texts * took.tokens);
      const double seconds = std::chrono::duration<double>(now - timing.begun).count();
      if (tokens > 0) seconds_a_token_ = seconds / tokens;
    }
  }
}

// The answers to what the form asks; before there is any, what was answered last.
template <class Request, class Result, class StateType>
ShownAnswers<Result> QuestionView<Request, Result, StateType>::shown(
    const ViewContext& context) const {
  ShownAnswers<Result> shown;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (!is_asked(context, i)) continue;
    const Asked asked = asked_now(context, i);
    for (const KeptAnswer& answer : kept_) {
      if (is_answer_to(answer->asked, asked)) shown.list.push_back(answer.get());
    }
  }
  if (!shown.empty()) return shown;
  shown.old = true;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (!concerns(context, i)) continue;
    const std::string model = model_asked(context.session().models[i]);
    for (const KeptAnswer& answer : kept_ | std::views::reverse) {
      if (answer->asked.params.value("model", "") != model) continue;
      if (shown.empty() || alike(shown.list.front()->asked, answer->asked)) {
        shown.list.push_back(answer.get());
        break;
      }
    }
  }
  return shown;
}

template <class Request, class Result, class StateType>
WhatRan QuestionView<Request, Result, StateType>::kernels(const ViewContext& context) const {
  std::vector<ModelRan> models;
  for (const Answer<Result>* answer : shown(context).list) {
    for (const protocol::Provenance& made : protocol::provenances(answer->result)) {
      models.push_back({short_name(context.session(), answer->result.model), what_ran(made)});
    }
  }
  return what_ran(std::move(models));
}

template <class Request, class Result, class StateType>
std::vector<ShownGroup> QuestionView<Request, Result, StateType>::groups_of(
    const ViewContext& context, const ShownAnswers<Result>& answers) const {
  const ModelNames names = names_of(context.session());
  std::vector<Answered<Result>> all;
  for (const Answer<Result>* answer : answers.list) {
    all.push_back({answer->result, protocol::to_json_form(answer->result), answer->tensors});
  }
  std::vector<ShownGroup> groups;
  if (all.size() > 1) groups.push_back({"all models", question_output(all, names)});
  for (const Answered<Result>& one : all) {
    groups.push_back({names.short_name(one.result.model), question_output({one}, names)});
  }
  return groups;
}

template <class Request, class Result, class StateType>
std::vector<Saved> QuestionView<Request, Result, StateType>::saved(ViewContext& context) {
  keep_answers(context);
  const ShownAnswers<Result> answers = shown(context);
  if (answers.empty()) return {};
  std::vector<ShownGroup> groups = groups_of(context, answers);
  std::vector<Saved> all;
  const bool joined =
      groups.size() > 1 && joins(protocol::request_of<Request>(answers.list.front()->asked.params));
  for (std::size_t n = 0; n < groups.size(); ++n) {
    const bool of_all = groups.size() > 1 && n == 0;
    if (of_all && !joined) continue;
    const std::size_t own = groups.size() > 1 ? n - 1 : n;
    all.push_back(
        {of_all || groups.size() == 1
             ? ""
             : names_of(context.session()).file_name(answers.list[own]->result.model),
         std::move(groups[n].output),
         of_all ? command_of_all(answers.asked()) : command_of_all({answers.list[own]->asked})});
  }
  return all;
}

template <class Request, class Result, class StateType>
Expected QuestionView<Request, Result, StateType>::expected(const ViewContext& context,
                                                            std::size_t index) const {
  const auto* report = context.info(context.session().models[index]);
  if (!report) return {};
  const Request request = request_now(context, index);
  Expected all{.passes = passes_of_a_text(request, *report),
               .texts = 1,
               .tokens = tokens_of_a_text(request, *report),
               .at_least = may_take_longer(request)};
  if constexpr (kReadsMany) {
    if (!reads_own_text(context.state<State>())) all.texts = texts_in(request.reading.texts);
  }
  if constexpr (kReads) {
    if (request.reading.length > 0) all.tokens = request.reading.length;
  }
  all.seconds = seconds_a_token_ * all.passes * static_cast<double>(all.texts * all.tokens);
  return all;
}

template <class Request, class Result, class StateType>
bool QuestionView<Request, Result, StateType>::draw_form(QuestionForm& form) {
  std::set<std::string> hidden{"set", "device", "threads", "layers", "heads"};
  for (const std::string& key : given_by_selection()) hidden.insert(key);
  if (reads_own_text(form)) hidden.insert({"corpus", "texts"});
  return options_.draw<Request>(form.params, nlohmann::json::object(), hidden);
}

template <class Request, class Result, class StateType>
void QuestionView<Request, Result, StateType>::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto form = context.state<State>();
  bool changed = draw_form(form);
  if constexpr (requires(Request r) { r.chosen.layers; }) {
    next_control(choice_width({"all heads"}));
    changed |= draw_choice("##heads", form.heads, {"all heads", "layer", "head"});
    tooltip("Of which heads it is asked: all, those of the selected layer, the selected one");
  }
  if constexpr (kReadsMany) {
    next_control(choice_width({"corpus"}));
    changed |= draw_choice("##reads", form.reads, {"corpus", "text"});
    tooltip(
        "What is read: texts of a corpus, the bundled validation texts unless one is named, or "
        "the text of the window alone");
  }
  if (changed) context.set_state("Change the question", form);
  draw_more(context);
  if (!instant(form)) {
    next_control(button_width("Run"));
    draw_run(context);
  }
  draw_tools(context);
}

template <class Request, class Result, class StateType>
void QuestionView<Request, Result, StateType>::draw_run(ViewContext& context) {
  const bool known = context.models() > 0 && context.models_known();
  std::size_t asked = 0;
  std::string words;
  for (std::size_t i = 0; known && i < context.models(); ++i) {
    if (!is_asked(context, i)) continue;
    ++asked;
    words += short_name(context.session(), context.session().models[i]) + ": " +
             words_of(expected(context, i)) + "\n";
  }
  const ShownAnswers<Result> answers = shown(context);
  const bool answered = !answers.old && answers.list.size() >= asked;
  ImGui::BeginDisabled(asked == 0 || answered);
  if (ImGui::Button("Run")) run(context);
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled)) {
    ImGui::SetTooltip("%s", answered ? "It is answered" : words.c_str());
  }
}

template <class Request, class Result, class StateType>
void QuestionView<Request, Result, StateType>::draw_nothing_yet(ViewContext& context) {
  std::string words = what_it_shows();
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (!is_asked(context, i)) continue;
    if (context.of(asks(), i).waiting()) return;
    if (instant(context.state<State>()) || !context.info(context.session().models[i])) break;
    words += " Run asks it of every open model: " + words_of(expected(context, i)) + ".";
    break;
  }
  widgets::draw_empty(words);
}

template <class Request, class Result, class StateType>
void QuestionView<Request, Result, StateType>::draw_content(ViewContext& context) {
  keep_answers(context);
  draw_controls(context);
  if (const std::string wrong = fault(context); !wrong.empty()) {
    ImGui::TextColored(widgets::palette().bad, "%s", wrong.c_str());
  }
  if (context.models() == 0) {
    return widgets::draw_empty(what_it_shows() + "\n\nTick models to ask it of them.");
  }
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (!concerns(context, i)) continue;
    const std::string why = obstacle(context, i);
    if (why.empty()) {
      draw_question(context, context.of(asks(), i),
                    short_name(context.session(), context.session().models[i]));
    } else {
      ImGui::TextWrapped("%s", why.c_str());
    }
  }
  const ShownAnswers<Result> answers = shown(context);
  if (answers.empty()) return draw_nothing_yet(context);
  const auto& groups =
      groups_.get(answers.key(context), [&] { return groups_of(context, answers); });
  auto form = context.state<State>();
  if (draw_figure_choice(groups, form)) context.set_state("Show another figure", form, id());
  draw_shown(context, groups, form, groups_.version(), answers.old);
}

}  // namespace phasescope::app
