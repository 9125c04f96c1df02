#include "app/views/kept_tables.h"

#include <algorithm>

namespace phasescope::app {
namespace {

widgets::TableArrangement arrangement_of(const KeptArrangement& kept,
                                         const widgets::TableSpec& spec) {
  widgets::TableArrangement arrangement{.descending = kept.descending, .search = kept.search};
  const auto column = std::ranges::find(spec.columns, kept.column, &widgets::TableColumn::title);
  if (!kept.column.empty() && column != spec.columns.end()) {
    arrangement.column = static_cast<int>(column - spec.columns.begin());
  }
  return arrangement;
}

KeptArrangement kept_of(const widgets::TableArrangement& arrangement,
                        const widgets::TableSpec& spec) {
  if (arrangement.column < 0) return {.search = arrangement.search};
  return {spec.columns[static_cast<std::size_t>(arrangement.column)].title, arrangement.descending,
          arrangement.search};
}

}  // namespace

widgets::TableDrawn draw_kept_table(ViewContext& context, const std::string& key,
                                    widgets::DataTable& table, const widgets::TableSpec& spec,
                                    const widgets::TableDraw& options) {
  auto state = context.state<TablesState>();
  const auto kept = state.tables.find(key);
  table.arrange(
      arrangement_of(kept == state.tables.end() ? KeptArrangement{} : kept->second, spec));
  const widgets::TableDrawn drawn = table.draw(spec, options);
  if (!drawn.arranged) return drawn;
  const KeptArrangement now = kept_of(table.arrangement(), spec);
  if (now == KeptArrangement{}) {
    state.tables.erase(key);
  } else {
    state.tables[key] = now;
  }
  context.set_state("Arrange a table", state, "table " + key);
  return drawn;
}

}  // namespace phasescope::app
