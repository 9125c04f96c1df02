#pragma once
// A view of a head's map: rows, columns and cells chosen by whoever looks.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/messages/map.h"
#include "protocol/reply.h"

namespace phasescope::analysis {

struct HeadName {
  std::int64_t layer = 0;
  std::int64_t head = -1;  // -1: the mean of the layer's heads
  std::string stack = {};  // for stack_named()
};
// "L3H5", or "L3" for the mean of a layer's heads; of an encoder-decoder with "enc.", "dec." or
// "cross." in front, the decoder's without. Throws Error "bad_usage".
HeadName parse_head(const std::string& name);

struct MapOptions {
  HeadName head;
  std::optional<std::pair<std::int64_t, std::int64_t>> rows, columns;  // all where empty
  std::int64_t height = 256, width = 256;  // at most; never more than rows and columns
  std::string of = "weight";               // weight, score, content, positional
  std::string pool = "mean";               // mean, max (of a layer: the mean of its heads' maxima)
  std::int64_t top = 0;  // so many keys of each query's largest weights too; of one head alone
};

struct MapOutput {
  protocol::MapResult result;
  std::vector<protocol::TensorRef> tensors;  // map, row_profile, column_profile
};

// The region pooled to cells; where there are as many cells as pairs every cell is one pair,
// exactly. Mean cells of weights count masked pairs as 0, so that the sum of a row of cells times
// their width is 1; the profiles are means over unmasked pairs. Throws Error "bad_usage" for ranges
// outside the text, and for top keys of no single head.
MapOutput analyse_map(TextPass& pass, const MapOptions& options);

}  // namespace phasescope::analysis
