#pragma once
// A table under a figure with a row for each model, as Distance and Extrapolation have it.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/window/view_context.h"
#include "widgets/data_table.h"

namespace phasescope::app {

// How a table of so many rows is drawn under something else: as high as its rows are, of which many
// are scrolled and searched.
widgets::TableDraw options_of_rows(std::size_t rows, std::uint64_t version);

// The rows of a table, and the model that each of them is about.
struct ModelRows {
  widgets::TableSpec spec;
  std::vector<std::string> models;
};
// The short name of a model in its colour; the whole one and `help` are said on hover.
widgets::TableCell cell_of_model(const Session& session, const std::string& model,
                                 const std::string& help = {});

class ModelTable {
 public:
  // Pixels that so many rows take in the room that is left, half of it at most; of none 0.
  static float height_of(std::size_t rows);
  // In so many pixels (0: not at all), dimmed where `old`. Sorted by a click on a title; a click on
  // a row selects its model. `menu` draws what the view adds to the context menu.
  void draw(ViewContext& context, const ModelRows& rows, std::uint64_t version, float height,
            bool old, const std::function<void()>& menu);

 private:
  void draw_rows(ViewContext& context, const ModelRows& rows, std::uint64_t version,
                 const std::function<void()>& menu);

  widgets::DataTable table_;
};

}  // namespace phasescope::app
