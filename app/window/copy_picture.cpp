#include "app/window/copy_picture.h"

#include <cstdlib>

#include "formats/error.h"
#include "protocol/spawn.h"

namespace phasescope::app {
namespace {

// What the shell says of a program that is not there.
constexpr int kNotFound = 127;

}  // namespace

void copy_png(const std::string& png) {
  const bool wayland = std::getenv("WAYLAND_DISPLAY") != nullptr;
  const std::string program = wayland ? "wl-copy" : "xclip";
  const std::string line =
      wayland ? "wl-copy --type image/png" : "xclip -selection clipboard -t image/png";
  // Both stay behind to hand the picture over: they must not keep our end of the pipe open.
  const auto done = protocol::run_filter({"sh", "-c", line + " >/dev/null 2>&1"}, png);
  if (done.end.exit_status == 0) return;
  if (done.end.exit_status != kNotFound) {
    throw formats::bad_input(program + " did not take the picture");
  }
  throw formats::bad_input("a picture needs the program " + program + " to be copied", "",
                           "apt install " + std::string(wayland ? "wl-clipboard" : "xclip") +
                               ", or save the figure as PNG");
}

}  // namespace phasescope::app
