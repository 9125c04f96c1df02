#include "tasks/factories.h"
#include "tasks/sequences.h"

namespace phasescope::tasks {

std::unique_ptr<Task> seq_repeat() {
  return sequence_task({"repeat", "Repeat", "the symbols twice", false, [](const Ids& input) {
                          Ids twice = input;
                          twice.insert(twice.end(), input.begin(), input.end());
                          return twice;
                        }});
}

}  // namespace phasescope::tasks
