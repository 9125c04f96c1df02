#pragma once
// Queries and keys of a head by channel, before and after what the encoding does to them.
#include <span>
#include <string>
#include <vector>

#include "app/figures/figures.h"

namespace phasescope::app {

// Queries and keys of one head of one text, (N, d) each, row-major; `..after` empty where the
// encoding changes nothing of q and k.
struct QueryKey {
  std::string model, head;  // head: "L3H1"
  int64_t tokens = 0, channels = 0;
  std::vector<float> q, k, q_after, k_after;
};

// From the tensors of a capture of q, k and rotated of one layer: q of the one head that was asked
// for, k of all key heads, of which `head` of `heads` reads one (grouped queries share them).
// Without tokens where a tensor is missing or of another shape.
QueryKey query_key_of(std::span<const protocol::TensorRef> tensors, const std::string& model,
                      int64_t layer, int64_t head, int64_t heads);

// q, k and their products of a pair, channel by channel: three figures. The products' sums, before
// and after, are in the notes: what the score is made of before it is scaled.
std::vector<widgets::PlotSpec> pair_channel_figures(const QueryKey& values, int64_t query,
                                                    int64_t key, const ModelNames& names);

// q and k of every token, tokens down and channels across, before and after: up to four maps.
// Before and after have one scale.
std::vector<widgets::PlotSpec> channel_maps(const QueryKey& values, const ModelNames& names);

}  // namespace phasescope::app
