#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/decoder.h"

// Scores of pairs of tokens as they would be if the key stood elsewhere: the content of the pair is
// held, and the distance that the encoding reads is another one. The mask, values and a second
// stream stay as they are.

namespace phasescope::model {

// A reading's factors of its bias, clamps and bias by distance are of the other distance; what its
// windows hide stays hidden, as masks go by place.

// Why this is not defined for a model, as a clause ("positions enter the embedding"); empty where
// it is.
std::string no_other_distance(const ModelConfig& config, const Encoding& encoding);

// Pairs of tokens by index, and the distances they are to be read at; each (P) int64.
struct MovedPairs {
  at::Tensor row, column, distance;
  // What the distances lie within, where it is known without reading them: a device is asked
  // otherwise.
  std::optional<DistanceRange> within = {};
};

// The softmax's input, before the mask, of the queries at indices `row` and the keys at indices
// `column` of the first text if each key stood `distance` tokens before its query: (heads, P) of
// the program's table dtype. The query keeps its own place, or where the key would stand before 0
// both move up. Angles are computed in float64. TAPE keeps what the content did to the states, and
// exchanges the distance in them.
at::Tensor moved_scores(const LayerInput& input, const AttentionProgram& program,
                        const MovedPairs& pairs);

// The pairs of rows [first, first + count), keys at or before their query, where the layers are.
using PairsOfRows = std::function<MovedPairs(std::int64_t first, std::int64_t count)>;

// Reads these pairs at other distances, in some heads (all where the list is empty). A program that
// reads no distance stays what it is.
void move_pairs(const LayerInput& input, const PairsOfRows& pairs,
                const std::vector<std::int64_t>& heads, AttentionProgram& program);

// Reads keys that are farther than a head's limit as if they stood there; limits (H), -1 for none.
// Scores that q and k make by their turns alone, of a relative encoding, and those with an entry of
// a table stay fused: a second set of q and k, or the table's own entries. The others run plain.
void clamp_distances(const LayerInput& input, const std::vector<std::int64_t>& limits,
                     AttentionProgram& program);
// The same of a program to which a reading has done nothing but multiply its bias.
void clamp_own_distances(const LayerInput& input, const std::vector<std::int64_t>& limits,
                         AttentionProgram& program);

// Whether something holds of the program of every layer for a text of so many tokens, whose queries
// and keys are zeros, with what its reading does to it; false where something else stands between
// the encoding and the score, or a weight is bounded.
using ProgramTest = std::function<bool(const LayerInput& input, AttentionProgram& program)>;
bool all_programs(const Decoder& decoder, std::int64_t tokens, const ProgramTest& holds);
// Whether they all stay fused that clamp_distances() clamps in texts of so many tokens, for any
// limits.
bool clamps_stay_fused(const Decoder& decoder, std::int64_t tokens);

}  // namespace phasescope::model
