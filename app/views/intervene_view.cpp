#include "app/views/intervene_view.h"

#include <algorithm>
#include <cmath>

#include "app/window/commands.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::Settings;

constexpr const char* kEncoding = "encoding.";

// What can be done to heads. `limit`: what the slider begins with; 0 to `most`, none where `most`
// is 0; of tokens where `whole`, up to four times the trained length where that is known.
struct Way {
  const char *how, *title, *option, *help;
  double most = 0, limit = 0;
  bool whole = false;
};
constexpr Way kWays[] = {
    {"zero", "ablate", "head_ablations", "the output of the head is 0"},
    {"resample", "resample", "head_ablations",
     "the output of the head is the one at a random row of the same text, up to here"},
    {"sink", "cap the sink", "head_sink_caps", "the weight on key 0 is at most this", 1, 0.1},
    {"window", "window", "head_windows", "keys this far and farther are not seen", 1 << 16, 64,
     true},
    {"clamp", "clamp", "head_clamps", "farther keys are scored as if they stood this far", 1 << 16,
     64, true},
    {"bias", "scale the bias", "head_bias_scales",
     "what the encoding adds to the score is multiplied: ALiBi's slopes, T5's table", 4, 0.5},
};

const Way& way_of(const std::string& how) {
  const auto* found = std::ranges::find_if(kWays, [&](const Way& way) { return how == way.how; });
  return found == std::end(kWays) ? kWays[0] : *found;
}

std::string number_words(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return nlohmann::json(std::stod(widgets::short_number(value))).dump();
}

std::string words_of(const ReadingEdit& edit) {
  const std::string key =
      edit.key.starts_with(kEncoding) ? edit.key.substr(std::string(kEncoding).size()) : edit.key;
  if (edit.heads.empty()) return key + " = " + edit.value;
  for (const Way& way : kWays) {
    if (key == way.option && (way.most > 0 || edit.value == way.how)) {
      return edit.heads + ": " + way.title + (way.most > 0 ? " at " + edit.value : "");
    }
  }
  return edit.heads + ": " + key + " " + edit.value;
}

std::string value_of(const std::vector<ReadingEdit>& edits, const std::string& key) {
  std::string value;
  for (const ReadingEdit& edit : edits) {
    if (edit.key == key) value += (value.empty() ? "" : " ") + edit.heads + ":" + edit.value;
  }
  return value;
}

Settings settings_of_edits(const std::vector<ReadingEdit>& edits) {
  Settings settings;
  for (const ReadingEdit& edit : edits) {
    const bool there =
        std::ranges::any_of(settings, [&](const auto& one) { return one.first == edit.key; });
    if (edit.heads.empty()) {
      settings.emplace_back(edit.key, edit.value);
    } else if (!there) {
      settings.emplace_back(edit.key, value_of(edits, edit.key));
    }
  }
  return settings;
}

bool is_same_place(const ReadingEdit& a, const ReadingEdit& b) {
  return a.key == b.key && a.heads == b.heads;
}

// Puts a reading in place of the selected model where that is a reading of the same one, else
// beside it; without settings the model itself is selected, and the reading closed.
void show_reading(ViewContext& context, const std::string& title, const Settings& settings,
                  const std::string& merge) {
  const std::string selected = selected_model(context.session());
  const protocol::ModelReading before = protocol::model_reading(selected);
  const std::string name = protocol::name_of({before.model, settings});
  context.edit.apply(
      title,
      [&](Session& s) {
        const bool replaces = !before.settings.empty();
        const bool there = std::ranges::find(s.models, name) != s.models.end();
        const auto own = std::ranges::find(s.models, selected);
        if (there && replaces && name != selected) {
          s.models.erase(own);
        } else if (!there && replaces) {
          std::ranges::replace(s.colors, selected, name), *own = name;  // one reading, moved on
        } else if (!there) {
          s.models.push_back(name);
        }
        s.selection.model = std::ranges::find(s.models, name) - s.models.begin();
      },
      merge);
}

std::string heads_chosen(const Selection& at, const std::string& whose) {
  if (whose == "all") return "all";
  if (whose == "layer" || at.head < 0) return "L" + std::to_string(at.layer);
  return name_of_head(at.layer, at.head);
}

// Their heads have one name in each stack, and what one of them costs is measured of a decoder.
constexpr const char* kOneStack =
    "An encoder and a decoder both have heads of these names: single heads are changed in models "
    "of "
    "one stack.";

// What is done to the selected head where no value was chosen.
void add_usual_edit(ViewContext& context, const Way& way) {
  if (context.has_stacks(selected_model(context.session()))) return context.window.say(kOneStack);
  const std::string heads = heads_chosen(context.session().selection, "head");
  add_edit(context, edit_of(way.how, heads, way.limit));
}

}  // namespace

bool is_of_heads(const std::string& key) {
  const std::string option = key.substr(key.starts_with(kEncoding) ? 9 : 0);
  return std::ranges::any_of(kWays, [&](const Way& way) { return option == way.option; });
}

std::vector<ReadingEdit> edits_of(const Settings& settings) {
  std::vector<ReadingEdit> edits;
  for (const auto& [key, value] : settings) {
    if (!is_of_heads(key)) {
      edits.push_back({key, "", value});
      continue;
    }
    for (const auto part : std::views::split(value, ' ')) {
      const std::string one(part.begin(), part.end());
      const std::size_t colon = one.find(':');
      if (colon != one.npos) edits.push_back({key, one.substr(0, colon), one.substr(colon + 1)});
    }
  }
  return edits;
}

Settings with_edit(const Settings& settings, const ReadingEdit& edit) {
  std::vector<ReadingEdit> edits = edits_of(settings);
  const auto same = [&](const ReadingEdit& other) { return is_same_place(other, edit); };
  if (const auto found = std::ranges::find_if(edits, same); found != edits.end()) {
    *found = edit;
  } else {
    edits.push_back(edit);
  }
  return settings_of_edits(edits);
}

Settings without_edit(const Settings& settings, const ReadingEdit& edit) {
  std::vector<ReadingEdit> edits = edits_of(settings);
  std::erase_if(edits, [&](const ReadingEdit& other) { return is_same_place(other, edit); });
  return settings_of_edits(edits);
}

ReadingEdit edit_of(const std::string& how, const std::string& heads, double limit) {
  const Way& way = way_of(how);
  return {std::string(kEncoding) + way.option, heads,
          way.most > 0 ? number_words(way.whole ? std::round(limit) : limit) : way.how};
}

std::pair<double, double> slider_ends(const protocol::EncodingNumber& number) {
  const double size = std::abs(number.value), far = size > 0 ? 64 * size : 1;
  double low = number.value > 0 ? size / 64 : -far, high = far;
  if (number.low) low = std::max(low, *number.low);
  if (number.high) high = size > 0 ? std::min(high, *number.high) : *number.high;
  if (number.whole) low = std::ceil(low), high = std::floor(high);
  return {low, high};
}

void add_edit(ViewContext& context, const ReadingEdit& edit) {
  const std::string model = selected_model(context.session());
  if (model.empty()) return;
  const Settings settings = with_edit(protocol::model_reading(model).settings, edit);
  // A slider that is moved again and again is one step of undo.
  show_reading(context, words_of(edit), settings, "edit " + edit.key + edit.heads);
}

void remove_edit(ViewContext& context, const ReadingEdit& edit) {
  const std::string model = selected_model(context.session());
  if (model.empty()) return;
  show_reading(context, "Take back: " + words_of(edit),
               without_edit(protocol::model_reading(model).settings, edit), "");
}

void draw_intervention_menu(ViewContext& context) {
  if (context.models() == 0) return;
  const Session& session = context.session();
  const std::string heads = heads_chosen(session.selection, "head");
  const std::string title = "Intervene on " + heads;
  if (!ImGui::BeginMenu(title.c_str())) return;
  for (const Way& way : kWays) {
    const std::string words =
        way.title + (way.most > 0 ? " at " + number_words(way.limit) : std::string());
    if (ImGui::MenuItem(words.c_str())) add_usual_edit(context, way);
    tooltip(way.help);
  }
  ImGui::Separator();
  if (ImGui::MenuItem("Other values, parameters...")) show_view(context, "intervene");
  ImGui::EndMenu();
}

std::string InterveneView::help_text() const {
  return "Takes the selected head, its layer or all heads out, caps their sink, gives them a "
         "window or a clamp, or moves a parameter of the encoding. Each change makes a reading of "
         "the model, named by its changes, that all views show beside the model itself: maps, "
         "losses and guesses follow. It is undone, saved and copied as any model is. Below: what "
         "the loss rises by, by position, and how far the map of every head moves.";
}

std::string InterveneView::what_it_shows() const {
  return "Choose what is done to the selected head, or move a parameter: the changed model then "
         "stands beside the model itself in every view, and what it loses is shown here.";
}

void InterveneView::add_commands(std::vector<Command>& list) const {
  QuestionView::add_commands(list);
  int key = ImGuiKey_1;
  for (const Way& way : kWays) {
    list.push_back({"intervene." + std::string(way.how), "Selected head: " + std::string(way.title),
                    way.help, ImGuiMod_Alt | ImGuiMod_Shift | key++,
                    [&way](ViewContext& context) { add_usual_edit(context, way); }});
  }
}

// Whether this is the selected model, read otherwise than it is.
bool InterveneView::concerns(const ViewContext& context, std::size_t index) const {
  const Session& session = context.session();
  return static_cast<std::int64_t>(index) == session.selection.model &&
         !protocol::model_reading(session.models[index]).settings.empty();
}

std::string InterveneView::model_asked(const std::string& model) const {
  return protocol::model_reading(model).model;
}

void InterveneView::add_selection(protocol::AblateRequest& request, const Session& session) const {
  const protocol::ModelReading reading = protocol::model_reading(selected_model(session));
  request.model = reading.model;
  request.maps = "yes";
  request.running.set.list.clear();
  for (const auto& [key, value] : reading.settings) {
    request.running.set.list.push_back(key + "=" + value);
  }
}

void InterveneView::draw_new_edit(ViewContext& context) {
  auto state = context.state<InterveneState>();
  const Way& way = way_of(state.how);
  std::vector<std::string> titles;
  for (const Way& one : kWays) titles.emplace_back(one.title);
  std::string title = way.title;
  bool changed = draw_choice("##how", title, titles);
  for (const Way& one : kWays) {
    if (title == one.title) state.how = one.how;
  }
  tooltip(way.help);
  next_control(choice_width({"layer"}));
  changed |= draw_choice("##whose", state.whose, {"head", "layer", "all"});
  const std::string heads = heads_chosen(context.session().selection, state.whose);
  tooltip("The selected head, all of its layer, or all: " + heads);
  if (changed) {
    held_limit_.reset();  // of what was chosen before
    context.set_state("Choose an intervention", state);
  }
  const auto kept = state.limits.find(way.how);
  double limit = held_limit_.value_or(kept == state.limits.end() ? way.limit : kept->second);
  bool moved = false;
  if (way.most > 0) {
    next_control(ImGui::GetFontSize() * 12);
    ImGui::SetNextItemWidth(ImGui::GetFontSize() * 8);
    auto value = static_cast<float>(limit);
    // The number stands beside it: the handle would cover it.
    const std::string label = number_words(way.whole ? std::round(limit) : limit) + "###limit";
    const ImGuiSliderFlags scale = way.whole ? ImGuiSliderFlags_Logarithmic : 0;
    const auto* report = context.info(selected_model(context.session()));
    const bool known = report && report->model.context > 0;
    const double most =
        way.whole && known ? 4 * static_cast<double>(report->model.context) : way.most;
    if (ImGui::SliderFloat(label.c_str(), &value, way.whole ? 1.0F : 0.0F, static_cast<float>(most),
                           "", scale)) {
      held_limit_ = limit = value;
    }
    moved = ImGui::IsItemDeactivatedAfterEdit();
    tooltip(way.help);
  }
  if (moved) {
    held_limit_.reset();
    state.limits[way.how] = limit;
    context.set_state("Choose a limit", state, "limit");
  }
  const ReadingEdit edit = edit_of(way.how, heads, limit);
  const auto edits = edits_of(protocol::model_reading(selected_model(context.session())).settings);
  const bool there =
      std::ranges::any_of(edits, [&](const auto& one) { return is_same_place(one, edit); });
  const std::string button = "Apply to " + heads;
  next_control(button_width(button.c_str()));
  const bool pressed = ImGui::Button(button.c_str());
  tooltip("Opens the model read with this change");
  if (pressed || (moved && there)) add_edit(context, edit);
}

void InterveneView::draw_edits(ViewContext& context) {
  const std::string selected = selected_model(context.session());
  for (const ReadingEdit& edit : edits_of(protocol::model_reading(selected).settings)) {
    ImGui::PushID((edit.key + edit.heads).c_str());
    if (ImGui::SmallButton("x")) remove_edit(context, edit);
    tooltip("Take it back");
    ImGui::SameLine();
    ImGui::TextUnformatted(words_of(edit).c_str());
    ImGui::PopID();
  }
}

// A slider; it is asked for when it is let go.
void InterveneView::draw_parameter(ViewContext& context, const protocol::EncodingNumber& number,
                                   const protocol::EncodingNumber& first) {
  const auto held = held_.find(number.key);
  auto shown = held == held_.end() ? static_cast<float>(number.value) : held->second;
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 12);
  const auto [low, high] = slider_ends(first);
  // The handle, in the middle at first, lets the number be read that it stands on. (The format has
  // the digits of small values: without it they would be taken for 0.)
  ImVec4 handle = widgets::palette().accent;
  handle.w = 0.4F;
  ImGui::PushStyleColor(ImGuiCol_SliderGrab, handle);
  ImGui::PushStyleColor(ImGuiCol_SliderGrabActive, handle);
  const ImGuiSliderFlags scale = first.value == 0 ? 0 : ImGuiSliderFlags_Logarithmic;
  if (ImGui::SliderFloat(number.key.c_str(), &shown, static_cast<float>(low),
                         static_cast<float>(high), "%.5g", scale)) {
    held_[number.key] = number.whole ? std::round(shown) : shown;
  }
  ImGui::PopStyleColor(2);
  tooltip(number.help + "\nA click with Ctrl types a number");
  if (!ImGui::IsItemDeactivatedAfterEdit()) return;
  const auto moved = held_.find(number.key);
  if (moved == held_.end()) return;
  add_edit(context, {kEncoding + number.key, "", number_words(moved->second)});
  held_.erase(moved);
}

void InterveneView::draw_parameters(ViewContext& context) {
  const auto* report = context.info(selected_model(context.session()));
  if (!report || report->encoding_numbers.empty() ||
      !ImGui::CollapsingHeader("Parameters of the encoding")) {
    return;
  }
  // The slider of a reading has the ends of the model's own: what was moved stays where it was let
  // go.
  const std::string own = protocol::model_reading(selected_model(context.session())).model;
  const auto* before = context.info(own);
  for (const protocol::EncodingNumber& number : report->encoding_numbers) {
    const auto& all = before ? before->encoding_numbers : report->encoding_numbers;
    const auto first = std::ranges::find(all, number.key, &protocol::EncodingNumber::key);
    draw_parameter(context, number, first == all.end() ? number : *first);
  }
}

void InterveneView::draw_content(ViewContext& context) {
  if (context.models() > 0) {
    if (context.has_stacks(selected_model(context.session()))) {
      widgets::draw_notes({kOneStack});
    } else {
      draw_new_edit(context);
    }
    draw_edits(context);
    draw_parameters(context);
  }
  QuestionView::draw_content(context);
}

}  // namespace phasescope::app
