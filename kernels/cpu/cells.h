#pragma once
// How a view of the map is divided into cells, and the cells into work items.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace phasescope::kernels {

/// begin .. end divided into `cells` parts; with fewer entries than cells, entries repeat.
struct CellAxis {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t cells = 0;

  std::int64_t first(std::int64_t cell) const { return begin + cell * (end - begin) / cells; }
  std::int64_t last(std::int64_t cell) const {
    return std::max(first(cell) + 1, begin + (cell + 1) * (end - begin) / cells);
  }
};

/// Cells [begin, end) of one axis.
struct CellGroup {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Consecutive cells in groups of about `entries` entries; at least one cell each.
inline std::vector<CellGroup> group_cells(const CellAxis& axis, std::int64_t entries) {
  std::vector<CellGroup> groups;
  for (std::int64_t cell = 0; cell < axis.cells;) {
    std::int64_t end = cell + 1;
    while (end < axis.cells && axis.last(end) - axis.first(cell) <= entries) ++end;
    groups.push_back({cell, end});
    cell = end;
  }
  return groups;
}

}  // namespace phasescope::kernels
