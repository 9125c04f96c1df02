#pragma once

#include <ATen/ATen.h>

#include "model/attention/attention.h"

// What tests of the CUDA backend measure, by kernels and by plain operations.

namespace phasescope::model {

// A program of two texts of 70 tokens with a window, a soft cap, and padding in the second text.
inline AttentionProgram masked(AttentionProgram program) {
  program.window = 23;
  program.soft_cap = 3;
  program.key_mask = at::ones({2, 70}, at::kBool);
  program.key_mask[1].slice(0, 60).fill_(false);
  return program;
}

inline ProbeRequest all_probes() {
  return {.entropy = true,
          .max_score = true,
          .max_key = true,
          .top1_mass = true,
          .first_key_weight = true,
          .mean_distance = true,
          .windows = {1, 4, 16},
          .bucket_edges = {0, 1, 2, 4, 8, 16, 32, 70},
          .content = true,
          .term = true,
          .top_keys = 5};
}

}  // namespace phasescope::model
