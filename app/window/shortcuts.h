#pragma once
// What the keys do: the shortcuts of all commands, and the keys of what has the focus.
#include <vector>

#include "app/window/commands.h"

namespace phasescope::app {

// The dialog that lists them; `open` shows it and is taken back.
void draw_shortcuts(bool& open, const std::vector<Command>& commands);

}  // namespace phasescope::app
