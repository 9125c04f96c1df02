#include "app/views/question_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/views/plot_grid.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {
namespace {

// In font sizes: what figures and tables need; a view with less room is scrolled.
constexpr float kFigureHeight = 17, kTablesHeight = 10;
// Around the rows of a figure: its legend and the axis below it.
constexpr float kAroundRows = 8;
constexpr float kFigureWidth = 22;
// Of a view, that figures in several lines take before they are scrolled.
constexpr float kMostOfRoom = 0.75F;

std::string seconds_in_words(double seconds) {
  if (seconds < 1) return "under a second";
  if (seconds < 90) return std::to_string(std::lround(seconds)) + " s";
  if (seconds < 5400) return std::to_string(std::lround(seconds / 60)) + " min";
  return widgets::short_number(std::round(seconds / 360) / 10) + " h";
}

// The head that a row of a table is of: its "layer" and "head", or "L3H1" in "head".
struct HeadOfRow {
  std::int64_t layer = -1, head = -1;
};
HeadOfRow head_of(const nlohmann::json& row) {
  HeadOfRow of;
  const auto head = row.find("head"), layer = row.find("layer");
  if (head != row.end() && head->is_string()) {
    long l = 0, h = 0;
    if (std::sscanf(head->get_ref<const std::string&>().c_str(), "L%ldH%ld", &l, &h) == 2) {
      of.layer = l, of.head = h;
    }
    return of;
  }
  if (layer != row.end() && layer->is_number_integer()) of.layer = layer->get<std::int64_t>();
  if (head != row.end() && head->is_number_integer()) of.head = head->get<std::int64_t>();
  return of;
}

// The place among the open models of the one that a row names; the selected one where it names
// none.
std::int64_t model_of_row(const Session& session, const nlohmann::json& row) {
  const auto named = row.find("model");
  if (named == row.end() || !named->is_string()) return session.selection.model;
  for (std::size_t i = 0; i < session.models.size(); ++i) {
    if (short_name(session, session.models[i]) == named->get_ref<const std::string&>()) {
      return static_cast<std::int64_t>(i);
    }
  }
  return session.selection.model;
}

// A click on a point that is named as a head, "L3H1" or "rope L3H1", selects that head.
void select_named_head(ViewContext& context, const widgets::PlotSpec& plot,
                       const widgets::PlotDrawn& drawn) {
  const widgets::NearPoint* point = widgets::nearest(drawn.near);
  if (!drawn.clicked || !point) return;
  const widgets::Series& series = plot.series[point->series];
  if (point->point >= series.names.size()) return;
  const std::string& name = series.names[point->point];
  const std::size_t space = name.rfind(' ');
  nlohmann::json row = {{"head", name.substr(space == name.npos ? 0 : space + 1)}};
  if (space != name.npos) row["model"] = name.substr(0, space);
  select_row(context, row);
}

// A ring round the point of the selected head, among those that are named.
void mark_selected_head(const Session& session, const widgets::PlotSpec& plot,
                        widgets::PlotDraw& options) {
  const std::string head = name_of_head(session.selection.layer, session.selection.head);
  const std::string whole = short_name(session, selected_model(session)) + " " + head;
  for (const widgets::Series& series : plot.series) {
    for (std::size_t n = 0; n < series.names.size(); ++n) {
      if (series.names[n] == head || series.names[n] == whole) {
        options.rings.push_back({series.x[n], series.y[n], widgets::palette().warn});
      }
    }
  }
}

// Pixels that figures need for all names of their rows: fewer would leave every other one out.
float height_of_rows(const Output& output) {
  std::size_t rows = 0;
  for (const widgets::PlotSpec& figure : output.figures) {
    if (!figure.map) rows = std::max(rows, figure.y.ticks.size());
  }
  return rows == 0 ? 0 : ImGui::GetFontSize() * (static_cast<float>(rows) + kAroundRows);
}

// Figures that stand beside each other.
int figures_across(std::size_t figures, float width) {
  const int fits = std::max(1, static_cast<int>(width / (ImGui::GetFontSize() * kFigureWidth)));
  return std::min(static_cast<int>(figures), fits);
}

// Pixels that all of them take, one line below the other.
float height_of_lines(std::size_t figures, float width) {
  if (figures == 0) return 0;
  const auto across = static_cast<std::size_t>(figures_across(figures, width));
  const auto lines = static_cast<float>((figures + across - 1) / across);
  const float line = ImGui::GetFontSize() * kFigureHeight;
  return lines * line + (lines - 1) * ImGui::GetStyle().ItemSpacing.y;
}

const ShownGroup* group_of(const std::vector<ShownGroup>& groups, const std::string& name) {
  const auto found = std::ranges::find(groups, name, &ShownGroup::name);
  return groups.empty() ? nullptr : found == groups.end() ? &groups.front() : &*found;
}

}  // namespace

std::string words_of(const Expected& expected) {
  if (expected.texts <= 0 || expected.passes <= 0) return "what it will take is not known";
  std::string words = expected.texts == 1 ? "1 text" : std::to_string(expected.texts) + " texts";
  words += " of " + std::to_string(expected.tokens) + " tokens, " +
           (expected.at_least ? "at least " : "") +
           widgets::short_number(std::round(expected.passes)) +
           (expected.passes == 1 ? " pass" : " passes") + " over each";
  if (expected.seconds > 0) words += ", about " + seconds_in_words(expected.seconds);
  return words;
}

std::int64_t texts_in(const std::string& range) {
  long a = 0, b = 0, step = 1;
  const int read = std::sscanf(range.c_str(), "%ld:%ld:%ld", &a, &b, &step);
  if (read < 2 || step < 1 || b <= a) return 0;
  return (b - a + step - 1) / step;
}

std::string with_models(const std::string& command, const std::string& verb,
                        const std::vector<std::string>& models) {
  const std::string begin = "phasescope " + verb + " " + protocol::shell_word(models.front());
  if (!command.starts_with(begin)) return command;
  std::string line = begin;
  for (std::size_t i = 1; i < models.size(); ++i) line += " " + protocol::shell_word(models[i]);
  return line + command.substr(begin.size());
}

const SharedText& no_text_asked() {
  static const SharedText none;
  return none;
}

bool is_of_selection(const Session& session, const nlohmann::json& row) {
  const HeadOfRow of = head_of(row);
  const Selection& at = session.selection;
  return of.layer >= 0 && of.layer == at.layer && (of.head < 0 || of.head == at.head) &&
         model_of_row(session, row) == at.model;
}

void select_row(ViewContext& context, const nlohmann::json& row) {
  const HeadOfRow of = head_of(row);
  if (of.layer < 0) return;
  select_head(context, model_of_row(context.session(), row), of.layer, of.head);
}

bool AnyQuestionView::draw_figure_choice(const std::vector<ShownGroup>& groups,
                                         QuestionForm& form) {
  bool changed = false;
  const ShownGroup* shown = group_of(groups, form.of);
  if (!shown) return false;
  if (groups.size() > 1) {
    std::vector<std::string> names;
    for (const ShownGroup& group : groups) names.push_back(group.name);
    std::string name = shown->name;
    if (draw_choice("##of", name, names)) form.of = name, form.figure.clear(), changed = true;
    tooltip("The figures of all models together, or of one of them");
  }
  shown = group_of(groups, form.of);
  if (shown->output.figures.size() < 2) return changed;
  if (groups.size() > 1) ImGui::SameLine();
  const std::string follow =
      figure_of_selection({}).empty() ? "all figures" : "figure of the selected layer";
  std::vector<std::string> titles{follow};
  for (const widgets::PlotSpec& figure : shown->output.figures) titles.push_back(figure.title);
  std::string title = form.figure.empty() ? follow : form.figure;
  const float width = std::min(ImGui::GetContentRegionAvail().x, ImGui::GetFontSize() * 22);
  if (draw_choice("##figure", title, titles, width)) {
    form.figure = title == follow ? "" : title, changed = true;
  }
  return changed;
}

std::vector<const widgets::PlotSpec*> AnyQuestionView::figures_shown(
    const Session& session, const Output& output, const QuestionForm& form) const {
  const std::string end = figure_of_selection(session.selection);
  std::vector<const widgets::PlotSpec*> figures;
  for (const widgets::PlotSpec& figure : output.figures) {
    if (form.figure.empty() ? figure.id.ends_with(end) : figure.title == form.figure) {
      figures.push_back(&figure);
    }
  }
  if (figures.empty() && !output.figures.empty()) figures.push_back(&output.figures.front());
  return figures;
}

void AnyQuestionView::draw_plot_of(ViewContext& context, const Output& output,
                                   const QuestionForm& form, std::uint64_t version) {
  const auto figures = figures_shown(context.session(), output, form);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const int across = figures_across(figures.size(), room.x);
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  const float width = (room.x - gap * static_cast<float>(across - 1)) / static_cast<float>(across);
  const bool one_line = static_cast<int>(figures.size()) <= across;
  for (std::size_t n = 0; n < figures.size(); ++n) {
    if (static_cast<int>(n) % across != 0) ImGui::SameLine();
    ImGui::PushID(static_cast<int>(n));
    const ImVec2 size{width, one_line ? room.y : figure_height(0, room.y, kFigureHeight)};
    if (ImGui::BeginChild("figure", size, ImGuiChildFlags_NavFlattened)) {
      widgets::PlotDraw options;
      options.version = version;
      options.title = figures.size() > 1;
      options.notes = false;  // they stand below the tables, those of all figures once
      if (const float shape = shape_of_figures(); shape > 0) {
        const ImVec2 all = ImGui::GetContentRegionAvail();
        options.size.x = std::min(all.x, all.y * shape);  // as high as the legend leaves room
      }
      const auto place = static_cast<std::size_t>(figures[n] - output.figures.data());
      options.texture = textures_.of(*figures[n], place, version);
      mark_selected_head(context.session(), *figures[n], options);
      select_named_head(context, *figures[n], draw_figure(context, *figures[n], options));
    }
    ImGui::EndChild();
    ImGui::PopID();
  }
}

void AnyQuestionView::draw_shown(ViewContext& context, const std::vector<ShownGroup>& groups,
                                 const QuestionForm& form, std::uint64_t version, bool old) {
  const ShownGroup* shown = group_of(groups, form.of);
  if (!shown) return;
  const auto place = static_cast<std::uint64_t>(shown - groups.data());
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (!shown->output.figures.empty()) {
    const std::size_t figures = figures_shown(context.session(), shown->output, form).size();
    const float height = std::max(
        {figure_height(room.y * 0.55F, room.y, kFigureHeight), height_of_rows(shown->output),
         std::min(height_of_lines(figures, room.x), room.y * kMostOfRoom)});
    if (ImGui::BeginChild("figures", {0, height}, ImGuiChildFlags_NavFlattened)) {
      const Dimmed dimmed(old);
      draw_plot_of(context, shown->output, form, version * 64 + place);
    }
    ImGui::EndChild();
  }
  const float below =
      std::max(ImGui::GetFontSize() * kTablesHeight, ImGui::GetContentRegionAvail().y);
  if (ImGui::BeginChild("tables", {0, below}, ImGuiChildFlags_NavFlattened)) {
    const Dimmed dimmed(old);
    const auto* row = tables_.draw(
        context, id(), shown->output, version * 64 + place,
        [&](const nlohmann::json& cells) { return is_of_selection(context.session(), cells); });
    if (row) select_row(context, *row);
    widgets::draw_notes(notes_of(shown->output));
  }
  ImGui::EndChild();
}

}  // namespace phasescope::app
