#pragma once
// The tables of an output, as its verb prints them, in a view: sorted by a click on a heading.
#include <imgui.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/cli/output.h"

namespace phasescope::app {

class OutputTables {
 public:
  // Whether a row is to be lit up as selected.
  using IsSelected = std::function<bool(const nlohmann::json& row)>;
  // Draws those that a terminal would print, one below the other, with their notes. Another
  // `version` is another output. Returns the row that was clicked; nullptr for none.
  const nlohmann::json* draw(const Output& output, std::uint64_t version,
                             const IsSelected& is_selected = {});

 private:
  struct Prepared {
    const Table* table = nullptr;
    std::vector<std::string> headings;
    std::vector<std::vector<std::string>> cells;  // by row and column
    std::vector<bool> numbers;                    // by column: right-aligned
    std::vector<std::size_t> order;               // of the rows
  };
  void prepare(const Output& output, std::uint64_t version);
  const nlohmann::json* draw_table(Prepared& prepared, const IsSelected& is_selected);
  static void draw_cells(const Prepared& prepared, std::size_t row);

  std::uint64_t version_ = 0;
  std::vector<Prepared> tables_;
};

// Which of two cells stands first where rows rise: numbers and the means of intervals by their
// size, words by the alphabet, nothing last.
bool cell_before(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace phasescope::app
