// phasescope-window: the window alone, for the time in which the other verbs are not yet built.
#include "app/cli/cli.h"
#include "app/verbs/factories.h"

int main(int argc, char** argv) {
  phasescope::app::Verbs verbs;
  verbs.push_back(phasescope::app::view_verb());
  return phasescope::app::run_program(argc, argv, verbs);
}
