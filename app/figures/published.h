#pragma once
// What the papers print, to stand beside a measurement. Never measured here, so always labelled.

namespace phasescope::app {

inline constexpr const char* kPublishedNearFar =
    "Published, not measured here (TAPA, arXiv 2509.12635, Appendix I; 7B models, distances to "
    "10,100, 10,000 pairs): RoPE mean 4.1, sigma 0.85; TAPA mean 0.03, sigma 3.3. Models of "
    "another "
    "size need not agree.";

inline constexpr const char* kPublishedShift =
    "Published, not measured here (TAPE, arXiv 2501.00712, Table 8; shift 3, attention "
    "in layers 1, 2, 4, 8 counted from 1): shifted ids RoPE 0.01 0.02 0.02 0.03, TAPE 0.01 0.02 "
    "0.04 0.04; added tokens RoPE 8.93 8.51 12.29 11.46, TAPE 9.08 11.24 12.23 13.78. The paper "
    "does not spell out its norm.";

}  // namespace phasescope::app
