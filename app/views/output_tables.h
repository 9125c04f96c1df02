#pragma once
// The tables and figures of an output, as its verb prints them, in a view.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/output.h"
#include "app/window/view_context.h"
#include "widgets/data_table.h"
#include "widgets/heatmap.h"

namespace phasescope::app {

// A table of a verb as the window draws it: the same headings and words.
widgets::TableSpec spec_of(const Table& table);

class OutputTables {
 public:
  // Whether a row is to be lit up as selected.
  using IsSelected = std::function<bool(const nlohmann::json& row)>;
  // Draws those that a terminal would print, one below the other, without their notes. Another
  // `version` is another output, whose tables are arranged as the session has those under `key`.
  // Returns the row that was clicked; nullptr for none.
  const nlohmann::json* draw(ViewContext& context, const std::string& key, const Output& output,
                             std::uint64_t version, const IsSelected& is_selected = {});

 private:
  struct Prepared {
    const Table* table = nullptr;
    widgets::TableSpec spec;
    widgets::DataTable drawn;
  };
  std::uint64_t version_ = 0;
  std::vector<std::unique_ptr<Prepared>> tables_;
};

// The notes of those tables and of all figures, each once.
std::vector<std::string> notes_of(const Output& output);

// The pictures of the maps among some figures, made anew with another `version` of them.
class FigureTextures {
 public:
  widgets::HeatmapTexture* of(const widgets::PlotSpec& plot, std::size_t place,
                              std::uint64_t version);

 private:
  struct Picture {
    widgets::HeatmapTexture texture;
    std::uint64_t version = 0;
  };
  std::vector<std::unique_ptr<Picture>> pictures_;  // by place
};

}  // namespace phasescope::app
