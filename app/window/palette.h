#pragma once

#include "app/window/commands.h"

namespace phasescope::app {

// The command palette: type part of a name, Enter runs it. Shown while shell.palette_open is set.
class CommandPalette {
 public:
  void draw(Desk& desk, const std::vector<Command>& commands);

 private:
  void draw_list(Desk& desk, const std::vector<const Command*>& found);

  std::string words_;
  int chosen_ = 0;
  bool run_chosen_ = false;
  bool shown_ = false;
};

}  // namespace phasescope::app
