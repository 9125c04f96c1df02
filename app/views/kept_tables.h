#pragma once
// Tables whose order and search are kept in the session, where a view has no state for them.
#include <map>
#include <string>

#include "app/window/view_context.h"
#include "widgets/data_table.h"

namespace phasescope::app {

// The column by its title: another answer may bring other columns.
struct KeptArrangement {
  std::string column;  // empty: as the rows are
  bool descending = true;
  std::string search;
  template <class V>
  void fields(V& v) {
    v("column", column), v("descending", descending), v("search", search);
  }
  bool operator==(const KeptArrangement&) const = default;
};

struct TablesState {
  static constexpr const char* kView = "tables";
  std::map<std::string, KeptArrangement> tables;  // those that are arranged
  template <class V>
  void fields(V& v) {
    v("tables", tables);
  }
};

// Draws a table as the session has it arranged, under a key of its own ("theory"), and keeps how it
// is arranged, as a step of undo.
widgets::TableDrawn draw_kept_table(ViewContext& context, const std::string& key,
                                    widgets::DataTable& table, const widgets::TableSpec& spec,
                                    const widgets::TableDraw& options);

}  // namespace phasescope::app
