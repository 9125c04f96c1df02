#include "widgets/data_table.h"

#include <imgui.h>
#include <imgui_internal.h>  // of tables: their directions, their widths
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "widgets/focus_keys.h"
#include "widgets/plot_spec.h"
#include "widgets/plot_table.h"
#include "widgets/scaled.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

char in_lower_case_of(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

std::string in_lower_case(std::string words) {
  for (char& c : words) c = in_lower_case_of(c);
  return words;
}

// One word of a search: a condition where it names a column of numbers, else a part of a cell.
struct SearchTerm {
  std::string words;  // in lower case
  int column = -1;
  std::string compare;
  double number = 0;

  bool holds(const std::vector<TableCell>& row) const {
    if (column < 0) {
      return std::ranges::any_of(row, [&](const TableCell& cell) {
        return !std::ranges::search(cell.words, words, {}, in_lower_case_of).empty();
      });
    }
    const double value = row[static_cast<std::size_t>(column)].number;
    if (compare == ">") return value > number;
    if (compare == "<") return value < number;
    if (compare == ">=") return value >= number;
    if (compare == "<=") return value <= number;
    return value == number || (!std::isnan(value) && short_number(value) == short_number(number));
  }
};

// The column of this title or key, else the first that begins with it; -1 where none does.
int column_called(const TableSpec& table, const std::string& name) {
  int found = -1;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string title = in_lower_case(table.columns[i].title);
    if (!table.columns[i].numbers || name.empty()) continue;
    const std::string key = in_lower_case(table.columns[i].key);
    if (title == name || key == name) return static_cast<int>(i);
    if (found < 0 && (title.starts_with(name) || key.starts_with(name))) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

std::optional<double> number_in(const std::string& words) {
  double value = 0;
  const char* end = words.data() + words.size();
  const auto [stop, error] = std::from_chars(words.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

SearchTerm term_of(const TableSpec& table, const std::string& word) {
  SearchTerm term{in_lower_case(word)};
  const std::size_t sign = term.words.find_first_of("<>=");
  if (sign == std::string::npos) return term;
  std::size_t end = sign + 1;
  if (end < term.words.size() && term.words[end] == '=') ++end;
  const auto number = number_in(term.words.substr(end));
  const int column = column_called(table, term.words.substr(0, sign));
  if (!number || column < 0) return term;
  term.column = column, term.number = *number;
  term.compare = term.words.substr(sign, end - sign);
  return term;
}

std::vector<SearchTerm> terms_of(const TableSpec& table, const std::string& search) {
  std::vector<SearchTerm> terms;
  std::istringstream words(search);
  for (std::string word; words >> word;) terms.push_back(term_of(table, word));
  return terms;
}

// The rows by what is read of each of them once: thousands of rows lie far apart in memory, and
// comparing them in their places would take longer than a frame may.
template <class Value, class Read, class Before>
void sort_by(std::vector<int>& rows, Read read, Before before) {
  std::vector<std::pair<Value, int>> keys;
  keys.reserve(rows.size());
  for (const int row : rows) keys.emplace_back(read(row), row);
  std::ranges::stable_sort(keys, before, &std::pair<Value, int>::first);
  std::ranges::transform(keys, rows.begin(), &std::pair<Value, int>::second);
}

void sort_rows(const TableSpec& table, const TableArrangement& by, std::vector<int>& rows) {
  const auto column = static_cast<std::size_t>(by.column);
  const auto cell = [&](int row) -> const TableCell& {
    return table.rows[static_cast<std::size_t>(row)][column];
  };
  if (!table.columns[column].numbers) {
    return sort_by<std::string_view>(
        rows, [&](int row) { return std::string_view(cell(row).words); },
        [&](std::string_view a, std::string_view b) { return by.descending ? b < a : a < b; });
  }
  sort_by<double>(
      rows, [&](int row) { return cell(row).number; },
      [&](double x, double y) {
        if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
        return by.descending ? x > y : x < y;
      });
}

// Enough digits to be read back.
std::string in_full(const TableColumn& column, const TableCell& cell) {
  if (!column.numbers || std::isnan(cell.number)) return text_of(cell);
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", cell.number);
  return text;
}

std::string markdown_cell(const std::string& words) {
  std::string out;
  for (const char c : words) out += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return out;
}

// A number at the right edge of a cell, or of the part of it that is in sight where the column is
// cut off at the table's edge. Of a number that has no room there its first digits would be read
// for all of it: it is said under the pointer.
void draw_at_the_right(const std::string& words) {
  const float begin = ImGui::GetCursorScreenPos().x;
  const float seen = ImGui::GetCurrentTable()->InnerClipRect.Max.x - begin;
  const float width = ImGui::CalcTextSize(words.c_str()).x;
  const float cell = std::max(ImGui::GetContentRegionAvail().x, width);
  if (width > seen + 1) {
    ImGui::TextColored(palette().quiet, "...");
    return ImGui::SetItemTooltip("%s", words.c_str());
  }
  const float room = std::max(0.0F, std::min(cell, seen) - width);
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  ImGui::TextUnformatted(words.c_str());
}

// Words that have no room in their cell, or in the part of it that is in sight, end in an ellipsis.
// They take their whole width all the same, so that the column can be fitted to them. True where
// they were cut.
bool draw_at_the_left(const std::string& words, const ImVec4& color) {
  const float begin = ImGui::GetCursorScreenPos().x;
  const float seen = ImGui::GetCurrentTable()->InnerClipRect.Max.x - begin;
  const float room = std::min(ImGui::GetContentRegionAvail().x, seen);
  const ImVec2 size = ImGui::CalcTextSize(words.c_str());
  const bool cut = size.x > room + 1 && room > 0 && words.find('\n') == words.npos;
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  if (cut) {
    const float top = ImGui::GetCursorScreenPos().y;
    ImGui::RenderTextEllipsis(ImGui::GetWindowDrawList(), {begin, top},
                              {begin + room, top + size.y}, begin + room, words.c_str(), nullptr,
                              &size);
    ImGui::Dummy(size);
  } else {
    ImGui::TextUnformatted(words.c_str());
  }
  ImGui::PopStyleColor();
  return cut;
}

// True where it was clicked. No higher than a line of words.
bool draw_box(const TableCell& cell) {
  bool ticked = *cell.box;
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {0, 0});
  ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true);  // keys tick it from its row
  const bool clicked = ImGui::Checkbox("##box", &ticked);
  ImGui::PopItemFlag();
  ImGui::PopStyleVar();
  if (!cell.help.empty()) ImGui::SetItemTooltip("%s", cell.help.c_str());
  return clicked;
}

void draw_words(const TableColumn& column, const TableCell& cell) {
  const bool plain = cell.color < 0 && cell.tone == TableCell::Tone::plain;
  std::string help = cell.help;
  if (plain && column.numbers) {
    draw_at_the_right(text_of(cell));
  } else if (draw_at_the_left(cell.words,
                              cell.color >= 0 ? series_text(cell.color) : color_of(cell.tone))) {
    help = cell.words + (help.empty() ? "" : "\n") + help;
  }
  if (!help.empty()) ImGui::SetItemTooltip("%s", help.c_str());
}

// ---- A table by keys ----------------------------------------------------------------------------

// The rows of the next table are among what the focus goes through in its window, and not behind a
// door that Enter opens.
void let_keys_into_next_table() {
  if (ImGui::GetCurrentWindow()->SkipItems) return;  // the table would leave it to another window
  ImGuiNextWindowData& next = ImGui::GetCurrentContext()->NextWindowData;
  next.HasFlags |= ImGuiNextWindowDataFlags_HasChildFlags;
  next.ChildFlags = ImGuiChildFlags_NavFlattened;
}

bool pressed_by_key(ImGuiID item) {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  return g.NavActivateId == item || g.NavActivatePressedId == item;
}

constexpr float kCellFrame = 2;

// Of the row that has the focus by keys, the cell that they would tick or copy.
void draw_frame_of_cell(int column) {
  if (!ImGui::GetCurrentContext()->NavCursorVisible) return;
  const ImRect cell = ImGui::TableGetCellBgRect(ImGui::GetCurrentTable(), column);
  ImGui::GetWindowDrawList()->AddRect(cell.Min, cell.Max, ImGui::GetColorU32(ImGuiCol_NavCursor), 0,
                                      scaled(kCellFrame));
}

// What the pointer would be told there.
void tell_of_cell(const TableColumn& column, const TableCell& cell) {
  if (!ImGui::GetCurrentContext()->NavHighlightItemUnderNav) return;
  if (!cell.help.empty()) ImGui::SetItemTooltip("%s: %s", column.title.c_str(), cell.help.c_str());
}

// Scrolls sideways to where a column is in sight beside those that stay.
void scroll_to_column(int column) {
  const ImGuiTable* table = ImGui::GetCurrentTable();
  ImRect cell = ImGui::TableGetCellBgRect(table, column);
  const int frozen = table->FreezeColumnsCount;
  if (table->Columns[column].DisplayOrder < frozen) return;
  if (frozen > 0) {
    const int last = table->DisplayOrderToIndex[frozen - 1];
    cell.Min.x -= table->Columns[last].MaxX - table->InnerRect.Min.x;
  }
  ImGui::ScrollToRect(table->InnerWindow, cell, ImGuiScrollFlags_KeepVisibleEdgeX);
}

// Of every column of numbers the longest text, among as many rows as are looked at in no time.
std::vector<std::string> widest_of(const TableSpec& table) {
  constexpr std::size_t kMostRows = 2048;
  std::vector<std::string> widest(table.columns.size());
  for (std::size_t row = 0; row < std::min(table.rows.size(), kMostRows); ++row) {
    const auto& cells = table.rows[row];
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (!table.columns[c].numbers || cells[c].box) continue;
      std::string text = text_of(cells[c]);
      if (text.size() > widest[c].size()) widest[c] = std::move(text);
    }
  }
  return widest;
}

}  // namespace

ImVec4 color_of(TableCell::Tone tone) {
  const Palette& colors = palette();
  switch (tone) {
    case TableCell::Tone::plain:
      break;
    case TableCell::Tone::quiet:
      return colors.quiet;
    case TableCell::Tone::accent:
      return colors.accent;
    case TableCell::Tone::good:
      return colors.good;
    case TableCell::Tone::bad:
      return colors.bad;
    case TableCell::Tone::warn:
      return colors.warn;
  }
  return ImGui::GetStyleColorVec4(ImGuiCol_Text);
}

TableCell number_cell_of(double value, double low, double high) {
  TableCell cell;
  cell.number = value, cell.low = low, cell.high = high;
  return cell;
}

std::string text_of(const TableCell& cell) {
  if (!cell.words.empty()) return cell.words;
  if (std::isnan(cell.number)) return "-";
  const std::string words = short_number(cell.number);
  if (std::isnan(cell.low) || std::isnan(cell.high)) return words;
  return words + " [" + short_number(cell.low) + ", " + short_number(cell.high) + "]";
}

TableCell words_cell_of(std::string words, int color) {
  TableCell cell;
  cell.words = std::move(words), cell.color = color;
  return cell;
}

TableCell box_cell_of(bool ticked, std::string help) {
  TableCell cell = number_cell_of(ticked ? 1 : 0);
  cell.box = ticked, cell.help = std::move(help);
  return cell;
}

std::vector<int> rows_in_order(const TableSpec& table, const TableArrangement& arrangement) {
  std::vector<int> rows(table.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  const std::vector<SearchTerm> terms = terms_of(table, arrangement.search);
  std::erase_if(rows, [&](int row) {
    return !std::ranges::all_of(terms, [&](const SearchTerm& term) {
      return term.holds(table.rows[static_cast<std::size_t>(row)]);
    });
  });
  const bool sorted =
      arrangement.column >= 0 && arrangement.column < static_cast<int>(table.columns.size());
  if (sorted) sort_rows(table, arrangement, rows);
  return rows;
}

std::string csv_of(const TableSpec& table, const std::vector<int>& rows) {
  std::string text;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    text += (c ? "," : "") + csv_quoted(table.columns[c].title);
  }
  text += "\n";
  for (const int row : rows) {
    const auto& cells = table.rows[static_cast<std::size_t>(row)];
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      text += (c ? "," : "") + csv_quoted(in_full(table.columns[c], cells[c]));
    }
    text += "\n";
  }
  return text;
}

std::string markdown_of(const TableSpec& table, const std::vector<int>& rows) {
  std::string text = "|", rule = "|";
  for (const TableColumn& column : table.columns) {
    text += " " + markdown_cell(column.title) + " |";
    rule += column.numbers ? " ---: |" : " --- |";
  }
  text += "\n" + rule + "\n";
  for (const int row : rows) {
    text += "|";
    for (const TableCell& cell : table.rows[static_cast<std::size_t>(row)]) {
      text += " " + markdown_cell(text_of(cell)) + " |";
    }
    text += "\n";
  }
  return text;
}

void DataTable::arrange(const TableArrangement& arrangement) {
  if (arrangement == arrangement_) return;
  arrangement_ = arrangement;
  set_sorting_ = true;
}

std::string hint_of(const TableSpec& table) {
  const auto is_word = [](const TableColumn& column) {
    return column.numbers && !column.title.empty() &&
           std::isalpha(static_cast<unsigned char>(column.title[0])) &&
           column.title.find_first_of(" []()<>=") == column.title.npos;
  };
  const auto found = std::ranges::find_if(table.columns, is_word);
  return found == table.columns.end() ? "Search" : "Search, or a condition: " + found->title + ">0";
}

void DataTable::draw_search(const TableSpec& table, const TableDraw& options) {
  const std::string count =
      order_.size() == table.rows.size()
          ? std::to_string(table.rows.size())
          : std::to_string(order_.size()) + " of " + std::to_string(table.rows.size());
  const float words = ImGui::CalcTextSize(count.c_str()).x + ImGui::GetStyle().ItemSpacing.x;
  const float room = options.width > 0 ? options.width : ImGui::GetContentRegionAvail().x;
  ImGui::SetNextItemWidth(std::max(40.0F, room - words));
  const std::string hint = options.hint.empty() ? hint_of(table) : options.hint;
  ImGui::InputTextWithHint("##search", hint.c_str(), &arrangement_.search);
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  ImGui::TextColored(palette().quiet, "%s", count.c_str());
}

void DataTable::draw_titles(const TableSpec& table) {
  ImGui::TableSetupScrollFreeze(table.frozen, 1);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    ImGuiTableColumnFlags flags = table.columns[i].numbers
                                      ? ImGuiTableColumnFlags_PreferSortDescending
                                      : ImGuiTableColumnFlags_None;
    ImGui::TableSetupColumn(table.columns[i].title.c_str(), flags, 0, static_cast<ImGuiID>(i));
  }
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);  // columns are what they are from here on
  if (std::exchange(set_sorting_, false)) {
    const bool sorted = arrangement_.column >= 0;
    const auto direction =
        arrangement_.descending ? ImGuiSortDirection_Descending : ImGuiSortDirection_Ascending;
    ImGui::TableSetColumnSortDirection(sorted ? arrangement_.column : 0,
                                       sorted ? direction : ImGuiSortDirection_None, false);
  }
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (!ImGui::TableSetColumnIndex(static_cast<int>(i))) continue;
    ImGui::PushItemFlag(ImGuiItemFlags_NoTabStop, i > 0);  // arrows go on to the others
    ImGui::TableHeader(table.columns[i].title.c_str());
    ImGui::PopItemFlag();
    // Dear ImGui knows no row that it does not draw.
    ImGuiTableColumn& column = ImGui::GetCurrentTable()->Columns[static_cast<int>(i)];
    const float wide = column.WorkMinX + ImGui::CalcTextSize(widest_[i].c_str()).x;
    column.ContentMaxXHeadersIdeal = std::max(column.ContentMaxXHeadersIdeal, wide);
    if (!table.columns[i].help.empty()) ImGui::SetItemTooltip("%s", table.columns[i].help.c_str());
  }
}

void DataTable::take_sorting() {
  ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
  if (!specs || !specs->SpecsDirty) return;
  arrangement_.column = specs->SpecsCount ? static_cast<int>(specs->Specs[0].ColumnUserID) : -1;
  if (specs->SpecsCount) {
    arrangement_.descending = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
  }
  specs->SpecsDirty = false;
}

void DataTable::order_rows(const TableSpec& table, const TableDraw& options) {
  if (known_ && version_ == options.version && arranged_ == arrangement_) return;
  order_ = rows_in_order(table, arrangement_);
  // Columns would stay as wide as the rows that were there first needed them.
  fit_columns_ = fit_columns_ || (known_ && rows_ != table.rows.size());
  if (!known_ || version_ != options.version) {
    const std::vector<std::string> before = std::exchange(widest_, widest_of(table));
    for (std::size_t c = 0; c < std::min(before.size(), widest_.size()); ++c) {
      fit_columns_ = fit_columns_ || widest_[c].size() > before[c].size();
    }
  }
  rows_ = table.rows.size();
  arranged_ = arrangement_, version_ = options.version, known_ = true;
}

void DataTable::draw_row(const TableSpec& table, const TableDraw& options, int row,
                         TableDrawn& drawn) {
  const auto& cells = table.rows[static_cast<std::size_t>(row)];
  ImGui::TableNextRow();
  ImGui::TableSetColumnIndex(0);
  ImGui::PushID(row);
  const bool selected = options.selected && options.selected(row);
  const auto flags = ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowOverlap |
                     ImGuiSelectableFlags_AllowDoubleClick;
  ImGui::PushItemFlag(ImGuiItemFlags_NoTabStop, row != tab_row_);
  const bool pressed = ImGui::Selectable("##row", selected, flags);
  ImGui::PopItemFlag();
  const ImGuiID item = ImGui::GetItemID();
  const bool focused = has_focus(item);
  if (focused) tab_row_ = row, move_cell(step_aside(item));
  if (row == tab_row_) tab_row_drawn_ = true;
  if (pressed && pressed_by_key(item) && cells[static_cast<std::size_t>(cell_)].box) {
    drawn.box = row;
  } else if (pressed) {
    drawn.clicked = row;
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) drawn.double_clicked = row;
  }
  if (ImGui::IsItemHovered()) drawn.hovered = row;
  const bool by_key = asks_for_menu(item);
  if (by_key || ImGui::IsItemClicked(ImGuiMouseButton_Right)) {
    menu_row_ = row, menu_column_ = by_key ? cell_ : std::max(0, ImGui::TableGetHoveredColumn());
    drawn.hovered = row;
    // Below the cell: the row may begin far outside of what is in sight.
    menu_at_.reset();
    if (by_key) menu_at_ = ImGui::TableGetCellBgRect(ImGui::GetCurrentTable(), cell_).GetBL();
  }
  if (focused) {
    tell_of_cell(table.columns[static_cast<std::size_t>(cell_)],
                 cells[static_cast<std::size_t>(cell_)]);
  }
  if (row == options.hovered) {
    ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg0, ImGui::GetColorU32(ImGuiCol_HeaderHovered));
  }
  ImGui::SameLine(0, 0);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (!ImGui::TableSetColumnIndex(static_cast<int>(c))) continue;
    if (focused && static_cast<int>(c) == cell_) draw_frame_of_cell(cell_);
    if (!cells[c].box) {
      draw_words(table.columns[c], cells[c]);
    } else if (draw_box(cells[c])) {
      drawn.box = row;
    }
  }
  ImGui::PopID();
}

// The cell of keys is one that is seen: of a column that was hidden it goes to the first shown.
void DataTable::leave_hidden_cell() {
  const ImGuiTable* table = ImGui::GetCurrentTable();
  for (int place = 0; place < table->ColumnsCount && !table->Columns[cell_].IsEnabled; ++place) {
    const int column = table->DisplayOrderToIndex[place];
    if (table->Columns[column].IsEnabled) cell_ = column;
  }
}

// In the order shown; columns that are hidden are passed over.
void DataTable::move_cell(int step) {
  const ImGuiTable* table = ImGui::GetCurrentTable();
  int place = table->Columns[cell_].DisplayOrder + step;
  for (; step != 0 && place >= 0 && place < table->ColumnsCount; place += step) {
    const int column = table->DisplayOrderToIndex[place];
    if (!table->Columns[column].IsEnabled) continue;
    cell_ = column;
    return scroll_to_column(column);
  }
}

void DataTable::draw_menu(const TableSpec& table, const TableDraw& options) {
  if (menu_at_) ImGui::SetNextWindowPos(*menu_at_, ImGuiCond_Appearing);
  if (!ImGui::BeginPopup("table menu")) return;
  const bool known = menu_row_ >= 0 && menu_row_ < static_cast<int>(table.rows.size()) &&
                     menu_column_ < static_cast<int>(table.columns.size());
  if (known && ImGui::MenuItem("Copy this cell")) {
    const auto column = static_cast<std::size_t>(menu_column_);
    const auto& cells = table.rows[static_cast<std::size_t>(menu_row_)];
    ImGui::SetClipboardText(in_full(table.columns[column], cells[column]).c_str());
  }
  if (ImGui::MenuItem("Copy as CSV")) ImGui::SetClipboardText(csv_of(table, order_).c_str());
  if (ImGui::MenuItem("Copy as Markdown")) {
    ImGui::SetClipboardText(markdown_of(table, order_).c_str());
  }
  if (arrangement_.column >= 0 && ImGui::MenuItem("As it stood at first")) {
    arrangement_.column = -1;
    set_sorting_ = true;
  }
  if (known && options.menu) options.menu(menu_row_);
  ImGui::EndPopup();
}

TableDrawn DataTable::draw(const TableSpec& table, const TableDraw& options) {
  TableDrawn drawn;
  ImGui::PushID(table.id.c_str());
  const TableArrangement before = arrangement_;
  order_rows(table, options);  // of a table out of sight too, whose rows are counted
  if (options.searchable) draw_search(table, options);
  const auto flags = ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate |
                     ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                     ImGuiTableFlags_Hideable | ImGuiTableFlags_Resizable |
                     ImGuiTableFlags_Reorderable | ImGuiTableFlags_SizingFixedFit |
                     ImGuiTableFlags_NoSavedSettings;
  const int columns = static_cast<int>(table.columns.size());
  menu_row_ = ImGui::IsPopupOpen("table menu") ? menu_row_ : -1;
  if (cell_ >= columns) cell_ = 0;
  if (columns > 0) let_keys_into_next_table();
  if (columns > 0 &&
      ImGui::BeginTable("table", columns, flags,
                        {std::max(0.0F, options.width), std::max(0.0F, options.height)})) {
    draw_titles(table);
    leave_hidden_cell();
    take_sorting();
    order_rows(table, options);
    // Letters are whole pixels wide: of another size they are not all so much larger or smaller.
    const float letter = std::exchange(letter_, ImGui::GetFontSize());
    fit_columns_ = fit_columns_ || (letter > 0 && letter != letter_);
    if (std::exchange(fit_columns_, false)) {
      ImGui::TableSetColumnWidthAutoAll(ImGui::GetCurrentTable());
    }
    // Tab stops at one row, where the focus was last or else at the first, and goes on from there:
    // thousands of rows would be no way through a window.
    if (!std::exchange(tab_row_drawn_, false)) tab_row_ = order_.empty() ? -1 : order_.front();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(order_.size()));
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        draw_row(table, options, order_[static_cast<std::size_t>(i)], drawn);
      }
    }
    if (options.reveal && options.selected) {
      const auto found = std::ranges::find_if(order_, options.selected);
      if (found != order_.end()) {
        ImGui::SetScrollY(static_cast<float>(found - order_.begin()) * clipper.ItemsHeight -
                          ImGui::GetWindowHeight() / 2);
      }
    }
    ImGui::EndTable();
  }
  if (menu_row_ >= 0 && !ImGui::IsPopupOpen("table menu")) ImGui::OpenPopup("table menu");
  draw_menu(table, options);
  drawn.arranged = !(before == arrangement_);
  ImGui::PopID();
  return drawn;
}

}  // namespace phasescope::widgets
