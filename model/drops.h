#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/attention_program.h"

namespace phasescope::model {

// What a step of training leaves out at random; all 0 for nothing. What is left out is a function
// of the seed, the place in the model, the sample's number in the step's whole batch and the
// number's own place in the sample: the same whoever reads which part of the batch, and again where
// a layer runs again.
struct Drops {
  double embedding = 0;  // share of the numbers that the first layer reads; those that are left are
                         // divided by 1 - share
  double branch = 0;     // the same of what attention and MLP add to the stream
  double path = 0;   // layer n, from 0 on, adds nothing of a branch to a sample with probability
                     // n * path; what is added is as it was
  double score = 0;  // share of the scores that become kLeftOut before softmax
  std::uint64_t seed = 0;         // of the step
  std::int64_t first_sample = 0;  // number of the first row that is read in the step's batch
};

// A score so low that its key has no weight beside any other; a query whose scores are all left out
// reads all keys alike, as in APE's public code.
inline constexpr double kLeftOut = -1e8;

// Where in the model.
struct DropPlace {
  enum class Part : std::uint64_t { embedding, attention, cross, mlp };
  Part part = Part::embedding;
  std::int64_t layer = 0;
  bool encoder = false;  // of an encoder-decoder
};

// x (B, N, C) without a share of its numbers, the rest divided by 1 - share; x itself where the
// share is 0. Texts are read whole: row 0 is the first token.
at::Tensor without_numbers(const Drops& drops, const DropPlace& place, double share,
                           const at::Tensor& x);

// x (B, N, C) with 0 for whole samples, each with probability n * path of layer n.
at::Tensor without_samples(const Drops& drops, const DropPlace& place, const at::Tensor& x);

// Leaves scores out, after all else that is done to them before the mask; runs plain.
void leave_scores_out(const Drops& drops, const DropPlace& place, AttentionProgram& program);

}  // namespace phasescope::model
