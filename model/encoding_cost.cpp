#include "model/encoding_cost.h"

namespace phasescope::model {

EncodingCost rotation_cost(const CostSizes& s) {
  const double flops = 3 * s.layers * s.tokens * (s.heads + s.kv_heads) * s.head_dim;
  return {"rotation of q and k", 0, 0, flops, flops};
}

EncodingCost score_cost(const char* name, const CostSizes& s, double operations) {
  return {name, 0, 0, operations * s.layers * s.heads * s.all_pairs,
          operations * s.layers * s.heads * s.seen_pairs};
}

EncodingCost pair_cost(const char* name, const CostSizes& s, double macs) {
  return {name, s.layers * macs * s.all_pairs, s.layers * macs * s.all_pairs, 0, 0};
}

EncodingCost token_cost(const char* name, const CostSizes& s, double macs) {
  return {name, s.layers * macs * s.tokens, s.layers * macs * s.tokens, 0, 0};
}

}  // namespace phasescope::model
