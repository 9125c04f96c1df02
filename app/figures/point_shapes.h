#pragma once
// Points that tell series apart where their colours do not.
#include <cstddef>

#include "widgets/plot_spec.h"

namespace phasescope::app {

// The shape of the series in this place, or of the model of this colour; there are six, in turn.
inline widgets::PointShape shape_at(std::size_t place) {
  constexpr std::size_t kShapes = static_cast<std::size_t>(widgets::PointShape::cross);
  return static_cast<widgets::PointShape>(1 + place % kShapes);
}

}  // namespace phasescope::app
