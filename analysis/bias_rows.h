#pragma once
// What one query's keys get of an encoding, text by text (CAPE, arXiv 2405.14722, Figure 1): the
// content scores, the bias of its table, and what it adds to that by content.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/messages/patterns.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// Distances 0..length-1 where `curves` so long fit into a result; every one of the near half and as
// many evenly over the rest where they do not.
std::vector<std::int64_t> shown_distances(std::int64_t length, std::int64_t curves);

// The encoding's table of a layer, (H, length) in float64; undefined where it has none.
at::Tensor table_of_layer(const model::Model& model, std::int64_t layer, std::int64_t length);

struct BiasRowsOptions {
  std::vector<std::int64_t> queries;
  std::size_t texts = 2;  // of the first texts that reach a query
  std::function<bool(std::int64_t layer)> wanted;
};
// Throws Error "bad_usage" for a query that no text reaches. Where the encoding has a table, base
// is it and correction the positional term less it, empty where the term is the table.
std::vector<protocol::BiasRow> bias_rows(const std::vector<std::shared_ptr<TextPass>>& passes,
                                         const BiasRowsOptions& options,
                                         protocol::Progress& progress);

}  // namespace phasescope::analysis
