#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

// Positions of tokens, and what travels with them from layer to layer.

namespace phasescope::model {

// Ends of given position ids, and the largest |difference| of two of one text; past 2^24 that is
// 2^24 + 1.
struct PositionExtent {
  std::int64_t least = 0, greatest = 0, reach = 0;
};
// Reads the ids (N) or (B, N): on a device that is a transfer.
PositionExtent extent_of(const at::Tensor& ids);

// Position ids of N tokens: shift, shift + 1, ... unless `ids` says otherwise. Ids feed the
// encoding (angles, distances); the causal mask goes by index.
struct Positions {
  std::int64_t length = 0;
  std::int64_t shift = 0;
  at::Tensor ids;        // (N) or (B, N) int64; undefined where positions are consecutive
  at::Tensor axes = {};  // (A, B, N) int64 where tokens have A positions each; `ids` are the first
  at::Device device = at::kCPU;               // of `ids`, and of all that is made of positions
  std::optional<PositionExtent> extent = {};  // of `ids`; empty where nobody has measured them
  at::Tensor kept = {};  // `ids` as the host has them; undefined where nobody kept them

  // The options of a tensor that is made of positions.
  at::TensorOptions options(at::ScalarType dtype) const {
    return at::TensorOptions(dtype).device(device);
  }
  // The extent of the ids, given or not; 0 for none.
  PositionExtent measured() const;
  bool consecutive() const { return !ids.defined(); }
  // `ids` on the host: a device is asked for them where nobody kept them.
  at::Tensor ids_on_host() const;
  // Largest |difference| of two ids.
  std::int64_t largest_distance() const;
};

// `length` of the positions 0..range-1 in order, drawn at random, the same for the same seed:
// (length) int64. At most `range` can be drawn.
at::Tensor drawn_positions(std::int64_t length, std::int64_t range, std::uint64_t seed);

// What a table by distance is kept in for a model of `dtype`: float64 for float64, float32 for all
// others. In 16 bits neighbours far from a query would share an entry, and float16 ends at 65,504.
at::ScalarType table_dtype(at::ScalarType dtype);
// Options of a table for tensors that have these.
at::TensorOptions table_options(const at::TensorOptions& options);

// Few numbers, (values), written where the tensor lies: on a device nothing is copied from the
// host.
at::Tensor tensor_of(const std::vector<double>& values, const at::TensorOptions& options);

// Tokens (int64) times `step`, rounded towards 0: for encodings that know whole places alone.
at::Tensor whole_places(const at::Tensor& tokens, double step);

// What travels from layer to layer beside the hidden state. z holds one complex number a token,
// head and plane: (B or 1, H or 1, N, 2, planes), cosine (real) parts first, at most d/2 planes;
// undefined for encodings that rotate nothing. With d planes there is a number of each kind for
// every channel (rotation.h): no complex numbers then.
struct PositionState {
  Positions positions;
  at::Tensor z;
  // What else the layers share, as the encoding says: t5's TableProgram values.
  at::Tensor table = {};
  // What before_layer() or read_hidden() made for this layer alone, as the encoding says; of
  // read_hidden() tokens stand in dimension 2.
  std::vector<at::Tensor> read = {};
  // What running_sums() of this layer came to over the tokens before these, (B, 1, ...); undefined
  // where there are none. It leaves there what they come to with these.
  at::Tensor sums = {};
};

// Sums over tokens up to each, of steps (B, N, ...): those before are in state.sums.
at::Tensor running_sums(const at::Tensor& steps, PositionState& state);

}  // namespace phasescope::model
