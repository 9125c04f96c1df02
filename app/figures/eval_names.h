#pragma once
// Names of extrapolation tests that are treated in a way of their own.

namespace phasescope::app {

// The test that reads texts where all others draw samples, and that one of its metrics whose
// numbers belong to a tokenizer.
inline constexpr const char* kPerplexity = "perplexity";

}  // namespace phasescope::app
