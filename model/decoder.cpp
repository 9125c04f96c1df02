#include "model/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "model/attention/cuda_attention.h"
#include "model/attention/repairs.h"
#include "model/encodings/rotation.h"
#include "model/feed_forward.h"
#include "model/forward_checks.h"
#include "model/forward_inputs.h"
#include "model/key_value_cache.h"
#include "model/linear_attention.h"
#include "model/recompute.h"
#include "model/rms_norm.h"
#include "model/streams.h"

namespace phasescope::model {
namespace {

// Divides q.k by `gain` and multiplies the score by it. What is only added to q.k comes out
// multiplied; only what the score is read by tells the difference otherwise.
void add_gain(AttentionProgram& program, std::int64_t layer) {
  const auto gain = static_cast<double>(layer);
  if (program.is<CapeProgram>() || program.term() != nullptr) {
    program.scale /= gain;
    program.gain = gain;
  } else if (auto* table = program.as<TableProgram>(); table != nullptr && !table->multiplies) {
    table->values = table->values * gain;
  } else if (auto* own = program.as<QueryTableProgram>()) {
    own->values = own->values * gain;
  }
  for (at::Tensor* bias : {&program.tokens.query, &program.tokens.key}) {
    if (bias->defined()) *bias = *bias * gain;
  }
}

// The configuration's norm over the last dimension, in dtype `out`.
at::Tensor normed(const ModelConfig& config, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias, at::ScalarType out) {
  const at::Tensor factor = config.norm.unit_offset ? weight + 1 : weight;
  if (config.norm.kind == "layer") {
    return at::layer_norm(x, {x.size(-1)}, factor, bias, config.norm_eps).to(out);
  }
  const at::Tensor y = rms_norm(x, factor, config.norm_eps, out);
  return bias.defined() ? y + bias : y;
}

// x over its root mean square of the last dimension.
at::Tensor of_unit_square(const at::Tensor& x, double eps) {
  return x * at::rsqrt(x.square().mean(-1, true) + eps);
}

// What the encodings of layer groups share.
const Parameters& no_parameters() {
  static const Parameters none;
  return none;
}

constexpr double kLatentEps = 1e-6;  // of latent attention's norms, whatever the model's eps is

using Convolution = KeyValueCache::Convolution;

// What the decoder's layers attend to.
struct Memory {
  at::Tensor hidden;        // (B, M, C); undefined where there is no encoder
  at::Tensor key_mask;      // (B, M) bool, or undefined
  at::Tensor position_ids;  // (M) or (B, M) int64; undefined where they are consecutive
  std::optional<PositionExtent> extent = {};  // of position_ids
};

// Whether some query sees padding alone: mask (B, N) bool of real keys, on the host.
bool leaves_rows_empty(const at::Tensor& mask, bool causal) {
  const at::Tensor sees = causal ? mask.select(1, 0) : mask.any(1);
  return !sees.all().item<bool>();
}

// The options with all tensors where the model is. Documents are counted from 0 on the way: the
// kernels there read 32 bits.
ForwardOptions beside(const at::Device& device, const ForwardOptions& given) {
  ForwardOptions options = given;
  if (device.is_cpu()) return options;
  if (options.document_ids.defined()) {
    options.document_ids = std::get<1>(at::_unique(options.document_ids.cpu(), true, true));
  }
  for (at::Tensor* tensor :
       {&options.position_ids, &options.key_mask, &options.token_types, &options.decoder_ids,
        &options.decoder_position_ids, &options.patches, &options.document_ids, &options.mask,
        &options.layer_position_ids, &options.axis_positions, &options.initial_state}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
  return options;
}

std::optional<PositionExtent> extent_of_given(const at::Tensor& ids) {
  return ids.defined() ? std::optional(extent_of(ids)) : std::nullopt;
}

// The score of queries and keys of two texts, as a term has it of one. `rows` and `columns` are
// their position ids, (B or 1, N) and (B or 1, M).
auto across(const TermProgram& term, const at::Tensor& rows, const at::Tensor& columns) {
  return [term, rows, columns](const at::Tensor& scores, const ScoreCorner& corner) {
    const at::Tensor row_ids = rows.narrow(1, corner.row, scores.size(2));
    const at::Tensor column_ids = columns.narrow(1, corner.column, scores.size(3));
    return term.score({scores, row_ids.unsqueeze(2), column_ids.unsqueeze(1), corner.head,
                       corner.row, corner.column});
  };
}

// (B or 1, N) position ids.
at::Tensor rows_of_ids(const Positions& positions) {
  const at::Tensor ids = position_ids(positions);
  return ids.dim() == 2 ? ids : ids.unsqueeze(0);
}

// One stack: its configuration, encodings and weights.
struct Stack {
  const ModelConfig& config;
  const Encoding& encoding;
  const Encoding* local;  // null where local layers have the same
  const std::vector<std::shared_ptr<const Encoding>>& groups;  // null where one has the model's
  const StackWeights& weights;
};

// A norm's tensors.
struct Norm {
  const at::Tensor& weight;
  const at::Tensor& bias;
};

// One forward pass through one stack: what its steps share. Layers that run again for their
// gradients keep it alive.
class Pass : public std::enable_shared_from_this<Pass> {
 public:
  Pass(const Decoder& decoder, const Stack& stack, const ForwardOptions& options, Memory memory,
       Observer* observer)
      : config_(stack.config),
        stack_(stack),
        model_(decoder.weights()),
        dtype_(decoder.dtype()),
        device_(decoder.device()),
        options_(beside(device_, options)),
        memory_(std::move(memory)),
        observer_(observer),
        before_(options.cache != nullptr ? options.cache->length() : 0),
        extent_(extent_of_given(options.position_ids)) {
    if (memory_.key_mask.defined()) memory_.key_mask = memory_.key_mask.to(device_);
    if (memory_.position_ids.defined()) {
      memory_.extent = extent_of(memory_.position_ids);
      memory_.position_ids = memory_.position_ids.to(device_);
    }
    if (!options.key_mask.defined()) return;
    given_mask_ = options.key_mask.ne(0);
    key_mask_ = given_mask_.to(device_);
    const AttentionConfig& a = config_.attention;
    if (a.padding == "added") loses_rows_ = leaves_rows_empty(given_mask_, a.causal);
  }

  at::Tensor run(const at::Tensor& given) {
    const at::Tensor ids = given.to(device_);
    const StartContext context = context_of_tokens(ids.size(1), stack_.weights.encoding);
    at::Tensor x = embed(ids, context);
    if (model_.layer_embedding.defined()) layer_inputs_ = layer_inputs(ids, x);
    if (has_streams()) x = begin_streams(model_, x, options_.product_dtype);
    State states = {start_of(stack_.encoding, ids.size(1), stack_.weights.encoding), {}};
    if (options_.initial_state.defined()) states.global.z = options_.initial_state;
    if (stack_.local != nullptr) {
      states.local = start_of(*stack_.local, ids.size(1), stack_.weights.local_encoding);
    }
    for (const auto& group : stack_.groups) {
      states.groups.push_back(group ? start_of(*group, ids.size(1), no_parameters())
                                    : PositionState());
    }
    report(0, x, states);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      if (options_.cancelled && options_.cancelled()) throw formats::cancelled();
      if (layer > 0 && draws_by_layer(ids.size(1))) begin_again(layer, ids.size(1), states);
      x = runs_again() ? run_layer_again(layer, x, states) : run_layer(layer, x, states);
      report(layer + 1, x, states);
      if (options_.progress) {
        options_.progress(static_cast<double>(layer + 1) / static_cast<double>(config_.layers));
      }
    }
    if (has_streams()) x = joined_streams(model_, x, options_.product_dtype);
    if (config_.norm.at_end) {
      x = norm(x, {stack_.weights.final_norm, stack_.weights.final_norm_bias}, dtype_);
    }
    if (model_.embedding_out.defined()) x = project(x, model_.embedding_out, {});
    if (observer_ != nullptr) observer_->on_final_norm(x);
    return x;
  }

 private:
  // Of the encoding of most layers, and of the local ones where theirs is another.
  struct State {
    PositionState global, local;
    std::vector<PositionState> groups;  // of the layer groups, in their order
  };

  bool has_streams() const { return config_.streams.count > 1; }

  // Where all that a layer reads of the layers before it is the stream, the states and the
  // encoder's output, and nobody looks on.
  bool runs_again() const {
    return options_.recompute && at::GradMode::is_enabled() && observer_ == nullptr &&
           options_.hook == nullptr && config_.attention.shared_layers.empty() &&
           !layer_inputs_.defined();
  }

  // Where somebody looks on, or changes what attention runs, the layer's MLP alone can run again.
  bool runs_mlp_again() const {
    return options_.recompute && at::GradMode::is_enabled() && !runs_again();
  }

  // A layer that keeps its inputs alone and runs again when its gradients are asked for.
  at::Tensor run_layer_again(std::int64_t layer, const at::Tensor& x, State& states) {
    const auto compute = [self = shared_from_this(), layer,
                          given = states](const std::vector<at::Tensor>& inputs) {
      State own = given;
      std::size_t next = 1;
      for_each_tensor_of(own, [&](at::Tensor& tensor) { tensor = inputs[next++]; });
      const at::Tensor memory = self->memory_.hidden;
      if (memory.defined()) self->memory_.hidden = inputs[next];
      std::vector<at::Tensor> made = {self->run_layer(layer, inputs[0], own)};
      self->memory_.hidden = memory;
      for_each_tensor_of(own, [&](const at::Tensor& tensor) { made.push_back(tensor); });
      return made;
    };
    std::vector<at::Tensor> inputs = {x};
    for_each_tensor_of(states, [&](const at::Tensor& tensor) { inputs.push_back(tensor); });
    if (memory_.hidden.defined()) inputs.push_back(memory_.hidden);
    const std::vector<at::Tensor> made = recomputed(compute, inputs);
    std::size_t next = 1;
    for_each_tensor_of(states, [&](at::Tensor& tensor) { tensor = made[next++]; });
    return made[0];
  }

  // Those of position states that layers hand on; a layer defines none that was not.
  template <class States, class Each>
  static void for_each_tensor_of(States& states, const Each& each) {
    const auto visit = [&each](auto& state) {
      if (state.z.defined()) each(state.z);
      if (state.table.defined()) each(state.table);
    };
    visit(states.global), visit(states.local);
    for (auto& group : states.groups) visit(group);
  }

  bool reads_local(std::int64_t layer) const {
    return stack_.local != nullptr && config_.is_local(layer);
  }

  const Encoding& encoding_of(std::int64_t layer) const {
    const std::int64_t group = config_.encoding_group_of(layer);
    if (group >= 0) return *stack_.groups[static_cast<std::size_t>(group)];
    return reads_local(layer) ? *stack_.local : stack_.encoding;
  }

  PositionState& state_of(std::int64_t layer, State& states) const {
    const std::int64_t group = config_.encoding_group_of(layer);
    if (group >= 0) return states.groups[static_cast<std::size_t>(group)];
    return reads_local(layer) ? states.local : states.global;
  }

  // The states of a layer that draws positions of its own.
  void begin_again(std::int64_t layer, std::int64_t length, State& states) const {
    states.global = stack_.encoding.start(start_context(length, stack_.weights.encoding, layer));
    if (stack_.local != nullptr) {
      states.local =
          stack_.local->start(start_context(length, stack_.weights.local_encoding, layer));
    }
    for (std::size_t n = 0; n < stack_.groups.size(); ++n) {
      const auto& group = stack_.groups[n];
      if (group) states.groups[n] = group->start(start_context(length, no_parameters(), layer));
    }
  }

  // Of the tokens of this pass alone, which stand behind those that a cache holds.
  StartContext context_of_tokens(std::int64_t tokens, const Parameters& shared) const {
    StartContext context = start_context(tokens, shared);
    context.positions.shift += before_;
    return context;
  }

  // The first state of an encoding that its programs of this pass take.
  PositionState start_of(const Encoding& encoding, std::int64_t tokens,
                         const Parameters& shared) const {
    const bool whole = options_.cache != nullptr && options_.cache->asks_whole_text(encoding);
    return encoding.start(whole ? start_context(before_ + tokens, shared)
                                : context_of_tokens(tokens, shared));
  }

  StartContext start_context(std::int64_t length, const Parameters& shared,
                             std::int64_t layer = 0) const {
    StartContext context;
    context.positions = {length,  options_.shift, options_.position_ids, options_.axis_positions,
                         device_, extent_};
    if (!options_.position_ids.defined()) map_positions(context.positions, layer);
    if (config_.positions_skip_padding && key_mask_.defined() && !options_.position_ids.defined()) {
      const at::Tensor text = given_mask_.to(at::kLong);
      const at::Tensor places = text.cumsum(1) * text - 1;
      const at::Tensor& drawn = context.positions.ids;  // (N), where the map draws
      context.positions.ids =
          drawn.defined() ? drawn.index({places.clamp_min(0)}) : places + context.positions.shift;
    }
    if (!options_.position_ids.defined() && !context.positions.consecutive()) {
      context.positions.extent = extent_of(context.positions.ids);
      context.positions.ids = context.positions.ids.to(device_);
    }
    context.dtype = dtype_;
    context.angle_dtype = options_.angle_dtype.value_or(at::promote_types(dtype_, at::kFloat));
    context.shared = &shared;
    context.layer_ids = options_.layer_position_ids;
    context.draw = options_.draw;
    return context;
  }

  std::int64_t range_of_draws() const {
    return config_.positions.range > 0 ? config_.positions.range : 2 * config_.context;
  }

  bool draws_positions(std::int64_t length) const {
    const PositionsConfig& how = config_.positions;
    return how.map.starts_with("random") && (options_.draw.has_value() || how.draw == "always") &&
           !options_.position_ids.defined() && length <= range_of_draws();
  }
  bool draws_by_layer(std::int64_t length) const {
    return config_.positions.map == "random_by_layer" && draws_positions(length);
  }

  // As the configuration says; given ids are taken as they are.
  void map_positions(Positions& positions, std::int64_t layer) const {
    const PositionsConfig& how = config_.positions;
    if (how.map == "shift") positions.shift += how.shift;
    if (!draws_positions(positions.length)) return;
    const std::uint64_t seed = options_.draw.value_or(static_cast<std::uint64_t>(how.seed)) +
                               static_cast<std::uint64_t>(layer);
    positions.ids = drawn_positions(positions.length, range_of_draws(), seed) + positions.shift;
  }

  // (B, N) to (B, N, C), with everything that is added before the first layer.
  at::Tensor embed(const at::Tensor& ids, const StartContext& context) const {
    at::Tensor x = at::embedding(model_.embedding, ids);
    if (config_.embedding.scale != 1) x = x * config_.embedding.scale;
    if (model_.patches.defined()) x = with_patches(x);
    if (model_.embedding_in.defined()) x = project(x, model_.embedding_in, {});
    if (model_.token_types.defined()) {
      const at::Tensor types =
          options_.token_types.defined() ? options_.token_types : at::zeros_like(ids);
      x = x + at::embedding(model_.token_types, types);
    }
    x = stack_.encoding.embed(x, context);
    if (!model_.embedding_norm.defined()) return x;
    return norm(x, {model_.embedding_norm, model_.embedding_norm_bias}, dtype_);
  }

  // x (B, N, E) with what each token's piece of an image gives (PatchesConfig).
  at::Tensor with_patches(const at::Tensor& x) const {
    const PatchesConfig& p = config_.patches;
    const at::Tensor pieces =
        options_.patches.to(dtype_).unflatten(-1, {p.side, p.side, p.channels});
    // (B, N, windows, channels * kernel * kernel)
    const at::Tensor windows =
        pieces.unfold(2, p.kernel, 1).unfold(3, p.kernel, 1).flatten(2, 3).flatten(3);
    const at::Tensor given = x.unsqueeze(2) + project(windows, model_.patches, {});
    return windows.size(2) == 1 ? given.squeeze(2) : at::relu(given).amax(2);
  }

  void report(std::int64_t index, const at::Tensor& x, State& states) const {
    if (observer_ == nullptr) return;
    observer_->on_hidden(index, has_streams() ? x[config_.streams.active] : x);
    if (has_streams()) observer_->on_streams(index, x);
    const PositionState& state = index < config_.layers ? state_of(index, states) : states.global;
    if (state.z.defined()) observer_->on_position(index, state);
  }

  at::Tensor norm(const at::Tensor& x, const Norm& n, at::ScalarType out) const {
    return normed(config_, x, n.weight, n.bias, out);
  }

  at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    return product(x, weight, bias, options_.product_dtype).to(dtype_);
  }

  // x and what a branch makes of it, with the norms where the configuration has them; `given` takes
  // what the branch gave.
  template <typename Branch>
  at::Tensor with_branch(const at::Tensor& x, const Norm& n, const Norm& of_output,
                         at::Tensor& given, Branch branch) const {
    const std::string& placement = config_.norm.placement;
    const bool reads_all = placement == "post" || placement == "output";
    given = branch(reads_all ? x : norm(x, n, product_dtype()));
    if (placement == "sandwich" || placement == "output") given = norm(given, of_output, dtype_);
    if (config_.residual_scale != 1) given = given * config_.residual_scale;
    const at::Tensor sum = x + given;
    return placement == "post" ? norm(sum, n, dtype_) : sum;
  }

  // x is (B, N, C), or (S, B, N, C) where the model has several streams.
  at::Tensor run_layer(std::int64_t index, const at::Tensor& x, State& states) const {
    const LayerWeights& w = stack_.weights.layers[static_cast<std::size_t>(index)];
    if (w.as_stored) return run_with(index, converted(w, dtype_), x, states);
    return run_with(index, w, x, states);
  }

  at::Tensor run_with(std::int64_t index, const LayerWeights& w, const at::Tensor& x,
                      State& states) const {
    if (has_streams()) return run_streams(index, w, x, states);
    at::Tensor result = run_branches(index, w, x, states);
    if (layer_inputs_.defined()) result = result + layer_input(index, w, result);
    return w.layer_scale.defined() ? result * w.layer_scale : result;
  }

  at::Tensor run_streams(std::int64_t index, const LayerWeights& w, const at::Tensor& streams,
                         State& states) const {
    const auto dtype = options_.product_dtype;
    const std::int64_t active = config_.streams.active;
    const at::Tensor predicted = predicted_streams(config_, w, streams, dtype);
    const at::Tensor made = run_branches(index, w, predicted[active], states);
    const at::Tensor corrected = corrected_streams(config_, w, predicted, made, dtype);
    if (!layer_inputs_.defined()) return corrected;
    const at::Tensor read = corrected[active];
    const at::Tensor own =
        layer_input(index, w, config_.streams.scaled ? read * w.stream_scale : read);
    // The first stream gets none of it, whichever is the active one.
    return at::cat(
        {corrected.narrow(0, 0, 1), corrected.narrow(0, 1, config_.streams.count - 1) + own});
  }

  // r + norm(W_out W_in r) of what attention read.
  at::Tensor low_rank(const LayerWeights& w, const at::Tensor& read) const {
    const at::Tensor made = project(project(read, w.low_rank_in, {}), w.low_rank_out, {});
    return read.to(dtype_) + norm(made, {w.low_rank_norm, {}}, dtype_);
  }

  at::Tensor run_mlp(std::int64_t index, const LayerWeights& w, const at::Tensor& read) const {
    return feed_forward(config_, w, read, options_.product_dtype, dtype_,
                        config_.shape_of(index).sparsity);
  }

  // An MLP that keeps its input alone, the largest part of what a layer would keep.
  at::Tensor run_mlp_again(std::int64_t index, const LayerWeights& w,
                           const at::Tensor& read) const {
    const auto compute = [self = shared_from_this(), index,
                          w](const std::vector<at::Tensor>& inputs) {
      return std::vector<at::Tensor>{self->run_mlp(index, w, inputs[0])};
    };
    return recomputed(compute, {read})[0];
  }

  // What attention and MLP make of x (B, N, C).
  at::Tensor run_branches(std::int64_t index, const LayerWeights& w, const at::Tensor& x,
                          State& states) const {
    PositionState& state = state_of(index, states);
    encoding_of(index).before_layer(index, state);
    MlpContext context;
    at::Tensor result;
    const bool linear = names_layer(config_.linear.layers, index);
    at::Tensor read_by_attention;
    const auto attend_to = [&](const at::Tensor& read) {
      read_by_attention = read;
      LinearState* kept =
          linear && options_.cache != nullptr ? &options_.cache->linear_state(index) : nullptr;
      return linear ? linear_attention(config_, w, read, key_mask_, options_.product_dtype, dtype_,
                                       kept)
                    : convolved(index, Convolution::attention, attend(index, w, read, state),
                                w.attention_conv);
    };
    const auto mlp = [&](const at::Tensor& read) {
      return convolved(
          index, Convolution::mlp,
          runs_mlp_again() ? run_mlp_again(index, w, read) : run_mlp(index, w, read), w.mlp_conv);
    };
    const auto mlp_and_experts = [&](const at::Tensor& read) {
      const bool both = config_.experts.beside && w.router.defined();
      return both ? experts_beside(config_, w, result, mlp(read), options_.product_dtype)
                  : mlp(read);
    };
    if (config_.residual == "sequential") {
      result = with_branch(x, {w.attention_norm, w.attention_norm_bias},
                           {w.attention_output_norm, w.attention_output_norm_bias},
                           context.attention_output, attend_to);
      if (w.low_rank_in.defined()) {
        result = (result + low_rank(w, read_by_attention)) / std::sqrt(2.0);
      }
      if (memory_.hidden.defined()) {
        at::Tensor unused;
        result = with_branch(
            result, {w.cross_norm, w.cross_norm_bias},
            {w.cross_output_norm, w.cross_output_norm_bias}, unused,
            [&](const at::Tensor& read) { return cross_attend(index, w, read, state); });
      }
      result = with_branch(result, {w.mlp_norm, w.mlp_norm_bias},
                           {w.mlp_output_norm, w.mlp_output_norm_bias}, context.mlp_output,
                           mlp_and_experts);
    } else {
      const at::Tensor read = norm(x, {w.attention_norm, w.attention_norm_bias}, product_dtype());
      context.attention_output = attend_to(read);
      context.mlp_output = mlp(config_.residual == "parallel_shared"
                                   ? read
                                   : norm(x, {w.mlp_norm, w.mlp_norm_bias}, product_dtype()));
      if (config_.residual_scale != 1) {
        context.attention_output = context.attention_output * config_.residual_scale;
        context.mlp_output = context.mlp_output * config_.residual_scale;
      }
      result = x + context.attention_output + context.mlp_output;
    }
    encoding_of(index).after_mlp(w.encoding, context, state);
    return result;
  }

  // What each layer reads of its own, (B, N, layers, P), from the embedding's output x.
  at::Tensor layer_inputs(const at::Tensor& ids, const at::Tensor& x) const {
    const EmbeddingConfig& e = config_.embedding;
    const auto split = [&](const at::Tensor& t) { return t.unflatten(-1, {config_.layers, -1}); };
    const at::Tensor known = at::where(ids < e.layer_rows, ids, at::zeros_like(ids));
    const at::Tensor stored = split(at::embedding(model_.layer_embedding, known)) *
                              std::sqrt(static_cast<double>(e.layer_width));
    const at::Tensor made = split(project(x, model_.layer_projection, {}) /
                                  std::sqrt(static_cast<double>(config_.width)));
    return (norm(made, {model_.layer_projection_norm, {}}, dtype_) + stored) / std::sqrt(2.0);
  }

  // What x (B, N, C) lets through of it.
  at::Tensor layer_input(std::int64_t index, const LayerWeights& w, const at::Tensor& x) const {
    const at::Tensor gate = activated(project(x, w.layer_input_gate, {}), config_.mlp.activation);
    const at::Tensor own = project(gate * layer_inputs_.select(2, index), w.layer_input, {});
    return norm(own, {w.layer_input_norm, {}}, dtype_);
  }

  // (B, N, heads * d) -> (B, heads, N, d)
  static at::Tensor split_heads(const at::Tensor& x, std::int64_t head_dim) {
    return x.unflatten(-1, {-1, head_dim}).transpose(1, 2);
  }

  at::Tensor clipped(const at::Tensor& x) const {
    const double clip = config_.attention.clip;
    return clip > 0 ? x.clamp(-clip, clip) : x;
  }

  // A projection's q or k (B, N, heads * d) by heads, with its norm where there is one.
  at::Tensor query_or_key(const at::Tensor& projected, const Norm& n,
                          const std::vector<at::Tensor>& of_heads, std::int64_t head_dim) const {
    const at::Tensor x = clipped(projected);
    const std::string& kind = config_.attention.qk_norm;
    if (kind == "full") return split_heads(norm(x, n, dtype_), head_dim);
    if (kind == "head") return norm(split_heads(x, head_dim), n, dtype_);
    if (kind == "each") return norm_of_each(split_heads(x, head_dim), at::stack(of_heads));
    return split_heads(x, head_dim);
  }

  // With weights (heads, d) of each head's own; x (B, heads, N, d).
  at::Tensor norm_of_each(const at::Tensor& x, const at::Tensor& weight) const {
    const at::Tensor factor = (config_.norm.unit_offset ? weight + 1 : weight).unsqueeze(1);
    return config_.norm.kind == "layer"
               ? at::layer_norm(x, {x.size(-1)}, {}, {}, config_.norm_eps) * factor
               : of_unit_square(x, config_.norm_eps) * factor;
  }

  // x (B, N, C) and its causal convolution, to which padding counts as 0; x where there is none.
  at::Tensor convolved(std::int64_t index, Convolution which, const at::Tensor& x,
                       const at::Tensor& weight) const {
    if (!weight.defined()) return x;
    at::Tensor none;
    at::Tensor& last = options_.cache != nullptr ? options_.cache->convolved(index, which) : none;
    const at::Tensor text =
        key_mask_.defined() ? x.masked_fill(key_mask_.logical_not().unsqueeze(-1), 0.0) : x;
    return x + causal_convolution(text, weight, last);
  }

  // What an encoding gets, q (B, H, N, d) and k (B, kv heads, N, d), and v (B, kv heads, N, d_v).
  struct HeadTensors {
    at::Tensor q, k, v;
  };

  HeadTensors head_tensors(std::int64_t index, const LayerWeights& w,
                           const at::Tensor& read) const {
    const AttentionConfig& a = config_.attention;
    const LayerShape shape = config_.shape_of(index);
    if (a.kv_rank > 0) return latent_tensors(w, read, shape);
    HeadTensors given;
    given.q = query_or_key(project(read, w.wq, w.bq), {w.q_norm, w.q_norm_bias}, w.q_norms,
                           shape.head_dim);
    if (names_layer(a.shared_layers, index)) {
      const HeadTensors& own = last_own_[config_.is_local(index) ? 1 : 0];
      given.k = own.k, given.v = own.v;
      return given;
    }
    const at::Tensor key =
        convolved(index, Convolution::key, project(read, w.wk, w.bk), w.key_conv);
    given.k = query_or_key(key, {w.k_norm, w.k_norm_bias}, w.k_norms, shape.head_dim);
    const bool from_key = names_layer(a.value_from_key_layers, index);
    const at::Tensor value =
        from_key ? key
                 : convolved(index, Convolution::value, project(read, w.wv, w.bv), w.value_conv);
    given.v = split_heads(clipped(value), shape.value_dim);
    if (a.value_norm) given.v = of_unit_square(given.v, config_.norm_eps);
    if (a.value_scale != 1) given.v = given.v * a.value_scale;
    if (!a.shared_layers.empty()) last_own_[config_.is_local(index) ? 1 : 0] = given;
    return given;
  }

  // Keys and values made of few numbers a token; the part with a position stands first in a head.
  HeadTensors latent_tensors(const LayerWeights& w, const at::Tensor& read,
                             const LayerShape& shape) const {
    const AttentionConfig& a = config_.attention;
    const std::int64_t content = shape.head_dim - a.position_dim;
    const auto latent = [&](const at::Tensor& x, const at::Tensor& weight) {
      return rms_norm(x, weight, kLatentEps, dtype_);
    };
    const at::Tensor q = a.q_rank > 0
                             ? project(latent(project(read, w.q_a, {}), w.q_a_norm), w.q_b, {})
                             : project(read, w.wq, w.bq);
    const at::Tensor both = project(read, w.kv_a, {});
    const at::Tensor rows =
        split_heads(project(latent(both.narrow(-1, 0, a.kv_rank), w.kv_a_norm), w.kv_b, {}),
                    content + shape.value_dim);
    const at::Tensor placed = both.narrow(-1, a.kv_rank, a.position_dim).unsqueeze(1);
    HeadTensors given;
    given.q = split_heads(q, shape.head_dim);
    given.k = at::cat({placed.expand({-1, shape.heads, -1, -1}), rows.narrow(-1, 0, content)}, -1);
    given.v = rows.narrow(-1, content, shape.value_dim);
    return given;
  }

  // 1 + temperature ln(1 + floor((i + from) / length)) of the position of each token in the state,
  // or the smooth form, (N, 1) or (B, 1, N, 1).
  at::Tensor temperatures(const PositionState& state) const {
    const AttentionConfig& a = config_.attention;
    const Positions& positions = state.positions;
    const at::Tensor ids = positions.consecutive()
                               ? at::arange(positions.shift, positions.shift + positions.length,
                                            positions.options(at::kLong))
                               : positions.ids;
    const at::Tensor lengths =
        (ids.to(at::kDouble) + static_cast<double>(a.temperature_from)) / a.temperature_length;
    const at::Tensor logarithms =
        a.temperature_smooth ? at::log(lengths.clamp_min(1)) : at::log1p(at::floor(lengths));
    const at::Tensor factors =
        (1 + a.temperature * logarithms).to(table_dtype(dtype_)).unsqueeze(-1);
    return ids.dim() == 2 ? factors.unsqueeze(1) : factors;
  }

  bool has_temperature(std::int64_t index) const {
    const AttentionConfig& a = config_.attention;
    return a.temperature != 0 &&
           (a.temperature_layers.empty() || names_layer(a.temperature_layers, index));
  }

  // q, or where the temperature is of what is added to q.k too, the whole score; factors (N, 1) or
  // (B, 1, N, 1).
  void multiply_queries(AttentionProgram& program, const at::Tensor& factors) const {
    auto* table = program.as<QueryTableProgram>();
    const bool whole = config_.attention.temperature_smooth && !program.is<PlainProgram>();
    if (whole && table == nullptr) {
      const at::Tensor rows = factors.squeeze(-1);
      at::Tensor& factor = program.tokens.factor;
      const at::Tensor own = rows.dim() == 1 ? rows.view({1, 1, -1}) : rows;
      factor = factor.defined() ? factor * own : own.expand({-1, program.q.size(1), -1});
      return;
    }
    if (whole) table->values = (table->values * factors).to(table->values.scalar_type());
    program.q = (program.q * factors).to(program.q.scalar_type());
    program.transformed = true;
  }

  // What stands between the encoding and the score.
  void change_turned(std::int64_t index, const LayerWeights& w, const PositionState& state,
                     AttentionProgram& program) const {
    const AttentionConfig& a = config_.attention;
    if (a.qk_norm_after && program.transformed) {
      program.q = of_unit_square(program.q, config_.norm_eps);
      program.k = of_unit_square(program.k, config_.norm_eps);
    }
    if (has_temperature(index)) {
      const at::Tensor factors = temperatures(state);
      const std::int64_t rows = program.q.size(2);
      multiply_queries(program, factors.narrow(-2, factors.size(-2) - rows, rows));
    }
    if (names_layer(a.sink_layers, index)) program.sinks = w.sinks;
    program.content_from = a.kv_rank > 0 ? a.position_dim : 0;
  }

  // (B, M) int64 of all tokens: a query sees the keys of its own number alone. Undefined where it
  // sees all.
  at::Tensor documents_of(std::int64_t index, const at::Tensor& read) const {
    const std::int64_t chunk = config_.attention.chunk;
    if (chunk == 0 || !config_.is_local(index)) return options_.document_ids;
    const std::int64_t tokens = before_ + read.size(1);
    const at::Tensor runs = at::arange(tokens, read.options().dtype(at::kLong))
                                .floor_divide(chunk)
                                .unsqueeze(0)
                                .expand({read.size(0), -1});
    if (!options_.document_ids.defined()) return runs;
    return options_.document_ids * (tokens / chunk + 1) + runs;
  }

  // What the outputs (B, H, N, d_v) of a layer's heads are multiplied by, (B, H, N, d_v or 1);
  // undefined for nothing.
  at::Tensor gates_of(const LayerWeights& w, const at::Tensor& read, std::int64_t value_dim) const {
    const AttentionConfig& a = config_.attention;
    if (a.gate == "none") return {};
    const at::Tensor rows =
        split_heads(project(read, w.output_gate, {}), a.gate_by_head ? 1 : value_dim);
    return a.gate == "sigmoid" ? at::sigmoid(rows) : at::softplus(rows);
  }

  // ln(i + 1) / ln(log_scale) of each token, (N, 1): 0 for the first one.
  at::Tensor log_factors(std::int64_t length) const {
    const at::Tensor counts = at::arange(before_ + 1, before_ + length + 1,
                                         at::TensorOptions(at::kDouble).device(device_));
    const at::Tensor factors = counts.log() / std::log(config_.attention.log_scale);
    return factors.to(table_dtype(dtype_)).unsqueeze(1);
  }

  // What an encoding makes of what a layer's projections read.
  void read_hidden(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
                   PositionState& state) const {
    const Encoding& encoding = encoding_of(index);
    if (!encoding.info().reads_hidden) return;
    const at::Tensor x = read.to(dtype_);
    if (options_.cache != nullptr) {
      options_.cache->read_hidden(index, encoding, w.encoding, x, state);
    } else {
      state.sums = at::Tensor();  // another layer's
      encoding.read_hidden(w.encoding, x, state);
    }
  }

  // What an encoding makes of q and k of this pass.
  AttentionProgram program_of(std::int64_t index, const LayerWeights& w, const at::Tensor& q,
                              const at::Tensor& k, const PositionState& state) const {
    const Encoding& encoding = encoding_of(index);
    if (options_.cache != nullptr && options_.cache->asks_whole_text(encoding)) {
      return options_.cache->whole_text_program(index, encoding, w.encoding, q, k, state);
    }
    return encoding.program(w.encoding, q, k, state);
  }

  at::Tensor attend(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
                    PositionState& state) const {
    const Encoding& encoding = encoding_of(index);
    const auto [q, k, own_v] = head_tensors(index, w, read);
    const bool grows = config_.attention.log_scale > 0;
    read_hidden(index, w, read, state);
    AttentionProgram program = program_of(
        index, w, grows ? (q * log_factors(read.size(1))).to(q.scalar_type()) : q, k, state);
    if (grows) program.q_plain = q, program.transformed = true;
    change_turned(index, w, state, program);
    if (config_.attention.scale_by_layer) program.scale /= static_cast<double>(index + 1);
    if (config_.attention.layer_gain) add_gain(program, std::max<std::int64_t>(1, index));
    program.soft_cap = config_.attention.soft_cap;
    program.causal = config_.attention.causal;
    program.window = config_.is_local(index) ? config_.attention.window : 0;
    program.key_mask = key_mask_;
    program.padding_added = config_.attention.padding == "added";
    program.loses_rows = loses_rows_;
    program.documents = documents_of(index, read);
    program.mask = options_.mask;
    change(index, state, program);
    at::Tensor v = encoding.values(own_v, state);
    if (options_.cache != nullptr) options_.cache->join(index, encoding, program, v);
    const at::Tensor gates = gates_of(w, read, v.size(-1));
    // What reads a head's output, or puts another one in its place, stands before the gate.
    const bool gates_apart = options_.hook != nullptr || !repairs_of(index).ablations.empty();
    if (!gates_apart) program.gate = gates;
    narrow_for_cuda(program, v);
    const bool observed = observer_ != nullptr && observer_->wants_attention(index);
    const bool read_by_hook = options_.hook != nullptr && options_.hook->wants_lse();
    const ProbeRequest* probes = observed ? observer_->wants_probes(index) : nullptr;
    AttentionResult result = attention(program, v,
                                       {.backend = options_.backend,
                                        .want_lse = observed || read_by_hook,
                                        .want_entropy = observed,
                                        .probes = probes,
                                        .kernels = options_.kernels});
    result.out = ablated(repairs_of(index), index, result.out);
    if (options_.hook != nullptr) options_.hook->after(index, program, v, result);
    const at::Tensor averaged =
        result.state.defined() ? result.state.to(state.z.scalar_type()) : result.state;
    encoding.after_attention(w.encoding, averaged, state);
    if (observed) {
      observer_->on_attention(std::make_shared<LayerAttention>(
          index, program, v, result.lse, result.entropy, options_.backend, result.ran,
          result.probes ? MeasuredProbes{*probes, result.probes} : MeasuredProbes{}));
    }
    at::Tensor out = result.out.to(dtype_);
    if (gates_apart && gates.defined()) out = out * gates;
    return project(out.transpose(1, 2).flatten(2), w.wo, w.bo);
  }

  // The model's own, also in local layers, whose encoding may have some too.
  const Repairs& repairs_of(std::int64_t index) const {
    const Repairs& own = encoding_of(index).repairs();
    const bool none = !own.changes_scores() && own.ablations.empty();
    return none ? stack_.encoding.repairs() : own;
  }

  // What the encoding's options and the caller do to a layer's scores.
  void change(std::int64_t index, const PositionState& state, AttentionProgram& program) const {
    const Encoding& encoding = encoding_of(index);
    const Repairs& repairs = repairs_of(index);
    if (options_.hook == nullptr && !repairs.changes_scores()) return;
    const Parameters& shared = config_.encoding_group_of(index) >= 0 ? no_parameters()
                               : reads_local(index)                  ? stack_.weights.local_encoding
                                                                     : stack_.weights.encoding;
    // A converted layer's own weights are gone when it has run.
    const Parameters& own = stack_.weights.layers[static_cast<std::size_t>(index)].encoding;
    const LayerInput input{index, &encoding,
                           &own,  start_context(program.q.size(2), shared, index),
                           state, config_.attention.log_scale};
    repair(repairs, input, options_.backend, program);
    if (options_.hook != nullptr) options_.hook->before(input, program);
  }

  // With 16-bit products the CUDA kernels get 16-bit tensors, as autocast has it.
  void narrow_for_cuda(AttentionProgram& program, at::Tensor& v) const {
    if (options_.backend != Backend::cuda_unverified || !options_.product_dtype) return;
    const at::ScalarType narrow = *options_.product_dtype;
    AttentionProgram given = program;
    for_each_tensor(given, [narrow](const TensorInfo& info, at::Tensor& tensor) {
      if (info.numbers == Numbers::tokens && tensor.defined()) tensor = tensor.to(narrow);
    });
    if (!program.transformed) given.q_plain = given.q, given.k_plain = given.k;
    const at::Tensor values = v.to(narrow);
    if (!cuda_obstacle(given, values, wants_gradients(given, values)).empty()) return;
    program = std::move(given);
    v = values;
  }

  // Queries at the decoder's places, keys at those of the encoder's text, by the decoder's
  // encoding.
  void place_across(std::int64_t index, const LayerWeights& w, const PositionState& state,
                    AttentionProgram& program) const {
    const Encoding& encoding = encoding_of(index);
    StartContext context = start_context(program.k.size(2), stack_.weights.encoding, index);
    context.positions = {program.k.size(2), 0, memory_.position_ids, {}, device_, memory_.extent};
    const PositionState of_keys = encoding.start(context);
    const AttentionProgram queries = encoding.program(w.encoding, program.q, program.q, state);
    const AttentionProgram keys = encoding.program(w.encoding, program.k, program.k, of_keys);
    const TermProgram* term = queries.term();
    const bool of_places = term != nullptr && !term->reads_rows;
    if (!queries.transformed || !(queries.is<PlainProgram>() || of_places)) {
      throw formats::bad_input(encoding.info().key + " has no scores between places of two texts",
                               "attention.cross_positions", "leave it out");
    }
    program.transform(queries.q, keys.k);
    if (of_places) {
      program.edit = across(*term, rows_of_ids(state.positions), rows_of_ids(of_keys.positions));
    }
  }

  // A layer's keys and values of the encoder's output, which a cache keeps.
  KeyValueCache::Across across_of(std::int64_t index, const LayerWeights& w) const {
    KeyValueCache::Across made;
    KeyValueCache::Across& across =
        options_.cache != nullptr ? options_.cache->across(index) : made;
    if (!across.k.defined()) {
      const std::int64_t head_dim = config_.head_dim;
      across = {split_heads(project(memory_.hidden, w.cross_wk, w.cross_bk), head_dim),
                split_heads(project(memory_.hidden, w.cross_wv, w.cross_bv), head_dim)};
    }
    return across;
  }

  // Without cross_positions no positions enter: the decoder's and the encoder's have nothing to do
  // with each other.
  at::Tensor cross_attend(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
                          const PositionState& state) const {
    AttentionProgram program;
    const std::int64_t head_dim = config_.head_dim;
    const KeyValueCache::Across given = across_of(index, w);
    program.q = program.q_plain = split_heads(project(read, w.cross_wq, w.cross_bq), head_dim);
    program.k = program.k_plain = given.k;
    program.scale = config_.score_scale();
    program.positions.length = read.size(1), program.positions.device = device_;
    program.causal = false;
    program.key_mask = memory_.key_mask;
    if (config_.attention.cross_positions) place_across(index, w, state, program);
    const bool observed = observer_ != nullptr && observer_->wants_cross_attention(index);
    const AttentionResult result = attention(program, given.v,
                                             {.backend = options_.backend,
                                              .want_lse = observed,
                                              .want_entropy = observed,
                                              .kernels = options_.kernels});
    if (observed) {
      observer_->on_cross_attention(std::make_shared<LayerAttention>(
          index, program, given.v, result.lse, result.entropy, options_.backend, result.ran));
    }
    return project(result.out.transpose(1, 2).flatten(2), w.cross_wo, w.cross_bo);
  }

  at::ScalarType product_dtype() const { return options_.product_dtype.value_or(dtype_); }

  const ModelConfig& config_;
  const Stack stack_;
  const Weights& model_;
  at::ScalarType dtype_;
  at::Device device_;
  const ForwardOptions options_;
  Memory memory_;
  Observer* observer_;
  std::int64_t before_;                   // tokens that a cache holds
  std::optional<PositionExtent> extent_;  // of options_.position_ids
  at::Tensor given_mask_, key_mask_;      // (B, N) bool, as it was given and where the model is
  std::optional<bool> loses_rows_;        // AttentionProgram::loses_rows
  // Keys and values of the last layer with its own: of layers that are not local, and that are.
  mutable std::array<HeadTensors, 2> last_own_;
  at::Tensor layer_inputs_;  // (B, N, layers, P); undefined where layers read none of their own
};

// The text itself, behind the token a decoder starts with.
at::Tensor shifted_right(const at::Tensor& ids, std::int64_t start) {
  return at::cat({at::full({ids.size(0), 1}, start, ids.options()), ids.slice(1, 0, -1)}, 1);
}

}  // namespace

Observer* Observer::encoder() { return nullptr; }
bool Observer::wants_cross_attention(std::int64_t) { return false; }
void Observer::on_cross_attention(const std::shared_ptr<const LayerAttention>&) {}
void Observer::on_hidden(std::int64_t, const at::Tensor&) {}
void Observer::on_streams(std::int64_t, const at::Tensor&) {}
void Observer::on_final_norm(const at::Tensor&) {}
bool Observer::wants_attention(std::int64_t) { return false; }
const ProbeRequest* Observer::wants_probes(std::int64_t) { return nullptr; }
void Observer::on_attention(const std::shared_ptr<const LayerAttention>&) {}
void Observer::on_position(std::int64_t, const PositionState&) {}

void AttentionHook::before(const LayerInput&, AttentionProgram&) {}
void AttentionHook::after(std::int64_t, const AttentionProgram&, const at::Tensor&,
                          AttentionResult&) {}

Decoder::Decoder(ModelConfig config, std::shared_ptr<const Encoding> encoding, Weights weights)
    : config_(std::move(config)),
      encoding_(std::move(encoding)),
      local_encoding_(make_local_encoding(config_)),
      weights_(std::move(weights)) {
  for (auto& group : make_group_encodings(config_)) group_encodings_.emplace_back(std::move(group));
  if (config_.encoder_layers == 0) return;
  encoder_config_ = std::make_shared<const ModelConfig>(config_.encoder());
  encoder_encoding_ = make_encoding(*encoder_config_);
}

const Encoding& Decoder::encoding_of(std::int64_t layer) const {
  const std::int64_t group = config_.encoding_group_of(layer);
  if (group >= 0) return *group_encodings_[static_cast<std::size_t>(group)];
  return local_encoding_ && config_.is_local(layer) ? *local_encoding_ : *encoding_;
}

void Decoder::check_ids(const at::Tensor& ids) const {
  if (ids.dim() != 2 || ids.scalar_type() != at::kLong) {
    throw formats::bad_input("token ids must be rows of whole numbers", "ids");
  }
  if (ids.numel() == 0) {
    throw formats::bad_input("the text has no tokens; give at least one", "ids");
  }
  for (const at::Tensor& id : {ids.min(), ids.max()}) {  // read before ids go to a device
    const std::int64_t value = id.item<std::int64_t>();
    if (value >= 0 && value < config_.vocab_size) continue;
    throw formats::bad_input("token id " + std::to_string(value) +
                                 " is outside the model's vocabulary of " +
                                 std::to_string(config_.vocab_size),
                             "ids");
  }
}

at::Tensor Decoder::hidden(const at::Tensor& ids, const ForwardOptions& given,
                           Observer* observer) const {
  check_ids(ids);
  check_options(given, config_, ids);
  ForwardOptions options = given;
  place_cells(*encoding_, options);
  if (options.axis_positions.defined()) options.position_ids = options.axis_positions[0];
  if (options.cache != nullptr) check_cached_pass(options);
  const Stack decoder{config_, *encoding_, local_encoding_.get(), group_encodings_, weights_};
  const auto run = [&](const ForwardOptions& own, Memory memory, const at::Tensor& read) {
    if (own.cache != nullptr) own.cache->begin(read);
    const at::Tensor x =
        std::make_shared<Pass>(*this, decoder, own, std::move(memory), observer)->run(read);
    if (own.cache != nullptr) own.cache->advance(read.size(1));
    return x;
  };
  if (!encoder_encoding_) return run(options, Memory{}, ids);

  static const std::vector<std::shared_ptr<const Encoding>> no_groups;
  const Stack encoder{*encoder_config_, *encoder_encoding_, nullptr, no_groups, weights_.encoder};
  Observer* const of_encoder = observer != nullptr ? observer->encoder() : nullptr;
  const auto encoded = [&] {
    ForwardOptions own = options;
    own.cache = nullptr;
    return std::make_shared<Pass>(*this, encoder, own, Memory{}, of_encoder)->run(ids);
  };
  at::Tensor made;
  at::Tensor& hidden_of_encoder = options.cache != nullptr ? options.cache->encoded() : made;
  const bool read_before = options.cache != nullptr && options.cache->length() > 0;
  if (!read_before) hidden_of_encoder = encoded();
  Memory memory{hidden_of_encoder,
                options.key_mask.defined() ? options.key_mask.ne(0) : at::Tensor(),
                options.position_ids};
  ForwardOptions own = options;  // what was given speaks of the encoder's text
  own.position_ids = options.decoder_position_ids;
  own.axis_positions = own.layer_position_ids = own.key_mask = own.token_types = own.mask =
      own.initial_state = at::Tensor();
  const at::Tensor read = options.decoder_ids.defined() ? options.decoder_ids
                                                        : shifted_right(ids, config_.decoder_start);
  check_ids(read);
  if (read.size(0) != ids.size(0)) {
    throw formats::bad_input("there must be as many texts for the decoder as for the encoder",
                             "decoder_input_ids");
  }
  check_position_ids(own.position_ids, read, "decoder_position_ids");
  return run(own, std::move(memory), read);
}

at::Tensor Decoder::pooled(const at::Tensor& hidden, const at::Tensor& key_mask) const {
  if (config_.head.pool == "none") return hidden;
  at::Tensor scores = at::matmul(hidden, weights_.pool.transpose(0, 1));  // (B, N, 1)
  if (key_mask.defined()) {
    const at::Tensor padded = key_mask.eq(0).unsqueeze(-1).to(scores.device());
    scores = scores.masked_fill(padded, -std::numeric_limits<double>::infinity());
  }
  return (at::softmax(scores, 1) * hidden).sum(1, /*keepdim=*/true);
}

at::Tensor Decoder::logits(const at::Tensor& hidden, const ForwardOptions& options) const {
  if (!config_.head.present) {
    throw formats::bad_input("this model has no head, so it has no logits", "logits");
  }
  at::Tensor x = hidden;
  if (config_.head.transform) {
    x = activated(
        product(x, weights_.head_transform, weights_.head_transform_bias, options.product_dtype),
        config_.mlp.activation);
    x = normed(config_, x.to(dtype()), weights_.head_norm, weights_.head_norm_bias, dtype());
  }
  const at::Tensor& head = weights_.head.defined() ? weights_.head : weights_.embedding;
  at::Tensor logits = product(x, head, weights_.head_bias, options.product_dtype).to(dtype());
  if (config_.head.scale != 1) logits = logits * config_.head.scale;
  return soft_capped(logits, config_.head.soft_cap);
}

at::Tensor Decoder::forward(const at::Tensor& ids, const ForwardOptions& options,
                            Observer* observer) const {
  return logits(pooled(hidden(ids, options, observer), options.key_mask), options);
}

}  // namespace phasescope::model
