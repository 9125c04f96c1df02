#include "app/views/output_tables.h"

#include <imgui.h>

#include <algorithm>
#include <map>

#include "app/views/kept_tables.h"
#include "app/views/model_table.h"
#include "app/views/view.h"
#include "protocol/messages/provenance.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

// The most columns of one table of Dear ImGui.
constexpr std::size_t kColumnsAtMost = 512;

const json& value_in(const json& row, const std::string& column) {
  static const json nothing;
  const auto found = row.find(column);
  return found == row.end() ? nothing : *found;
}

widgets::TableCell cell_of(const Table& table, const json& row, const std::string& column) {
  widgets::TableCell cell{cell_text(table, row, column)};
  const json& value = value_in(row, column);
  if (value.is_number()) cell.number = value.get<double>();
  if (const json* number = protocol::value_of_interval(value); number && number->is_number()) {
    cell.number = number->get<double>();
  }
  if (value.is_object() && value.contains("method")) {
    cell.help = value.value("method", "");
    if (value.contains("n")) cell.help += ", n = " + value["n"].dump();
  }
  return cell;
}

// Names of open models have their colours, as everywhere.
void color_models(const Session& session, const Table& table, widgets::TableSpec& spec) {
  const auto column =
      static_cast<std::size_t>(std::ranges::find(table.columns, "model") - table.columns.begin());
  if (column >= spec.columns.size()) return;
  const ModelNames names = names_of(session);
  std::map<std::string, int> colors;
  for (const std::string& model : session.models) {
    colors[names.short_name(model)] = names.color(model);
  }
  for (auto& row : spec.rows) {
    if (const auto found = colors.find(row[column].words); found != colors.end()) {
      row[column].color = found->second;
    }
  }
}

}  // namespace

widgets::TableSpec spec_of(const Table& table) {
  widgets::TableSpec spec;
  const std::size_t count = std::min(table.columns.size(), kColumnsAtMost);
  for (std::size_t c = 0; c < count; ++c) {
    const bool words = std::ranges::any_of(
        table.rows, [&](const json& row) { return value_in(row, table.columns[c]).is_string(); });
    // As the verb's table and its files call it, where that is no title: a search takes both.
    const std::string& key = table.columns[c];
    const std::string& heading = table.heading(key);
    spec.columns.push_back(
        {.title = heading == key ? words_of_key(key) : heading, .numbers = !words, .key = key});
  }
  for (const json& row : table.rows) {
    auto& line = spec.rows.emplace_back();
    for (std::size_t c = 0; c < count; ++c) line.push_back(cell_of(table, row, table.columns[c]));
  }
  return spec;
}

const json* OutputTables::draw(ViewContext& context, const std::string& key, const Output& output,
                               std::uint64_t version, const IsSelected& is_selected) {
  if (version != version_) {
    version_ = version;
    tables_.clear();
    for (const Table& table : output.tables) {
      if (table.for_files) continue;
      auto& made = *tables_.emplace_back(std::make_unique<Prepared>());
      made.table = &table;
      made.spec = spec_of(table);
      color_models(context.session(), table, made.spec);
      // Dear ImGui keeps the order of columns by their names for as long as a table has one id.
      made.spec.id = "table" + std::to_string(tables_.size());
      for (const widgets::TableColumn& column : made.spec.columns) {
        made.spec.id += "/" + column.title;
      }
    }
  }
  const json* clicked = nullptr;
  for (const auto& prepared : tables_) {
    const Table& table = *prepared->table;
    ImGui::PushID(prepared->spec.id.c_str());
    if (!table.title.empty()) ImGui::SeparatorText(table.title.c_str());
    widgets::TableDraw options = options_of_rows(prepared->spec.rows.size(), version);
    if (is_selected) {
      options.selected = [&](int row) {
        return is_selected(table.rows[static_cast<std::size_t>(row)]);
      };
    }
    if (!prepared->spec.rows.empty() && !prepared->spec.columns.empty()) {
      const std::string place = key + "/" + std::to_string(&prepared - tables_.data());
      const auto drawn = draw_kept_table(context, place, prepared->drawn, prepared->spec, options);
      if (drawn.clicked >= 0) clicked = &table.rows[static_cast<std::size_t>(drawn.clicked)];
    }
    ImGui::PopID();
  }
  return clicked;
}

std::vector<std::string> notes_of(const Output& output) {
  std::vector<std::string> notes;
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& note : more) {
      if (!note.empty() && std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
    }
  };
  for (const Table& table : output.tables) {
    if (!table.for_files) add(table.notes);
  }
  for (const widgets::PlotSpec& figure : output.figures) add(figure.notes);
  return notes;
}

widgets::HeatmapTexture* FigureTextures::of(const widgets::PlotSpec& plot, std::size_t place,
                                            std::uint64_t version) {
  if (!plot.map) return nullptr;
  while (pictures_.size() <= place) pictures_.push_back(std::make_unique<Picture>());
  Picture& picture = *pictures_[place];
  if (picture.version != version) {
    picture.texture.set_values(plot.map->rows, plot.map->cols, plot.map->values);
  }
  picture.version = version;
  return &picture.texture;
}

}  // namespace phasescope::app
