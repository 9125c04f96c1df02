#include "model/key_value_cache.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "formats/error.h"
#include "model/decoder.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kLeastRoom = 64;  // tokens

// q (B, H, n, d) as the last rows of a text of `length` tokens. The others are never read.
at::Tensor in_last_rows(const at::Tensor& q, std::int64_t length) {
  return at::constant_pad_nd(q, {0, 0, length - q.size(2), 0});
}

// The last `count` of dimension `dim`; nothing of nothing.
void keep_last(at::Tensor& x, std::int64_t dim, std::int64_t count) {
  if (x.defined()) x = x.narrow(dim, x.size(dim) - count, count);
}

// A whole text's program for the queries of its last tokens alone.
void keep_last_queries(AttentionProgram& program, std::int64_t count) {
  program.query_offset = program.q.size(2) - count;
  keep_last(program.q_plain, 2, count);
  for_each_tensor(program, [count](const TensorInfo& info, at::Tensor& x) {
    if (info.query_dim >= 0) keep_last(x, info.query_dim, count);
  });
}

}  // namespace

at::Tensor TokenRows::put(const at::Tensor& rows, std::int64_t before) {
  const std::int64_t length = before + rows.size(2);
  // What a pass that was stopped left behind may be of other sizes.
  if (before == 0 || memory_.size(2) < length) {
    std::vector<std::int64_t> sizes = rows.sizes().vec();
    sizes[2] = std::max({length, kLeastRoom, 2 * before});
    const at::Tensor larger = at::empty(sizes, rows.options());
    if (before > 0) larger.narrow(2, 0, before).copy_(memory_.narrow(2, 0, before));
    memory_ = larger;
  }
  memory_.narrow(2, before, rows.size(2)).copy_(rows);
  return memory_.narrow(2, 0, length);
}

std::string cache_obstacle(const Decoder& decoder, std::int64_t length) {
  const ModelConfig& config = decoder.config();
  if (!config.attention.causal) return "its tokens see later ones";
  if (config.attention.cross_positions) {
    return "its decoder's programs are asked for the places of the encoder's text too";
  }
  if (config.patches.side > 0) return "it reads images";
  if (config.positions.map.starts_with("random") && config.positions.draw == "always") {
    return "positions are drawn anew for every length of the text";
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const Encoding& encoding = decoder.encoding_of(layer);
    for (const Repairs* repairs : {&encoding.repairs(), &decoder.encoding().repairs()}) {
      if (repairs->changes_scores() || !repairs->ablations.empty()) {
        return "what is done to single heads is done to whole texts";
      }
    }
    const Pieces pieces = encoding.in_pieces(length);
    if (pieces.kind == Pieces::Kind::refused) return encoding.info().key + ": " + pieces.why;
  }
  return {};
}

KeyValueCache::KeyValueCache(const Decoder& decoder, std::int64_t most)
    : most_(most), layers_(static_cast<std::size_t>(decoder.config().layers)) {
  if (const std::string why = cache_obstacle(decoder, most); !why.empty()) {
    throw formats::Error("not_applicable", "the model cannot read a text in pieces: " + why,
                         "cache", "read it as a whole");
  }
  for (std::int64_t layer = 0; layer < decoder.config().layers; ++layer) {
    const Encoding& encoding = decoder.encoding_of(layer);
    if (encoding.in_pieces(most).kind == Pieces::Kind::text) of_whole_texts_.insert(&encoding);
  }
}

void KeyValueCache::begin(const at::Tensor& ids) {
  if (length_ > 0 && ids.size(0) != batch_) {
    throw formats::bad_usage("the cache holds " + std::to_string(batch_) +
                                 " texts, and pieces of " + std::to_string(ids.size(0)) +
                                 " were given",
                             "cache");
  }
  if (length_ + ids.size(1) > most_) {
    throw formats::bad_usage("the cache is for texts of up to " + std::to_string(most_) +
                                 " tokens, and this one has " +
                                 std::to_string(length_ + ids.size(1)),
                             "cache");
  }
  batch_ = ids.size(0);
  for (Layer& layer : layers_) {
    layer.next_linear = layer.linear;
    layer.next_convolved = layer.convolved;
    if (length_ == 0) layer.across = {};
  }
}

void KeyValueCache::advance(std::int64_t tokens) {
  length_ += tokens;
  for (Layer& layer : layers_) {
    // A copy, for it is a view of the sums of all tokens of the pass.
    if (layer.next_sums.defined()) layer.sums = layer.next_sums.clone();
    layer.linear = layer.next_linear;
    for (std::size_t n = 0; n < layer.convolved.size(); ++n) {
      const at::Tensor& next = layer.next_convolved[n];
      layer.convolved[n] = next.defined() ? next.clone() : next;  // likewise
    }
  }
}

void KeyValueCache::read_hidden(std::int64_t layer, const Encoding& encoding,
                                const Parameters& parameters, const at::Tensor& x,
                                PositionState& state) {
  Layer& own = of(layer);
  state.sums = own.sums;
  encoding.read_hidden(parameters, x, state);
  own.next_sums = state.sums;
  if (!asks_whole_text(encoding)) return;
  own.read.resize(state.read.size());
  for (std::size_t n = 0; n < state.read.size(); ++n) {
    state.read[n] = own.read[n].put(state.read[n], length_);
  }
}

AttentionProgram KeyValueCache::whole_text_program(std::int64_t layer, const Encoding& encoding,
                                                   const Parameters& parameters,
                                                   const at::Tensor& q, const at::Tensor& k,
                                                   const PositionState& state) {
  const at::Tensor keys = of(layer).k.put(k, length_);
  AttentionProgram program =
      encoding.program(parameters, in_last_rows(q, keys.size(2)), keys, state);
  keep_last_queries(program, q.size(2));
  return program;
}

void KeyValueCache::join(std::int64_t layer, const Encoding& encoding, AttentionProgram& program,
                         at::Tensor& v) {
  Layer& own = of(layer);
  v = own.v.put(v, length_);
  if (asks_whole_text(encoding)) return;
  auto* tape = program.as<TapeProgram>();
  TORCH_INTERNAL_ASSERT(tape != nullptr || program.is<PlainProgram>(), encoding.info().key,
                        " has programs of tokens alone");
  program.k = program.k_plain = own.k.put(program.k, length_);
  program.q_normed = program.k_normed = at::Tensor();  // of the last tokens alone
  if (tape != nullptr) tape->state = own.state.put(tape->state, length_);
  at::Tensor& bias = program.tokens.key;
  if (bias.defined()) bias = own.key_bias.put(bias, length_);
  program.query_offset = length_;
  program.positions.length += length_;
  program.positions.shift -= length_;
}

at::Tensor& KeyValueCache::convolved(std::int64_t layer, Convolution which) {
  return of(layer).next_convolved[static_cast<std::size_t>(which)];
}

LinearState& KeyValueCache::linear_state(std::int64_t layer) { return of(layer).next_linear; }

void check_cached_pass(const ForwardOptions& options) {
  bool more = options.hook != nullptr || options.draw.has_value();
  for (const at::Tensor* given :
       {&options.position_ids, &options.key_mask, &options.token_types,
        &options.decoder_position_ids, &options.patches, &options.document_ids, &options.mask,
        &options.layer_position_ids, &options.grid_positions, &options.axis_positions,
        &options.initial_state}) {
    more = more || given->defined();
  }
  if (more) {
    throw formats::bad_usage(
        "a text that is read in pieces takes ids and what its positions start at, and nobody "
        "changes what attention runs",
        "cache", "read it as a whole");
  }
  if (at::GradMode::is_enabled()) {
    throw formats::bad_usage("a text that is read in pieces has no gradients", "cache",
                             "read it as a whole");
  }
}

}  // namespace phasescope::model
