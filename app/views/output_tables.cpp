#include "app/views/output_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "widgets/plot_draw.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

// Of one table of Dear ImGui.
constexpr std::size_t kColumnsAtMost = 512;
constexpr int kRowsBeforeScrolling = 24;

const json& cell_in(const json& row, const std::string& column) {
  static const json nothing;
  const auto found = row.find(column);
  return found == row.end() ? nothing : *found;
}

// Its number, the mean of an interval; NaN where it has none.
double number_in(const json& cell) {
  if (cell.is_number()) return cell.get<double>();
  if (cell.is_object() && cell.contains("mean") && cell["mean"].is_number())
    return cell["mean"].get<double>();
  return std::numeric_limits<double>::quiet_NaN();
}

int rank_of(const json& cell) {
  if (std::isfinite(number_in(cell))) return 0;
  return cell.is_string() && !cell.get_ref<const std::string&>().empty() ? 1 : 2;
}

}  // namespace

bool cell_before(const json& a, const json& b) {
  const int rank = rank_of(a), other = rank_of(b);
  if (rank != other) return rank < other;
  if (rank == 0) return number_in(a) < number_in(b);
  return rank == 1 && a.get_ref<const std::string&>() < b.get_ref<const std::string&>();
}

void OutputTables::prepare(const Output& output, std::uint64_t version) {
  if (version == version_ && !tables_.empty() && tables_.front().table == &output.tables.front())
    return;
  version_ = version;
  tables_.clear();
  for (const Table& table : output.tables) {
    if (table.for_files) continue;
    Prepared& made = tables_.emplace_back();
    made.table = &table;
    const std::size_t columns = std::min(table.columns.size(), kColumnsAtMost);
    for (std::size_t c = 0; c < columns; ++c)
      made.headings.push_back(table.heading(table.columns[c]));
    made.numbers.assign(columns, true);
    for (const json& row : table.rows) {
      auto& line = made.cells.emplace_back();
      for (std::size_t c = 0; c < columns; ++c) {
        line.push_back(cell_text(table, row, table.columns[c]));
        if (cell_in(row, table.columns[c]).is_string()) made.numbers[c] = false;
      }
    }
    made.order.resize(table.rows.size());
    std::iota(made.order.begin(), made.order.end(), std::size_t{0});
  }
}

void OutputTables::draw_cells(const Prepared& prepared, std::size_t row) {
  const auto& line = prepared.cells[row];
  for (std::size_t c = 1; c < line.size(); ++c) {
    ImGui::TableNextColumn();
    if (prepared.numbers[c]) {
      const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(line[c].c_str()).x;
      if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
    }
    ImGui::TextUnformatted(line[c].c_str());
  }
}

const json* OutputTables::draw_table(Prepared& prepared, const IsSelected& is_selected) {
  const Table& table = *prepared.table;
  if (!table.title.empty()) ImGui::SeparatorText(table.title.c_str());
  const int rows = static_cast<int>(prepared.order.size());
  const bool scrolls = rows > kRowsBeforeScrolling;
  ImGuiTableFlags flags = ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_BordersInnerH |
                          ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate |
                          ImGuiTableFlags_ScrollX | ImGuiTableFlags_RowBg;
  if (scrolls) flags |= ImGuiTableFlags_ScrollY;
  const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const float height = line * static_cast<float>(std::min(rows, kRowsBeforeScrolling) + 1) +
                       ImGui::GetStyle().ScrollbarSize;
  if (!ImGui::BeginTable("rows", static_cast<int>(prepared.headings.size()), flags, {0, height}))
    return nullptr;
  ImGui::TableSetupScrollFreeze(1, 1);
  for (const std::string& heading : prepared.headings) ImGui::TableSetupColumn(heading.c_str());
  ImGui::TableHeadersRow();
  ImGuiTableSortSpecs* sort = ImGui::TableGetSortSpecs();
  if (sort && sort->SpecsDirty) {
    std::iota(prepared.order.begin(), prepared.order.end(), std::size_t{0});
    if (sort->SpecsCount > 0) {
      const std::string& column =
          table.columns[static_cast<std::size_t>(sort->Specs[0].ColumnIndex)];
      const bool down = sort->Specs[0].SortDirection == ImGuiSortDirection_Descending;
      std::ranges::stable_sort(prepared.order, [&](std::size_t a, std::size_t b) {
        const json &x = cell_in(table.rows[a], column), &y = cell_in(table.rows[b], column);
        if (rank_of(x) != rank_of(y)) return rank_of(x) < rank_of(y);  // nothing stays last
        return down ? cell_before(y, x) : cell_before(x, y);
      });
    }
    sort->SpecsDirty = false;
  }
  const json* clicked = nullptr;
  ImGuiListClipper clipper;
  clipper.Begin(rows);
  while (clipper.Step()) {
    for (int n = clipper.DisplayStart; n < clipper.DisplayEnd; ++n) {
      const std::size_t row = prepared.order[static_cast<std::size_t>(n)];
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      ImGui::PushID(static_cast<int>(row));
      const bool selected = is_selected && is_selected(table.rows[row]);
      const std::string& first = prepared.cells[row].front();
      if (ImGui::Selectable((first + "##row").c_str(), selected,
                            ImGuiSelectableFlags_SpanAllColumns))
        clicked = &table.rows[row];
      ImGui::PopID();
      draw_cells(prepared, row);
    }
  }
  ImGui::EndTable();
  return clicked;
}

const json* OutputTables::draw(const Output& output, std::uint64_t version,
                               const IsSelected& is_selected) {
  prepare(output, version);
  const json* clicked = nullptr;
  for (Prepared& prepared : tables_) {
    ImGui::PushID(&prepared);
    if (!prepared.cells.empty() && !prepared.headings.empty())
      if (const json* row = draw_table(prepared, is_selected)) clicked = row;
    widgets::draw_notes(prepared.table->notes);
    ImGui::PopID();
  }
  return clicked;
}

}  // namespace phasescope::app
