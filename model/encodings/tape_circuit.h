#pragma once

#include <array>

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry tape_circuit_entry();

// The transposition (a b), a < b < 5, of symbols 0..9 in lexicographic order.
std::array<std::int64_t, 2> circuit_transposition(std::int64_t symbol);

}  // namespace phasescope::model
