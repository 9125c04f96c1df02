#pragma once

#include <optional>
#include <string>
#include <vector>

#include "widgets/heatmap.h"
#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// All heads of a model as thumbnails: layers down, heads across, or in any order of cells.
struct HeadGridSpec {
  int layers = 0, heads = 0;
  int side = 0;                       // cells of one thumbnail's edge in the atlas
  MapSpec look;                       // colours and range of the thumbnails
  std::vector<int> order;             // cells (layer * heads + head); empty: as they stand
  std::vector<std::string> captions;  // one a cell: "L3H5  1.86"
  std::vector<char> dimmed;           // one a cell, or empty: filtered out
  int selected = -1;                  // a cell
  float cell_pixels = 0;              // 0: so that all heads of a layer fit in a row
  float smallest_pixels = 12;         // of a thumbnail's edge
};

struct HeadGridDrawn {
  int hovered = -1;  // a cell
  int clicked = -1;
};

// The atlas of (layers, heads, side, side) values: thumbnails beside each other in one picture.
struct HeadAtlas {
  int rows = 0, cols = 0;
  std::vector<float> values;
};
HeadAtlas atlas_of(int layers, int heads, int side, const std::vector<float>& thumbnails);

// One draw-list image a thumbnail and one invisible button for all of them.
HeadGridDrawn draw_head_grid(const HeadGridSpec& grid, HeatmapTexture& atlas);

}  // namespace phasescope::widgets
