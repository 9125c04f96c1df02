#pragma once
// The axes of distances between a query and its keys, one form for all figures. A linear one counts
// from 0, the query itself. A logarithmic one has no place for 0: there a distance stands at
// distance + 1 in every figure, and the label says so.
#include <string>
#include <vector>

#include "widgets/plot_spec.h"

namespace phasescope::app {

// The unit where a curve goes on to distances whose angles alone are the model's.
inline constexpr const char* kOfAngles = "tokens, a model's angle";

inline widgets::AxisSpec distance_axis(const std::string& unit = "tokens") {
  return {.label = "distance (" + unit + ")", .of = widgets::Coordinate::distance};
}

inline widgets::AxisSpec log_distance_axis(const std::string& unit = "tokens") {
  return {.label = "distance + 1 (" + unit + ")",
          .scale = widgets::Scale::log10,
          .of = widgets::Coordinate::distance,
          .zero = 1};
}

// Where a distance stands on the logarithmic one.
inline double on_log_axis(double distance) { return distance + 1; }
inline std::vector<double> on_log_axis(std::vector<double> distances) {
  for (double& distance : distances) distance = on_log_axis(distance);
  return distances;
}

}  // namespace phasescope::app
