#pragma once
// A view of a head's map: rows, columns and cells chosen by whoever looks.
#include <cstdint>
#include <string>
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

struct MapOutput {
  protocol::MapResult result;
  std::vector<protocol::TensorRef> tensors;  // map, row_profile, column_profile
};

// Head, region, cells, quantity and pooling of the request; its model and text are the pass's.
// There are never more cells than rows and columns, and where there are as many every cell is one
// pair, exactly. Mean cells of weights count masked pairs as 0, so that the sum of a row of cells
// times their width is 1; the profiles are means over unmasked pairs. Of several heads it is the
// mean of theirs, each counting once however often it is named; maxima are the mean of their
// maxima. Throws Error "bad_usage" for ranges outside the text, heads of several stacks, and top
// keys of no single head.
MapOutput analyse_map(TextPass& pass, const protocol::MapRequest& asked,
                      protocol::Progress& progress);
MapOutput analyse_map(TextPass& pass, const protocol::MapRequest& asked);  // nobody watches

}  // namespace phasescope::analysis
