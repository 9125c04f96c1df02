#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/encoding.h"
#include "model/linear_attention.h"

// Reading a text in pieces: what a decoder made of earlier tokens is kept, so that a further token
// costs attention to the ones before it and nothing more. Generation is that, a token at a time.

namespace phasescope::model {

class Decoder;
class Observer;
struct ForwardOptions;

// Rows of tokens that come piece by piece, in memory with room for more.
class TokenRows {
 public:
  // Puts `rows` (B, H, n, ...) behind the first `before` and gives all of them, (B, H, before + n,
  // ...): a view that later rows do not change.
  at::Tensor put(const at::Tensor& rows, std::int64_t before);

 private:
  at::Tensor memory_;  // (B, H, room, ...)
};

// Why a text of up to `length` tokens cannot be read in pieces, as a clause; empty where it can.
std::string cache_obstacle(const Decoder& decoder, std::int64_t length);

// What is kept of one batch of texts, of the decoder that it was made for. ForwardOptions::cache
// makes a pass read its ids as the tokens behind those; of an encoder-decoder it is the decoder's
// text, and the encoder runs once.
class KeyValueCache {
 public:
  // For texts of up to `most` tokens, of which nothing has been read. Throws Error "not_applicable"
  // with the reason where cache_obstacle() has one.
  KeyValueCache(const Decoder& decoder, std::int64_t most);

  // Tokens that have been read.
  std::int64_t length() const { return length_; }

  // ---- Of the decoder's passes ----

  // Before a pass over ids (B, N). Throws Error "bad_usage" for another number of texts than
  // before, and for more tokens than it is for.
  void begin(const at::Tensor& ids);
  // After a pass that ran to its end; one that did not leaves nothing behind.
  void advance(std::int64_t tokens);

  // Whether programs of this encoding are asked for the whole text (Pieces::Kind::text).
  bool asks_whole_text(const Encoding& encoding) const {
    return of_whole_texts_.contains(&encoding);
  }
  // What encoding.read_hidden() makes of a layer's new tokens, into the layer's state.
  void read_hidden(std::int64_t layer, const Encoding& encoding, const Parameters& parameters,
                   const at::Tensor& x, PositionState& state);
  // The program of new queries (B, H, n, d), asked for the whole text: `k` (B, kv heads, n, d) of
  // new tokens, `state` of all.
  AttentionProgram whole_text_program(std::int64_t layer, const Encoding& encoding,
                                      const Parameters& parameters, const at::Tensor& q,
                                      const at::Tensor& k, const PositionState& state);
  // Puts what the program and v have of new tokens behind what earlier ones left. Without the keys
  // as they were before they were turned: content scores cannot be told.
  void join(std::int64_t layer, const Encoding& encoding, AttentionProgram& program, at::Tensor& v);
  // The state of a layer of linear attention before these tokens, to become that after them.
  LinearState& linear_state(std::int64_t layer);
  // What one of a layer's convolutions reads of the tokens before these, (B, kernel - 1, channels),
  // to become that after them; undefined where there are none.
  enum class Convolution : std::uint8_t { key, value, attention, mlp };
  at::Tensor& convolved(std::int64_t layer, Convolution which);

  // What an encoder-decoder keeps: the encoder's output, and a layer's keys and values of it.
  struct Across {
    at::Tensor k, v;
  };
  at::Tensor& encoded() { return encoded_; }
  Across& across(std::int64_t layer) { return layers_[static_cast<std::size_t>(layer)].across; }

 private:
  struct Layer {
    TokenRows k, v, state, key_bias;
    std::vector<TokenRows> read;
    at::Tensor sums, next_sums;  // PositionState::sums before a pass and after it
    LinearState linear, next_linear;
    std::array<at::Tensor, 4> convolved, next_convolved;
    Across across;
  };

  Layer& of(std::int64_t layer) { return layers_[static_cast<std::size_t>(layer)]; }

  std::set<const Encoding*> of_whole_texts_;
  std::int64_t most_, batch_ = 0, length_ = 0;
  std::vector<Layer> layers_;
  at::Tensor encoded_;
};

// Checks a pass with a cache: ids and what positions start at are all that is given, no gradients
// are wanted. Throws Error "bad_usage" otherwise. An observer sees the new tokens' rows, over all
// keys.
void check_cached_pass(const ForwardOptions& options);

}  // namespace phasescope::model
