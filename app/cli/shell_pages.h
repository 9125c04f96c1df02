#pragma once
// What a shell and `man` know of the program, written from the same declarations as its help.
#include <optional>
#include <string>
#include <vector>

#include "app/cli/options.h"

namespace phasescope::app {

// What shells complete beside verbs, options and files.
struct CompletedWords {
  OptionValues values;  // of options that have a list of them
  std::vector<std::string> models;
};

// The answer to `--completion bash|zsh|fish` (a script for that shell, which completes verbs,
// options, their values, the names of models, tasks, theorem checks and jobs, and files) and to
// `--man` (the manual page, in roff); nothing where the words ask for neither. Throws Error
// "bad_usage" for another shell.
std::optional<std::string> shell_page(const CLI::App& parser, const std::vector<std::string>& words,
                                      const CompletedWords& completed);

}  // namespace phasescope::app
