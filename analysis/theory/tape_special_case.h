#pragma once
// tape.special_case: with its updates at zero TAPE is RoPE (TAPE, arXiv 2501.00712, Section 3.3),
// and how far a trained model has moved from there.
#include <string>
#include <vector>

#include "analysis/theory/equality.h"

namespace phasescope::analysis {

TheoryCheck tape_special_case();

// The model with some of its position updates set to zero.
struct ZeroedCase {
  std::string name;
  std::vector<std::string> zeroed;   // parameters of each layer that become 0
  std::vector<std::string> centred;  // parameters whose rows are made to sum to 0
};

// Largest difference of its logits from plain RoPE's on the same weights, relative to RoPE's
// largest. Both in the decoder's dtype, by plain operations.
double distance_from_rope(const model::Decoder& decoder, const at::Tensor& ids,
                          const ZeroedCase& zeroed);

// Plain RoPE with the weights of a TAPE model (frequencies as that model has them).
model::Decoder rope_of(const model::Decoder& tape);

}  // namespace phasescope::analysis
