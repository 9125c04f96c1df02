#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace phasescope::training {

// Starts a program that outlives this one: a session of its own, a parent that is gone, standard
// input from /dev/null, both outputs appended to `log`, no other descriptor inherited. Throws
// formats::Error "internal" when it cannot be started.
void start_detached(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::filesystem::path& log);

}  // namespace phasescope::training
