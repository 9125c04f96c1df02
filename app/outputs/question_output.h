#pragma once
// The tables and figures of a question about positions, or about a model's cost, as its verb prints
// them and its view shows them: of one model's answer, or of the same question asked of several
// models.
#include <vector>

#include "app/outputs/several_answers.h"
#include "protocol/messages/ablate.h"
#include "protocol/messages/acuity.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/cost.h"
#include "protocol/messages/demand.h"
#include "protocol/messages/pair.h"
#include "protocol/messages/profile.h"
#include "protocol/messages/xray.h"

namespace phasescope::app {

// `answers`: one at least. `names` has their models.
Output question_output(const std::vector<Answered<protocol::AddressingResult>>& answers,
                       const ModelNames& names);
Output question_output(const std::vector<Answered<protocol::DemandResult>>& answers,
                       const ModelNames& names);
Output question_output(const std::vector<Answered<protocol::AcuityResult>>& answers,
                       const ModelNames& names);
Output question_output(const std::vector<Answered<protocol::XrayResult>>& answers,
                       const ModelNames& names);
Output question_output(const std::vector<Answered<protocol::PairResult>>& answers,
                       const ModelNames& names);
Output question_output(const std::vector<Answered<protocol::ProfileResult>>& answers,
                       const ModelNames& names);
// In cost_output.cpp and ablate_output.cpp; of ablations one is shown.
Output question_output(const std::vector<Answered<protocol::CostResult>>& answers,
                       const ModelNames& names);
Output question_output(const std::vector<Answered<protocol::AblateResult>>& answers,
                       const ModelNames& names);

}  // namespace phasescope::app
