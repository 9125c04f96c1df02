#include "app/cli/cli.h"

int main(int argc, char** argv) { return phasescope::app::run_program(argc, argv); }
