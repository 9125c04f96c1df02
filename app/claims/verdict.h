#pragma once
// What a measurement says of a claim. Only an interval decides: where it leaves the question open,
// the verdict is "cannot tell".
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/claims/claim_sheet.h"
#include "protocol/messages/reproduce.h"

namespace phasescope::app {

// The number at a place; nothing where no row, or more than one, fits.
std::optional<protocol::MeasuredNumber> number_at(const nlohmann::json& result, const Place& place);

// What judging these claims reads of a command's result, and nothing else: small enough to be kept
// with the sources. judge() of it says the same as of the whole.
nlohmann::json needed_of(const nlohmann::json& result, const std::vector<const Claim*>& claims);

// Fills `measured`, `differences`, `verdict` and `why` of a row from a command's result.
//
// Order: every neighbour's difference, paired where the result pairs them, otherwise by intervals
// that do not touch. All above 0: agrees; one below 0: disagrees; else cannot tell.
// Sign: agrees where the whole interval lies there, disagrees where none of it does.
// Ratio: of two intervals the least and the greatest quotient, which hold at 90 % at least.
// Holds: what the check says; "premise_not_met" and "undecided" cannot tell.
void judge(const Claim& claim, const nlohmann::json& result, protocol::ClaimRow& row);

}  // namespace phasescope::app
