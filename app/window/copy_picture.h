#pragma once
#include <string>

namespace phasescope::app {

// A PNG to the clipboard, through wl-copy or xclip. Throws formats::Error "bad_input" that names
// both where neither is there.
void copy_png(const std::string& png);

}  // namespace phasescope::app
