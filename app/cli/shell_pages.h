#pragma once
// What a shell and `man` know of the program, written from the same declarations as its help.
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace phasescope::app {

// The answer to `--completion bash|zsh|fish` (a script for that shell, which completes verbs,
// options, the names of `models` and files) and to `--man` (the manual page, in roff); nothing
// where the words ask for neither. Throws Error "bad_usage" for another shell.
std::optional<std::string> shell_page(const CLI::App& parser, const std::vector<std::string>& words,
                                      const std::vector<std::string>& models);

}  // namespace phasescope::app
