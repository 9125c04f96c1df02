#pragma once
// Where one query looks in every head.
#include <string>
#include <vector>

#include "app/cli/output.h"
#include "app/figures/figures.h"
#include "protocol/messages/query.h"

namespace phasescope::app {

// Heads from top to bottom, layer by layer, keys from left to right; `weights`: the result's tensor
// (L, H, width). Log where few of the cells are large, as maps are.
widgets::PlotSpec query_figure(const protocol::QueryResult& result, const Grid& weights,
                               const ModelNames& names);

// A line a head: its largest weight and that one's key, and the further ones in words.
Table query_table(const protocol::QueryResult& result);
// "12 (0.03), 4 (0.02)": the keys of a head after the first.
std::string further_keys(const protocol::QueryHead& head);

}  // namespace phasescope::app
