#include "app/verbs/verbs.h"

#include "app/verbs/factories.h"

namespace phasescope::app {

std::vector<std::unique_ptr<Verb>> all_verbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  for (const VerbFactory factory : kVerbs) verbs.push_back(factory());
  return verbs;
}

}  // namespace phasescope::app
