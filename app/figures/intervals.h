#pragma once
// Numbers with their intervals, in words and in figures. Where there is no interval the words have
// "[-]" and the figure no band.
#include <string>
#include <vector>

#include "protocol/messages/provenance.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// "1.86 [1.8, 1.92]", "1.86 [-]".
std::string with_ends(double value, const protocol::IntervalEnd& low,
                      const protocol::IntervalEnd& high);
std::string with_ends(const protocol::Interval& interval);

// The ends at the next point of a series, NaN for none.
void add_ends(widgets::Series& series, const protocol::IntervalEnd& low,
              const protocol::IntervalEnd& high);

}  // namespace phasescope::app
