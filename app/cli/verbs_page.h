#pragma once
// docs/verbs.md: what the command line declares of itself.
#include <string>

namespace CLI {
class App;
}

namespace phasescope::app {

// Markdown: each verb of the parser with its example and options, in their order; an option that
// many verbs declare alike stands once, behind them.
std::string verbs_page(const CLI::App& parser);

}  // namespace phasescope::app
