#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/layers.h"

namespace phasescope::model {

// Frequencies that a file stores (rotary_emb.inv_freq), by layer; -1 is for all layers.
using StoredFrequencies = std::map<std::int64_t, std::vector<double>>;

// How some layers place their tokens. All of a model's layers stand in one row each.
struct RopePlanRow {
  std::vector<std::int64_t> layers;  // ascending
  std::string sees;      // "all", "43 tokens", "its run of 43 tokens", "a state, no pairs"
  std::string encoding;  // "rope, half", "none", "linear" for layers without attention
  // Of a head that turn: "first 8 of 16", "all 16"; "4 of 16" and "4 of the first 8 of 16" where
  // planes among them stay; empty where a head has no planes.
  std::string channels;
  std::vector<double> frequencies;  // radians a token of each plane, as applied; 0: it stays
  double magnitude = 1;             // of the turn: q and k are multiplied by it
  std::string axes;                 // "0 0 1 1 2 2": the position that each plane turns by
  std::string norm;                 // of q and k: "before the turn", "after the turn", or empty
  std::string temperature;          // what queries are multiplied by, of position i; empty: 1
  // Largest |stored / applied - 1| of the planes that the file stores for these layers.
  std::optional<double> stored_difference;
  // Largest |configured / applied - 1| of what the checkpoint's configuration says, as its family
  // reads it: 0 unless a setting of ours has changed the rope; infinite where that turns other
  // planes, or none. That it is what the library of the family applies is no matter of a file: it
  // is held against the library's own numbers (tests/model/ropes_test.cpp).
  std::optional<double> library_difference;
};

// Layers with the same plan together, in the order of their first. `length` is that of the text
// (scalings may depend on it). Empty for a model none of whose layers turns planes. `library`: the
// configuration as its family reads it, before any setting of ours; null where none is to be
// compared with.
std::vector<RopePlanRow> rope_plan(const ModelConfig& config, std::int64_t length,
                                   const StoredFrequencies& stored = {},
                                   const ModelConfig* library = nullptr);

// A sentence for each row whose stored frequencies are others than those applied: files that were
// converted with another base or scaling than their configuration says.
std::vector<std::string> frequency_warnings(const std::vector<RopePlanRow>& plan);

}  // namespace phasescope::model
