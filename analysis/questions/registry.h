#pragma once
// The questions about positions, each with what is measured for it and where that is from. To add
// one: its files here, its request in protocol/messages/, its handler and verb, a line in
// questions(), a test with an answer known by construction.
#include <string>
#include <vector>

#include "protocol/messages/questions.h"

namespace phasescope::analysis {

const std::vector<protocol::QuestionInfo>& questions();

// The table of docs/questions.md.
std::string page_of_questions();

}  // namespace phasescope::analysis
