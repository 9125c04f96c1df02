#pragma once
// One map made of those of several heads.
#include <string>
#include <vector>

#include "protocol/messages/map.h"
#include "protocol/tensor.h"

namespace phasescope::app {

// A map as a worker answers it: see MapResult for the tensors.
struct AnsweredMap {
  protocol::MapResult result;
  std::vector<protocol::TensorRef> tensors;
};

// Cell by cell the mean of the maps, each head counting once; row_profile and column_profile too.
// A cell that the mask hides in one of them is hidden in all, and stays so. The result is the first
// one's but for the head, which is -1, and low and high. Throws formats::Error "internal" where
// they are of different queries, keys or sizes, or there is none.
AnsweredMap mean_map(const std::vector<AnsweredMap>& maps);

// Why B's map cannot be subtracted from A's, as they are not about the same tokens; empty where it
// can.
std::string difference_obstacle(const protocol::MapResult& a, const protocol::MapResult& b);

}  // namespace phasescope::app
