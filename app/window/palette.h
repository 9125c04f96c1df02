#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/window/commands.h"

namespace phasescope::app {

// The command palette: type part of a name of a command, a model, a head or of the text, Enter runs
// it. Shown while window.palette_open is set.
class CommandPalette {
 public:
  // What follows from the words that are typed, beside the commands.
  using About = std::function<std::vector<Command>(const std::string& words)>;
  void draw(ViewContext& context, const std::vector<Command>& commands, const About& about);

 private:
  void draw_list(ViewContext& context, const std::vector<const Command*>& found);

  std::string words_;
  std::vector<Command> all_;           // that the words may mean
  std::vector<std::string> openable_;  // models, as found when it was opened
  int chosen_ = 0;
  bool walked_ = false;  // another one is chosen than in the frame before, and scrolled to
  bool run_chosen_ = false;
  bool shown_ = false;
};

}  // namespace phasescope::app
