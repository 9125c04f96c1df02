#pragma once
// Figures beside each other, for views that show several.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "widgets/plot_draw.h"

namespace phasescope::app {

// The height of a figure, in pixels: its `share` of those in sight, and so many font sizes at
// least, so that it can be read. Where large letters make that more than is in sight, a figure
// takes what is in sight, so that it is seen as a whole.
float figure_height(float share, float in_sight, float font_sizes);

// As many columns as have room, every figure as high as figure_height() says: what has no room is
// scrolled to with the view around it.
class PlotGrid {
 public:
  struct Options {
    bool old = false;    // drawn as what was asked for before
    float below = 0;     // pixels that something under the figures takes
    bool titles = true;  // of each figure
  };
  // Draws one figure in its place.
  using DrawFigure = std::function<void(const widgets::PlotSpec&, widgets::PlotDraw)>;
  // `version` is another one when the figures are.
  void draw(const std::vector<widgets::PlotSpec>& plots, std::uint64_t version,
            const Options& options, const DrawFigure& draw = widgets::draw_plot);

 private:
  struct Picture {
    widgets::HeatmapTexture texture;
    std::uint64_t version = 0;
  };
  std::map<std::string, Picture> pictures_;  // by the figure's id
};

// The first of the notes that has room for it in one line, and all of them on hover.
void draw_folded_notes(const std::vector<std::string>& notes);

}  // namespace phasescope::app
