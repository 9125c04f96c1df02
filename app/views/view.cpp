#include "app/views/view.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "app/views/text_view.h"
#include "app/window/copy_picture.h"
#include "app/window/export_dialog.h"
#include "protocol/error_info.h"
#include "widgets/busy.h"
#include "widgets/scaled.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

constexpr float kLinkPadding = 4;

// A word that acts like a link.
bool link(const char* word) {
  ImGui::PushStyleColor(ImGuiCol_Button, ImVec4(0, 0, 0, 0));
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding,
                      {widgets::scaled(kLinkPadding), ImGui::GetStyle().FramePadding.y});
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, 0);
  const bool pressed = ImGui::Button(word);
  ImGui::PopStyleVar(2);
  ImGui::PopStyleColor();
  return pressed;
}

// From so many models on: a bar each would leave no room for what is there already.
constexpr std::size_t kSharing = 3;

float link_width(const char* word) {
  return ImGui::CalcTextSize(word).x + 2 * widgets::scaled(kLinkPadding);
}

bool is_about(const Question& question, const std::string& model) {
  const nlohmann::json& params = question.asked().params;
  if (!params.is_object()) return false;
  if (params.contains("model")) return params["model"] == model;
  const auto models = params.find("models");
  return models != params.end() && models->is_array() &&
         std::ranges::find(*models, nlohmann::json(model)) != models->end();
}

// The model that a question failed for because it could not be opened; empty where it failed for
// something else. That a model's own question says in full.
std::string unopened_model(const ViewContext& context, const Question& question) {
  for (std::size_t i = 0; i < context.models(); ++i) {
    const Question& info = context.of(kInfo, i);
    const std::string& model = context.session().models[i];
    const bool same = info.failed() && &info != &question && is_about(question, model) &&
                      info.error().message == question.error().message &&
                      info.error().where == question.error().where;
    if (same) return model;
  }
  return "";
}

// In one line: a reason that stood in every view would leave no room for the other models.
void draw_unopened(ViewContext& context, const std::string& model, const std::string& why) {
  const std::string words =
      short_name(context.session(), model) + " could not be opened: Models says why";
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size =
      ImGui::CalcTextSize(words.c_str(), nullptr, false, ImGui::GetContentRegionAvail().x);
  ImGui::PushID(model.c_str());
  const bool pressed = ImGui::InvisibleButton("##why", size, ImGuiButtonFlags_EnableNav);
  ImGui::PopID();
  tooltip(why);
  ImGui::SetCursorScreenPos(at);
  ImGui::PushStyleColor(ImGuiCol_Text, widgets::palette().quiet);
  ImGui::TextWrapped("%s", words.c_str());
  ImGui::PopStyleColor();
  if (pressed) show_view(context, "models");
}

}  // namespace

void View::draw(ViewContext& context) {
  drop_closed(context.session());
  bool open = true;
  const ImGuiWindowFlags flags = ImGuiWindowFlags_NoCollapse;
  visible_ = ImGui::Begin(window_name().c_str(), &open, flags);
  if (visible_) {
    ask_what_changed(context);
    figures_drawn_ = 0, focused_figure_.reset();
    if (ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows)) {
      last_focused_ = ImGui::GetFrameCount();
    }
    draw_content(context);
    figures_seen_ = figures_drawn_, next_figure_.reset();
  }
  ImGui::End();
  if (!open) close(context);
}

void View::close(ViewContext& context) const {
  context.edit.apply("Close " + title(), [&](Session& s) { s.closed_views.push_back(id()); });
}

void View::ask_what_changed(ViewContext& context) {
  if (!context.window.may_ask) return;
  const bool changed = context.edit.revision() != asked_revision_ ||
                       context.requests.generation() != asked_generation_;
  if (!changed) return;
  asked_generation_ = context.requests.generation();  // which grows when the last model is known
  const bool can_ask = ready(context);
  if (can_ask && about_models()) fit_selection(context);
  asked_revision_ = context.edit.revision();
  if (can_ask) ask(context);
}

void View::draw_openings(ViewContext& context) {
  if (!about_models()) return;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (auto& info = context.of(kInfo, i); info.waiting() && !info.answer()) {
      draw_question(context, info, short_name(context.session(), context.session().models[i]));
    }
  }
}

void View::copy_command(ViewContext& context) {
  const std::string command = command_line(context);
  if (command.empty()) return context.window.say("There is no command yet");
  if (context.window.copy) context.window.copy(command);
  context.window.say("Copied: " + command);
}

// Where the line is full the tools fold into a menu.
void View::draw_tool_menu(ViewContext& context) {
  if (link("...")) ImGui::OpenPopup("tools");
  if (!ImGui::BeginPopup("tools")) return;
  draw_menu_items(context);
  ImGui::EndPopup();
}

void View::draw_command_tools(ViewContext& context, bool folded) {
  if (folded) {
    draw_tool_menu(context);
    ImGui::SameLine(0, 0);
    return;
  }
  if (has_figures()) {
    if (link("Save")) save(context);
    tooltip("Save these figures as SVG, PDF, PNG, CSV, JSON or NPY");
    ImGui::SameLine(0, 0);
  }
  if (link("Command")) copy_command(context);
  // A long typed text is part of the line: it is made on hover alone, and not in every frame.
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip)) {
    const auto state = std::pair(context.edit.revision(), context.requests.ends());
    if (std::exchange(hovered_state_, state) != state) {
      hovered_command_ = shortened(command_line(context), "a click copies all of it");
    }
    tooltip("Copy the command line that gives the same:\n" + hovered_command_);
  }
  ImGui::SameLine(0, 0);
}

void View::draw_menu_items(ViewContext& context) {
  if (has_figures() && ImGui::MenuItem("Save these figures...")) save(context);
  if (has_figures() && ImGui::MenuItem("Copy the picture")) copy_picture(context);
  if (ImGui::MenuItem("Copy the command")) copy_command(context);
}

// Nothing where the figure is fitted to its data: where nobody zoomed it, and where none of what it
// has now is within the limits that others were zoomed to.
std::optional<FigureLimits> View::limits_of(const ViewContext& context, const std::string& key,
                                            const widgets::PlotSpec& plot) const {
  const auto moving = moving_limits_.find(ImGui::GetID(plot.id.c_str()));
  if (moving != moving_limits_.end()) return moving->second;
  const auto zoomed = context.state<FiguresState>().zoomed;
  const auto found = zoomed.find(key);
  if (found == zoomed.end()) return std::nullopt;
  const auto shows = [](const widgets::AxisLink& limits, const widgets::ValueRange& data,
                        widgets::Scale scale) {
    const bool an_axis = limits.low < limits.high && std::isfinite(limits.high - limits.low) &&
                         (scale != widgets::Scale::log10 || limits.low > 0);
    return an_axis && limits.low < data.high && limits.high > data.low;
  };
  const widgets::AxisRanges data = widgets::axis_ranges(plot, 1, 1);
  const FigureLimits& limits = found->second;
  if (!shows(limits.x, data.x, plot.x.scale) || !shows(limits.y, data.y, plot.y.scale)) {
    return std::nullopt;
  }
  return limits;
}

// What the wheel, a drag or keys have moved is a step of undo once the hand rests.
void View::keep_limits(ViewContext& context, const std::string& key, ImGuiID figure,
                       const widgets::PlotDrawn& drawn, bool linked) {
  if (drawn.plot_size.x <= 0) return;
  auto state = context.state<FiguresState>();
  if (drawn.double_clicked) {
    moving_limits_.erase(figure), seen_limits_.erase(figure);
    if (state.zoomed.erase(key) > 0) context.set_state("Show all of a figure", state);
    return;
  }
  const FigureLimits now{drawn.x, drawn.y};
  const auto [seen, first] = seen_limits_.try_emplace(figure, now);
  const bool moved = !first && seen->second != now && (linked || !drawn.fitted);
  seen->second = now;
  const bool moving = moving_limits_.contains(figure);
  // A selected part is shown when the right button is let go.
  const bool held = drawn.keyed || ImGui::IsAnyMouseDown() || ImGui::GetIO().MouseWheel != 0 ||
                    ImGui::IsMouseReleased(ImGuiMouseButton_Right);
  if (moved && held && (moving || drawn.pointer || drawn.keyed)) {
    moving_limits_[figure] = now;
    context.window.moving = true;
  } else if (moving && !held) {
    state.zoomed[key] = moving_limits_[figure];
    moving_limits_.erase(figure);
    // A click whose hand trembled is none.
    if (!drawn.clicked) context.set_state("Zoom a figure", state, "zoom " + key);
  }
}

// The figure behind the one that has the focus takes it where it was asked for; the first one where
// none has it, or it is the last.
widgets::PlotDrawn View::draw_in_turn(const widgets::PlotSpec& plot, widgets::PlotDraw& options) {
  const std::size_t place = figures_drawn_++;
  options.take_focus = next_figure_ == place;
  const auto drawn = widgets::draw_plot(plot, options);
  if (drawn.focused) focused_figure_ = place;
  return drawn;
}

void View::focus_next_figure() {
  next_figure_ = focused_figure_ && *focused_figure_ + 1 < figures_seen_ ? *focused_figure_ + 1 : 0;
}

widgets::PlotDrawn View::draw_figure(ViewContext& context, const widgets::PlotSpec& plot,
                                     widgets::PlotDraw options, std::optional<std::size_t> model) {
  widgets::Hover pointed = context.hover(), selected = marks_of(context.session().selection);
  if (model) {
    pointed = marks_on(context, pointed, *model);
    selected = marks_on(context, selected, *model);
  }
  options.hover = &pointed;
  if (!options.selected) options.selected = &selected;
  if (!options.menu) options.menu = [&] { draw_menu_items(context); };
  const bool keeps = !options.link_x && !options.link_y;
  const std::string key = id() + "/" + plot.id + "/" + plot.x.label + "/" + plot.y.label;
  auto limits = keeps ? limits_of(context, key, plot) : std::nullopt;
  if (limits) options.link_x = &limits->x, options.link_y = &limits->y;
  const auto drawn = draw_in_turn(plot, options);
  if (keeps) keep_limits(context, key, ImGui::GetID(plot.id.c_str()), drawn, limits.has_value());
  if (drawn.hover.empty()) return drawn;
  context.point_at(drawn.hover);
  if (drawn.clicked) select_marks(context, drawn.hover);
  return drawn;
}

void View::draw_tools(ViewContext& context, Bar bar) {
  draw_tool_words(context);
  if (bar == Bar::ends) draw_openings(context);
}

void View::draw_tool_words(ViewContext& context) {
  const auto [ran, fell_back] = kernels(context);
  next_control(link_width("...") + link_width("?"));
  const float room = ImGui::GetContentRegionAvail().x;
  float width = link_width("?");
  const float words = link_width("Command") + (has_figures() ? link_width("Save") : 0);
  const bool folded = width + words > room;
  width += folded ? link_width("...") : words;
  const float ran_width =
      ran.empty() ? 0 : ImGui::CalcTextSize(ran.c_str()).x + ImGui::GetFontSize();
  const bool fits = width + ran_width <= room;
  if (fits) width += ran_width;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0F, room - width));
  if (fits && !ran.empty()) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextColored(kernel_color({ran, fell_back}), "%s", ran.c_str());
    tooltip("What ran attention");
    ImGui::SameLine(0, ImGui::GetFontSize());
  }
  draw_command_tools(context, folded);
  link("?");
  tooltip(help_text() + (ran.empty() ? "" : "\n\nAttention was run by: " + ran));
  if (fits || !fell_back) return;
  widgets::draw_paragraph(ran, kernel_color({ran, fell_back}));
}

void View::save(ViewContext& context) {
  auto request = std::make_shared<ExportRequest>();
  request->title = title();
  request->figures = figures_of(saved(context));
  if (request->figures.empty()) return context.window.say("There is nothing to save yet");
  context.window.to_export = std::move(request);
}

// The first figure, drawn as it would be saved: a window has no way of its own to give a picture
// to other programs.
void View::copy_picture(ViewContext& context) {
  std::vector<FigureToSave> figures = figures_of(saved(context));
  if (figures.empty()) return context.window.say("There is nothing to copy yet");
  auto form = context.state<FigureForm>();
  form.format = "png", form.theme = context.session().theme;
  context.window.run_aside([figure = std::move(figures.front()), form] {
    copy_png(figure_bytes(figure, form));
    return "Copied the picture: " + title_of(figure.figure);
  });
}

Dimmed::Dimmed(bool old) : old_(old) {
  if (!old_) return;
  ImGui::PushStyleVar(ImGuiStyleVar_Alpha, 0.5F);
  ImGui::BeginGroup();
}

Dimmed::~Dimmed() {
  if (!old_) return;
  ImGui::EndGroup();
  ImGui::PopStyleVar();
  ImVec4 ground = ImGui::GetStyleColorVec4(ImGuiCol_WindowBg);
  ground.w = 0.5F;  // pictures do not follow the style
  ImGui::GetWindowDrawList()->AddRectFilled(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                            ImGui::ColorConvertFloat4ToU32(ground));
  tooltip("What was asked for before; the new answer is not here yet");
}

bool draw_question(ViewContext& context, Question& question, const std::string& who) {
  widgets::BusySpec spec = context.requests.busy(question);
  if (spec.state == widgets::BusyState::idle || spec.state == widgets::BusyState::answered) {
    return false;
  }
  if (question.waiting()) spec.text = with_short_names(context.session(), spec.text);
  if (!who.empty()) spec.text = who + ": " + spec.text;
  if (question.failed() && question.error().code == protocol::error_code::not_applicable) {
    ImGui::PushStyleColor(ImGuiCol_Text, widgets::palette().quiet);
    ImGui::TextWrapped("%s", spec.text.c_str());
    ImGui::PopStyleColor();
    return false;
  }
  if (question.failed()) {
    if (const std::string model = unopened_model(context, question); !model.empty()) {
      draw_unopened(context, model, spec.text);
      return false;
    }
  }
  ImGui::PushID(&question);
  const widgets::BusyAction action = widgets::draw_busy(spec);
  ImGui::PopID();
  if (action == widgets::BusyAction::cancel) context.requests.cancel(question);
  if (action == widgets::BusyAction::retry) context.requests.retry(question);
  return action == widgets::BusyAction::cancel;
}

void draw_questions(ViewContext& context, const std::vector<Question*>& of_models) {
  std::vector<Question*> waiting;
  std::ranges::copy_if(of_models, std::back_inserter(waiting), &Question::waiting);
  const bool shared = waiting.size() >= kSharing;
  // That of them which a worker is at, where there is one.
  const auto begun = std::ranges::find_if(waiting, &Question::begun);
  const Question* shown = begun == waiting.end() ? nullptr : *begun;
  if (!shown && shared) shown = waiting.front();
  for (std::size_t i = 0; i < of_models.size(); ++i) {
    Question& question = *of_models[i];
    const bool one_of_many = shared && question.waiting();
    if (one_of_many && &question != shown) continue;
    std::string who = short_name(context.session(), context.session().models[i]);
    if (one_of_many) who += " and " + std::to_string(waiting.size() - 1) + " more";
    if (draw_question(context, question, who) && one_of_many) {
      for (Question* other : waiting) context.requests.cancel(*other);
    }
  }
}

WhatRan what_ran(const protocol::Provenance& made) {
  if (made.kernel == protocol::words_of(std::vector<protocol::Ran>{})) return {};
  // Answers of before have the words alone.
  return {made.kernel, std::ranges::any_of(made.ran, &protocol::Ran::fell_back)};
}

WhatRan what_ran(std::vector<ModelRan> models) {
  std::erase_if(models, [](const ModelRan& model) { return model.ran.words.empty(); });
  if (models.empty()) return {};
  const WhatRan& first = models.front().ran;
  if (std::ranges::all_of(models, [&](const ModelRan& one) { return one.ran == first; })) {
    return first;
  }
  std::set<std::string> said;
  WhatRan all;
  for (const ModelRan& model : models) {
    const std::string one = model.model + ": " + model.ran.words;
    if (said.insert(one).second) all.words += (all.words.empty() ? "" : "; ") + one;
    all.fell_back = all.fell_back || model.ran.fell_back;
  }
  return all;
}

const ImVec4& kernel_color(const WhatRan& ran) {
  return ran.fell_back ? widgets::palette().warn : widgets::palette().quiet;
}

void next_control(float width) {
  ImGui::SameLine();
  if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
}

float choice_width(const std::vector<std::string>& words) {
  float width = 0;
  for (const std::string& word : words) {
    width = std::max(width, ImGui::CalcTextSize(word.c_str()).x);
  }
  return width + ImGui::GetFrameHeight() + ImGui::GetStyle().FramePadding.x * 2;
}

float button_width(const char* label) {
  return ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x;
}

float checkbox_width(const char* label) {
  return ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x +
         ImGui::CalcTextSize(label).x;
}

bool draw_choice(const char* label, std::string& value, const std::vector<std::string>& words,
                 float width) {
  return draw_named_choice(
      label, value, words, [](const std::string& word) { return word; }, width);
}

namespace {

float width_in_room(float wanted) {
  return std::min(wanted, std::max(2 * ImGui::GetFrameHeight(), ImGui::GetContentRegionAvail().x));
}

}  // namespace

void width_of_next(float letters) {
  ImGui::SetNextItemWidth(width_in_room(letters * ImGui::GetFontSize()));
}

bool draw_named_choice(const char* label, std::string& value, const std::vector<std::string>& keys,
                       const WordsOf& words_of, float width) {
  std::vector<std::string> words;
  for (const std::string& key : keys) words.push_back(words_of(key));
  ImGui::SetNextItemWidth(width_in_room(width > 0 ? width : choice_width(words)));
  if (!ImGui::BeginCombo(label, words_of(value).c_str())) return false;
  bool changed = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string item = words[i] == keys[i] ? words[i] : words[i] + "###" + keys[i];
    if (!ImGui::Selectable(item.c_str(), keys[i] == value)) continue;
    changed = keys[i] != value;
    value = keys[i];
  }
  ImGui::EndCombo();
  return changed;
}

std::string words_of_key(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

namespace {

float mark_side() { return ImGui::GetFontSize() * 0.62F; }
constexpr float kMarkGap = 0.6F;  // of the mark's side

}  // namespace

float model_name_width(const Session& session, std::size_t index) {
  const std::string name = short_name(session, session.models[index]);
  return mark_side() * (1 + kMarkGap) + ImGui::CalcTextSize(name.c_str()).x;
}

std::string with_short_names(const Session& session, std::string words) {
  std::vector<std::string> models = session.models;
  // A reading before its model, whose name it begins with.
  std::ranges::sort(models, std::greater(), [](const std::string& name) { return name.size(); });
  for (const std::string& model : models) {
    const std::string name = short_name(session, model);
    if (model.empty() || name == model) continue;
    for (std::size_t at = words.find(model); at != words.npos;
         at = words.find(model, at + name.size())) {
      words.replace(at, model.size(), name);
    }
  }
  return words;
}

void draw_model_name(const Session& session, std::size_t index) {
  const ModelNames names = names_of(session);
  const std::string& model = session.models[index];
  const float side = mark_side();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float top = at.y + (ImGui::GetTextLineHeight() - side) / 2;
  ImGui::GetWindowDrawList()->AddRectFilled(
      {at.x, top}, {at.x + side, top + side},
      ImGui::ColorConvertFloat4ToU32(widgets::series_vec(names.color(model))), 2);
  ImGui::Dummy({side, ImGui::GetTextLineHeight()});
  ImGui::SameLine(0, side * kMarkGap);
  const std::string name = names.short_name(model);
  const float room = ImGui::GetContentRegionAvail().x;
  const bool cut = ImGui::CalcTextSize(name.c_str()).x > room + 1;
  if (cut) {
    widgets::draw_line(name, room);
  } else {
    ImGui::TextUnformatted(name.c_str());
  }
  if (cut || name != model) tooltip(model);
}

void tooltip(const std::string& words) {
  if (words.empty() || !ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip)) return;
  if (!ImGui::BeginTooltip()) return;
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 30);
  ImGui::TextUnformatted(words.c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void draw_cut_line(const std::string& words, const ImVec4& color) {
  const float room = ImGui::GetContentRegionAvail().x;
  const bool cut = ImGui::CalcTextSize(words.c_str()).x > room + 1;
  if (!cut) return ImGui::TextColored(color, "%s", words.c_str());
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  widgets::draw_line(words, room);
  ImGui::PopStyleColor();
  tooltip(words);
}

}  // namespace phasescope::app
