#pragma once
// A table that is sorted, searched, clicked and copied, of as many rows as there are. By keys: Tab
// goes to a row, up and down to others, left and right along its cells, Space or Enter clicks the
// row or ticks the cell's box, the menu key copies the cell.
#include <imgui.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace phasescope::widgets {

struct TableColumn {
  std::string title;
  std::string help = {};  // said on hover of the title
  bool numbers = true;    // sorted as numbers, at the right edge; else as words
  std::string key = {};   // what conditions call it beside its title, where that is no word
};

struct TableCell {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::string words;                 // of a number: empty, and made when it is drawn
  double number = kNone;             // of a column of numbers
  double low = kNone, high = kNone;  // its interval
  int color = -1;                    // index for series_color
  // What the words mean, where they are no series': said in the theme's colour for it.
  enum class Tone { plain, quiet, accent, good, bad, warn } tone = Tone::plain;
  std::string help = {};  // said on hover
  // A box in place of words, which a click ticks or clears; `number` is 1 or 0 to be sorted by.
  std::optional<bool> box = {};
};
TableCell number_cell_of(double value, double low = TableCell::kNone,
                         double high = TableCell::kNone);
TableCell words_cell_of(std::string words, int color = -1);
TableCell box_cell_of(bool ticked, std::string help);
// In the theme as it is.
ImVec4 color_of(TableCell::Tone tone);
// "1.86", "1.86 [1.8, 1.9]", "-" where there is no number.
std::string text_of(const TableCell& cell);

struct TableSpec {
  std::string id;
  std::vector<TableColumn> columns;
  std::vector<std::vector<TableCell>> rows;  // each as long as columns
  int frozen = 1;                            // columns that stay while others scroll
};

// How the rows stand: by which column (-1: as they are), and which of them. `search` is words that
// are all to be found in a row's columns of words, whatever their case, and conditions on columns
// of numbers as "entropy>2", ">=", "<", "<=", "=" (to the digits shown).
struct TableArrangement {
  int column = -1;
  bool descending = true;
  std::string search;
  bool operator==(const TableArrangement&) const = default;
};

// Indices of the rows that are found, sorted; equal ones as they stand, and those without a number
// last in either direction. n log n comparisons of what is in the cells, no more.
std::vector<int> rows_in_order(const TableSpec& table, const TableArrangement& arrangement);

// What can be searched for, with a condition on a column that the table has: "Search, or a
// condition: sink>0"; without one where no title is a word that could stand in it.
std::string hint_of(const TableSpec& table);

// These rows as text: numbers in full, words as they are.
std::string csv_of(const TableSpec& table, const std::vector<int>& rows);
std::string markdown_of(const TableSpec& table, const std::vector<int>& rows);

struct TableDraw {
  std::uint64_t version = 0;    // another one arranges the rows anew
  float width = 0, height = 0;  // 0 or less: what is left
  bool searchable = true;
  std::string hint = {};                       // in the empty search; by default hint_of()
  std::function<bool(int row)> selected = {};  // marked rows
  int hovered = -1;                            // a row that is pointed at elsewhere
  bool reveal = false;                         // scrolls to the first selected row
  std::function<void(int row)> menu = {};      // items of the context menu below its own ones
};

struct TableDrawn {
  int hovered = -1, clicked = -1, double_clicked = -1;  // rows of the spec
  int box = -1;                                         // the row whose box was clicked
  bool arranged = false;                                // by a click or a search in this frame
};

// Keeps the arrangement, and the order that follows from it.
class DataTable {
 public:
  TableDrawn draw(const TableSpec& table, const TableDraw& options);
  const std::vector<int>& order() const { return order_; }
  const TableArrangement& arrangement() const { return arrangement_; }
  // From elsewhere (a session); shown with the next frame.
  void arrange(const TableArrangement& arrangement);

 private:
  void draw_search(const TableSpec& table, const TableDraw& options);
  void draw_titles(const TableSpec& table);
  void take_sorting();
  void order_rows(const TableSpec& table, const TableDraw& options);
  void draw_row(const TableSpec& table, const TableDraw& options, int row, TableDrawn& drawn);
  void draw_menu(const TableSpec& table, const TableDraw& options);
  void move_cell(int step);
  void leave_hidden_cell();

  TableArrangement arrangement_, arranged_;
  std::uint64_t version_ = 0;
  std::size_t rows_ = 0;  // that there were when they were last ordered
  bool known_ = false, set_sorting_ = true, fit_columns_ = false;
  std::vector<int> order_;
  std::vector<std::string> widest_;  // text of each column
  float letter_ = 0;                 // that the columns were made for
  int menu_row_ = -1, menu_column_ = 0;
  std::optional<ImVec2> menu_at_;  // below a cell, where keys asked for it
  int tab_row_ = -1, cell_ = 0;    // where keys are: a row and a column of the spec
  bool tab_row_drawn_ = false;
};

}  // namespace phasescope::widgets
