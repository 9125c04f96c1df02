#include "tasks/factories.h"
#include "tasks/sequences.h"

namespace phasescope::tasks {

std::unique_ptr<Task> seq_copy() {
  return sequence_task(
      {"copy", "Copy", "the same symbols again", true, [](const Ids& input) { return input; }});
}

}  // namespace phasescope::tasks
