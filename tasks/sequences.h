#pragma once
// Transduction of sequences: the encoder reads symbols, the decoder writes them copied, backwards
// or twice.
#include <memory>

#include "tasks/task.h"

namespace phasescope::tasks {

struct SequenceRule {
  const char* name;  // copy, reverse, repeat
  const char* title;
  const char* help;
  bool framed = false;  // [SOS] before and [EOS] behind both sides
  Ids (*output)(const Ids& input) = nullptr;
};

std::unique_ptr<Task> sequence_task(const SequenceRule& rule);

}  // namespace phasescope::tasks
