#pragma once
// One query's row of the attention map of every head.
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/messages/query.h"
#include "protocol/reply.h"

namespace phasescope::analysis {

struct QueryOptions {
  std::string stack;         // for stack_named()
  std::int64_t query = -1;   // -1: the last token
  std::int64_t width = 512;  // cells of a row, at most; never more than keys
  std::int64_t top = 5;      // keys of the largest weights that are named
};

struct QueryOutput {
  protocol::QueryResult result;
  std::vector<protocol::TensorRef> tensors;  // weights
};

// One row a head of every layer that has maps: the cost of a row, not of a map. Throws Error
// "bad_usage" for a query that the text has not.
QueryOutput analyse_query(TextPass& pass, const QueryOptions& options);

}  // namespace phasescope::analysis
