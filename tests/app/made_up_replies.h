#pragma once
// What made-up replies are put together from; for tests/app/made_up_*.cpp alone.
#include <map>
#include <string>

#include "protocol/messages/provenance.h"
#include "tests/app/made_up_worker.h"

namespace phasescope::app {

using MakeReply = protocol::Reply (*)(const nlohmann::json& params, const MadeUpShape& shape);
// By method.
using ReplyMakers = std::map<std::string, MakeReply>;

const ReplyMakers& made_up_questions();
const ReplyMakers& made_up_jobs();

// A model's own tint, so that two models differ in every figure.
double tint(const std::string& model);
protocol::Provenance made_up(const MadeUpShape& shape);

}  // namespace phasescope::app
