#pragma once

#include <memory>
#include <vector>

#include "app/views/view.h"

namespace phasescope::app {

// Every view of the window, in the order of the View menu. A new view is a line in views.cpp.
std::vector<std::unique_ptr<View>> all_views();

}  // namespace phasescope::app
