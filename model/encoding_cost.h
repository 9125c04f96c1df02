#pragma once

#include <string>

// What an encoding adds to the cost of one forward pass; analysis/cost.h adds it up.

namespace phasescope::model {

// Everything a count needs, as doubles: products pass 2^53 late, integers would pass 2^31 early.
struct CostSizes {
  double tokens = 0, width = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double all_pairs = 0;   // of a query and a key, of one head and layer
  double seen_pairs = 0;  // those that a query sees, on average over the layers
};

// One part of what is added, in all layers: multiply-accumulates, and element operations
// (exponentials, cosines, additions on channels or scores), which count as one FLOP each.
// `published` and `executed` are the two conventions of analysis/cost.h.
struct EncodingCost {
  std::string name;
  double published_macs = 0, executed_macs = 0;
  double published_flops = 0, executed_flops = 0;  // beyond 2 a multiply-accumulate
};

// Two multiplications and one addition for each channel of q and k.
EncodingCost rotation_cost(const CostSizes& sizes);
// `operations` on each score; full attention has all pairs, what runs those that are seen.
EncodingCost score_cost(const char* name, const CostSizes& sizes, double operations);
// `macs` of every pair of all heads, in plain tensor operations, which skip no masked pair but
// whole blocks: the same count on both sides.
EncodingCost pair_cost(const char* name, const CostSizes& sizes, double macs);
// `macs` of every token of a layer.
EncodingCost token_cost(const char* name, const CostSizes& sizes, double macs);

}  // namespace phasescope::model
