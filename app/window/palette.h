#pragma once

#include "app/window/commands.h"

namespace phasescope::app {

// The command palette: type part of a name of a command, a model or a head, Enter runs it. Shown
// while window.palette_open is set.
class CommandPalette {
 public:
  void draw(ViewContext& context, const std::vector<Command>& commands);

 private:
  void draw_list(ViewContext& context, const std::vector<const Command*>& found);

  std::string words_;
  std::vector<std::string> openable_;  // models, as found when it was opened
  int chosen_ = 0;
  bool run_chosen_ = false;
  bool shown_ = false;
};

}  // namespace phasescope::app
