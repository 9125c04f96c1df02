#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class NewNameVerb : public Verb {
 public:
  std::string name() const override { return "NEW_NAME"; }
  std::string help() const override { return "write me"; }
  std::string example() const override { return "phasescope NEW_NAME"; }
  void declare(Options&) override {}
  Output run(Run&) override {
    Output output{.result = {{"text", "write me"}}};
    output.text = "write me\n";
    return output;
  }
};

}  // namespace

std::unique_ptr<Verb> NEW_NAME_verb() { return std::make_unique<NewNameVerb>(); }

}  // namespace phasescope::app
