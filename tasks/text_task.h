#pragma once
// Tasks that are texts: a prompt, read by a model's own tokenizer, and its answer.
#include <string>

#include "tasks/task.h"

namespace phasescope::tasks {

// The prompt in a row, with its hash and its length.
void put_prompt(Json& row, const std::string& prompt);

// The text one sentence group of garbage repeats.
inline constexpr const char* kGarbage =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

// "predictions" of a metric row, as many as `samples`. Throws Error "bad_input".
std::vector<std::string> text_predictions(const std::vector<Sample>& samples, const Json& given);

}  // namespace phasescope::tasks
