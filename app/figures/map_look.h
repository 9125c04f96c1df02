#pragma once
// How the values of an attention map become colours, where the user chooses that.
#include <optional>
#include <string>

#include "widgets/plot_spec.h"

namespace phasescope::app {

struct MapLook {
  std::string scale = "by itself";  // linear, log; by itself: log where is_thin()
  int decades = 4;                  // of a log scale, below its upper end
  // Of the range; fitted where missing, or where low is not below high. A log scale has its lower
  // end from `decades`.
  std::optional<double> low, high;
  // Key 0 takes most of the weight of many heads: the range is fitted to the other keys.
  bool leave_out_first = false;
  template <class V>
  void fields(V& v) {
    v("scale", scale), v("decades", decades), v("low", low), v("high", high);
    v("leave_out_first", leave_out_first);
  }
};

// Whether a map of weights is white on a linear scale: it is a line of a few cells, so that fewer
// than one in ten reach a tenth of the largest one, or no cell reaches a tenth of 1. Of masked
// cells and those that are not finite nothing is said.
bool is_thin(const widgets::MapSpec& map);

// The range of the colours as chosen, a log scale for weights alone.
void apply_look(widgets::MapSpec& map, const MapLook& look);

// What two maps that are shown beside each other have in common where it is left to the program:
// one scale, and one range that holds both.
MapLook common_look(const MapLook& look, widgets::MapSpec a, widgets::MapSpec b);

// What the range leaves out: "2 cells below 0.1 and 1 above 0.5 have the colours of the ends",
// "key 0 left out of the range"; empty where every cell has a colour of its own.
std::string clipping_note(const widgets::MapSpec& map, const MapLook& look);

// signed_values for numbers on both sides of 0, viridis for those of one sign.
widgets::Colormap colors_of(widgets::ValueRange range);

}  // namespace phasescope::app
