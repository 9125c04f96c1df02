#pragma once
#include <string>
#include <vector>

#include "app/cli/output.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

// The program with these verbs: no verb, `view`, or the name of no verb opens the window; every
// other verb runs without a display. Returns the exit status: 0 done, 1 a check or verdict failed,
// or the model has no such thing, 2 bad usage or input, 3 no such device or host, 4 the worker
// died, 5 out of memory, 130 cancelled.
int run_program(int argc, char** argv, const Verbs& verbs);

// What a verb makes of these words, without the program's name, run with `run`; nothing is printed
// or written. Throws Error "bad_usage" for words that are no command, and what the verb throws.
Output output_of(Run& run, const std::vector<std::string>& words, const Verbs& verbs);

// What docs/verbs.md has of every verb, in Markdown.
std::string page_of_verbs(const Verbs& verbs);

}  // namespace phasescope::app
