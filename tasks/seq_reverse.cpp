#include "tasks/factories.h"
#include "tasks/sequences.h"

namespace phasescope::tasks {

std::unique_ptr<Task> seq_reverse() {
  return sequence_task({"reverse", "Reverse", "the symbols backwards", false,
                        [](const Ids& input) { return Ids(input.rbegin(), input.rend()); }});
}

}  // namespace phasescope::tasks
