#pragma once
// Queries and keys of a head by channel, before and after what the encoding does to them.
#include <span>
#include <string>
#include <vector>

#include "app/figures/figures.h"

namespace phasescope::app {

// Queries (tokens, channels) and keys (keys, channels) of one head of one text, row-major;
// `..after` empty where the encoding changes nothing of q and k.
struct QueryKey {
  std::string model, stack, head;     // head: "L3H1", with the stack in front if there is one
  std::int64_t tokens = 0, keys = 0;  // as many but in cross attention
  std::int64_t channels = 0;
  std::vector<float> q, k, q_after, k_after;
};

// From the tensors of a capture of q, k and rotated of one layer: q of the one head that was asked
// for, k of all key heads, of which `head` of `heads` reads one (grouped queries share them).
// `stack`: of an encoder-decoder "enc", "dec" or "cross", else empty. Without tokens where a tensor
// is missing or of another shape.
QueryKey query_key_of(std::span<const protocol::TensorRef> tensors, const std::string& model,
                      const std::string& stack, std::int64_t layer, std::int64_t head,
                      std::int64_t heads);

// q, k and their products of a pair, channel by channel: three figures. The products' sums, before
// and after, are in the notes: what the score is made of before it is scaled.
std::vector<widgets::PlotSpec> pair_channel_figures(const QueryKey& values, std::int64_t query,
                                                    std::int64_t key, const ModelNames& names);

// q and k of every token (of cross attention, q of the decoder's and k of the encoder's), tokens
// down and channels across, before and after: up to four maps. Before and after have one scale.
std::vector<widgets::PlotSpec> channel_maps(const QueryKey& values, const ModelNames& names);

}  // namespace phasescope::app
