#pragma once

#include <imgui.h>

#include <span>
#include <string>
#include <vector>

#include "widgets/heatmap.h"
#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// All heads of a model as thumbnails: a layer's heads from left to right, in as many lines as they
// need, layers down; or in any order of cells.
struct HeadGridSpec {
  int layers = 0, heads = 0;
  int side = 0;                // cells of one thumbnail's edge in the atlas
  MapSpec look;                // colours and range of the thumbnails
  std::vector<int> order;      // cells (layer * heads + head); empty: as they stand
  float smallest_pixels = 12;  // of a thumbnail's edge
};

// What stands under the pictures, one a cell. A grid of a thousand heads has no room for it, so
// that it is made where captioned_edge() says that there may be.
struct HeadCaptionWords {
  std::vector<std::string> full;   // "L3H5  1.86"
  std::vector<std::string> brief;  // for small pictures: "1.86"
};

enum class HeadCaptions { none, brief, full };

// How large the pictures are, and which captions all of them have room for.
struct HeadGridFit {
  float pixels = 0;
  HeadCaptions captions = HeadCaptions::none;
};
// The widest caption of each form in pixels, measured with the present font; 0 without captions.
struct CaptionWidths {
  float full = 0, brief = 0;
};
CaptionWidths caption_widths(const HeadCaptionWords& words);
float caption_width(const std::string& words);
// The edge of the pictures in that room, were there captions under them.
float captioned_edge(const HeadGridSpec& grid, ImVec2 room);
// As large as they can be so that all are in the room, never smaller than smallest_pixels: then
// they are higher than the room, and to be scrolled. Captions of no more than the form `most`.
HeadGridFit fit_head_grid(const HeadGridSpec& grid, const CaptionWidths& widths, ImVec2 room,
                          HeadCaptions most = HeadCaptions::full);

// What differs from frame to frame. pixels 0: one line a layer, as wide as the room.
struct HeadGridDraw {
  HeadGridFit fit;
  int selected = -1, hovered = -1;             // cells; hovered: pointed at elsewhere
  const std::vector<char>* chosen = nullptr;   // one a cell
  std::span<const char> found = {};            // one a cell, the others dimmed; empty: all
  const HeadCaptionWords* captions = nullptr;  // where `fit` has them
};

struct HeadGridDrawn {
  int hovered = -1;  // a cell
  int clicked = -1;
  int stepped = -1;  // to the picture beside the selected one by an arrow key
};

// The atlas of (layers, heads, side, side) values: thumbnails beside each other in one picture.
struct HeadAtlas {
  int rows = 0, cols = 0;
  std::vector<float> values;
};
HeadAtlas atlas_of(int layers, int heads, int side, std::span<const float> thumbnails);

// One draw-list image a thumbnail and one invisible button for all of them.
HeadGridDrawn draw_head_grid(const HeadGridSpec& grid, HeatmapTexture& atlas,
                             const HeadGridDraw& draw = {});

}  // namespace phasescope::widgets
