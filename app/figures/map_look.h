#pragma once
// How the values of an attention map become colours, where the user chooses that.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/map.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

inline constexpr const char* kScales = "automatic|linear|log";

struct MapLook {
  std::string scale = "automatic";  // linear, log; otherwise: log where is_thin()
  std::int64_t decades = 4;         // of a log scale, below its upper end
  // Of the range; fitted where missing, or where low is not below high. A log scale has its lower
  // end from `decades`.
  std::optional<double> low = {}, high = {};
  // Key 0 takes most of the weight of many heads: the range is fitted to the other keys.
  bool leave_out_first = false;
  template <class V>
  void fields(V& v) {
    using protocol::About;
    v("scale", scale,
      About{.help = "of the colours of weights; automatic: log where few cells are large",
            .choices = kScales});
    v("decades", decades,
      About{.help = "of a log scale, below its upper end", .low = 1, .high = 12});
    v("low", low, About{.help = "lower end of the colours (default: fitted, of weights 0)"});
    v("high", high, About{.help = "upper end of the colours (default: fitted, of weights 1)"});
    v("leave_out_first", leave_out_first,
      About{.help = "the colours are fitted to the keys behind key 0"});
  }
  bool operator==(const MapLook&) const = default;
};

// What the command line's `map` draws: the request, how it looks, and another map to subtract. The
// window copies it as a command.
struct DrawnMap : protocol::MapRequest {
  MapLook look{.scale = "linear"};
  std::string minus;
  std::vector<std::string> minus_head;
  bool subtracts() const { return !minus.empty() || !minus_head.empty(); }
  template <class V>
  void fields(V& v) {
    using protocol::About;
    MapRequest::fields(v);
    look.fields(v);
    v("minus", minus,
      About{.help = "model whose map is subtracted: A, B and A - B are drawn, A and B on one "
                    "scale (with --minus-head alone: the same model)"});
    v("minus_head", minus_head,
      About{.help = "its head, or several for their mean (default: the same)"});
  }
};

// Throws Error "bad_usage" for choices that change nothing of a map of this quantity (`of`).
void check_look(const MapLook& look, const std::string& of);

// Whether a cell of the map holds several pairs of a query and a key.
bool pools(const protocol::MapResult& map);

// Whether a map of weights is white on a linear scale: it is a line of a few cells, so that fewer
// than one in ten reach a tenth of the largest one, or no cell reaches a tenth of 1. Of masked
// cells and those that are not finite nothing is said.
bool is_thin(const widgets::MapSpec& map);

// The range of the colours as chosen, a log scale for weights alone.
void apply_look(widgets::MapSpec& map, const MapLook& look);
// Applies it to a figure of a map, whose last note then says what is clipped beside the scale.
void apply_look(widgets::PlotSpec& plot, const MapLook& look);

// What two maps that are shown beside each other have in common where it is left to the program:
// one scale, and one range that holds both.
MapLook common_look(const MapLook& look, widgets::MapSpec a, widgets::MapSpec b);

// What the range leaves out: "2 cells below 0.1 and 1 above 0.5 have the colours of the ends",
// "key 0 left out of the range"; empty where every cell has a colour of its own.
std::string clipping_note(const widgets::MapSpec& map, const MapLook& look);

// signed_values for numbers on both sides of 0, viridis for those of one sign.
widgets::Colormap colors_of(widgets::ValueRange range);

}  // namespace phasescope::app
