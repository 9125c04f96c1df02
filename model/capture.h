#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/decoder.h"

namespace phasescope::model {

struct CaptureSpec {
  // Any of capture_kinds(): logits, hidden, streams, attn, scores, content, positional, position,
  // q, k, v, rotated, lse, entropy; or single tensors by their names ("attn.1",
  // "hidden.last_layer_out").
  std::vector<std::string> what;
  // Of an encoder-decoder whose tensors kinds are of: "dec", "enc" or "cross"; of all where empty.
  // Single tensors are what their names say.
  std::string stack = {};
  std::optional<std::vector<std::int64_t>> layers = {};  // all where empty
  std::optional<std::vector<std::int64_t>> heads = {};
  std::optional<Range> rows = {};  // queries: attention's rows, and the tokens of everything else
  std::optional<Range> columns = {};  // keys: attention's columns, and the tokens of k and v
  std::int64_t limit_bytes = std::int64_t{1} << 30;
};

struct Captured {
  std::map<std::string, at::Tensor> tensors;  // contiguous, in the dtype computed
  std::vector<std::string> notes;             // what was asked for and does not exist here
  AllRan ran;                                 // attention
};

const std::vector<std::string>& capture_kinds();

// Whether a single tensor of that name exists in a model of this size ("rope.inv_freq" and its like
// only where something rotates).
bool is_capture_tensor(const std::string& name, const ModelConfig& config);

// Runs ids (B, N) through the model and keeps what was asked for, by the names of the command
// line's `capture`: logits (B, N, V), hidden.L (B, N, C), attn.L, scores.L, content.L, positional.L
// (B, H, N, N), position.L (B, H, N, 2, d/2), q.L, k.L, v.L, q.L.rotated, k.L.rotated (B, H, N, d),
// lse.L, entropy.L (B, H, N). In an encoder-decoder with "dec." and "enc." in front, and "cross."
// for the decoder's attention to the encoder; ranges and layers hold for all of them, or for the
// one stack that was chosen. By name alone: rope.inv_freq (planes), the frequencies in force, or
// rope.full_attention.inv_freq and rope.sliding_attention.inv_freq where local layers have others.
// Throws Error "bad_usage" for unknown names, stacks and ranges, and for more than limit_bytes,
// naming the rows, columns and layers that would fit.
Captured capture(const Decoder& decoder, const at::Tensor& ids, const CaptureSpec& spec,
                 const ForwardOptions& options = {});

}  // namespace phasescope::model
