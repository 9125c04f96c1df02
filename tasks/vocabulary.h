#pragma once
// A task's ids as a model's vocabulary: what each is called, and the tokenizer that a checkpoint of
// the task keeps.
#include <string>
#include <vector>

#include "tasks/task.h"

namespace phasescope::tasks {

// Whether a model of the task has ids of its own, rather than a text's tokenizer.
bool has_own_ids(const Task& task);

// Names of the ids 0..vocabulary() - 1: of inputs, with the placeholder, and behind them those that
// are answers alone; of images the classes, and behind them a piece.
std::vector<std::string> symbols_of(const Task& task);

// {"type": "symbols", "task": key, "symbols": [...], "bos": id}, as formats/tokenizers/symbols.h
// reads it.
Json tokenizer_of(const Task& task);

// The task that a model's tokenizer was made for; null where it is none's.
const Task* task_of_tokenizer(const Json& tokenizer);

}  // namespace phasescope::tasks
