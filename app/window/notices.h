#pragma once
// What the window says: short messages in its corner, and the list of all of them.
#include "app/window/view_context.h"

namespace phasescope::app {

void draw_notices(WindowState& window);
// What was said, for whom it left too early.
void draw_messages(WindowState& window);

}  // namespace phasescope::app
