#pragma once
// The verb that opens the window, which tests give a window of their own.
#include <memory>

#include "app/verbs/verb.h"
#include "app/window_main.h"

namespace phasescope::app {

// `open` is run_window(), or hears of the options in its place and says how it ended.
std::unique_ptr<Verb> view_verb(int (*open)(const WindowOptions&));

}  // namespace phasescope::app
