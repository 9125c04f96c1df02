#include "app/cli/cli.h"
#include "app/verbs/verbs.h"

int main(int argc, char** argv) {
  return phasescope::app::run_program(argc, argv, phasescope::app::all_verbs());
}
