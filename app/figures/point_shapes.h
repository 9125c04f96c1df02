#pragma once
// Points that tell series apart where their colours do not.
#include <cstddef>

#include "widgets/series_marks.h"

namespace phasescope::app {

// The shape of the series in this place, or of the model of this colour.
inline widgets::PointShape shape_at(std::size_t place) {
  return widgets::shape_of_color(static_cast<int>(place));
}

}  // namespace phasescope::app
