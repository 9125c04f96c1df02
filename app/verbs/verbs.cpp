#include "app/verbs/verbs.h"

#include "app/verbs/factories.h"

namespace phasescope::app {

Verbs all_verbs() {
  Verbs verbs;
  for (const VerbFactory factory : kVerbs) verbs.push_back(factory());
  return verbs;
}

}  // namespace phasescope::app
