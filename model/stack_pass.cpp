#include "model/stack_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <utility>

#include "formats/error.h"
#include "model/feed_forward.h"
#include "model/host_memory.h"
#include "model/linear_attention.h"
#include "model/recompute.h"
#include "model/rms_norm.h"
#include "model/streams.h"

namespace phasescope::model {
namespace {

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

}  // namespace

at::Tensor normed(const ModelConfig& config, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias, at::ScalarType out) {
  const at::Tensor factor = config.norm.unit_offset ? weight + 1 : weight;
  if (config.norm.kind == "layer") {
    return at::layer_norm(x, {x.size(-1)}, factor, bias, config.norm_eps).to(out);
  }
  const at::Tensor y = rms_norm(x, factor, config.norm_eps, out);
  return bias.defined() ? y + bias : y;
}

const Parameters& no_parameters() {
  static const Parameters none;
  return none;
}

StackPass::StackPass(const Decoder& decoder, const Stack& stack, const ForwardOptions& options,
                     Memory memory, Observer* observer)
    : config_(stack.config),
      stack_(stack),
      model_(decoder.weights()),
      dtype_(decoder.dtype()),
      device_(decoder.device()),
      options_(beside(device_, options)),
      memory_(std::move(memory)),
      observer_(observer),
      before_(options.cache != nullptr ? options.cache->length() : 0),
      given_ids_(on_host(options.position_ids)),
      extent_(extent_of_given(given_ids_)) {
  if (memory_.key_mask.defined()) memory_.key_mask = memory_.key_mask.to(device_);
  if (memory_.position_ids.defined()) {
    memory_.extent = extent_of(on_host(memory_.position_ids));
    memory_.position_ids = memory_.position_ids.to(device_);
  }
  if (!options.key_mask.defined()) return;
  given_mask_ = on_host(options.key_mask).ne(0);
  key_mask_ = device_.is_cpu() ? given_mask_ : options_.key_mask.ne(0);
  const AttentionConfig& a = config_.attention;
  if (a.padding == "added") loses_rows_ = leaves_rows_empty(given_mask_, a.causal);
}

at::Tensor StackPass::run(const at::Tensor& given) {
  const at::Tensor ids = given.to(device_);
  const StartContext context = context_of_tokens(ids.size(1), stack_.weights.encoding);
  at::Tensor x = without_numbers(options_.drops, drop_place(DropPlace::Part::embedding, 0),
                                 options_.drops.embedding, embed(ids, context));
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
  place_repairs(ids.size(1));
  report(0, x, states);
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    if (options_.cancelled && options_.cancelled()) throw formats::cancelled();
    x = runs_again() ? run_layer_again(layer, x, states) : run_layer(layer, x, states);
    const bool draws = layer + 1 < config_.layers && draws_by_layer(ids.size(1));
    if (draws) begin_again(layer + 1, ids.size(1), states);
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

bool StackPass::runs_again() const {
  const bool hook_repeats =
      options_.hook == nullptr || dynamic_cast<const RepeatableHook*>(options_.hook) != nullptr;
  return options_.recompute && at::GradMode::is_enabled() && observer_ == nullptr && hook_repeats &&
         config_.attention.shared_layers.empty() && !layer_inputs_.defined();
}

bool StackPass::runs_mlp_again() const {
  return options_.recompute && at::GradMode::is_enabled() && !runs_again();
}

at::Tensor StackPass::run_layer_again(std::int64_t layer, const at::Tensor& x, State& states) {
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

// ---- Positions ---------------------------------------------------------------------------------

bool StackPass::reads_local(std::int64_t layer) const {
  return stack_.local != nullptr && config_.is_local(layer);
}

const Encoding& StackPass::encoding_of(std::int64_t layer) const {
  const std::int64_t group = config_.encoding_group_of(layer);
  if (group >= 0) return *stack_.groups[static_cast<std::size_t>(group)];
  return reads_local(layer) ? *stack_.local : stack_.encoding;
}

PositionState& StackPass::state_of(std::int64_t layer, State& states) const {
  const std::int64_t group = config_.encoding_group_of(layer);
  if (group >= 0) return states.groups[static_cast<std::size_t>(group)];
  return reads_local(layer) ? states.local : states.global;
}

void StackPass::begin_again(std::int64_t layer, std::int64_t length, State& states) const {
  states.global = stack_.encoding.start(start_context(length, stack_.weights.encoding, layer));
  if (stack_.local != nullptr) {
    states.local = stack_.local->start(start_context(length, stack_.weights.local_encoding, layer));
  }
  for (std::size_t n = 0; n < stack_.groups.size(); ++n) {
    const auto& group = stack_.groups[n];
    if (group) states.groups[n] = group->start(start_context(length, no_parameters(), layer));
  }
}

StartContext StackPass::context_of_tokens(std::int64_t tokens, const Parameters& shared) const {
  StartContext context = start_context(tokens, shared);
  context.positions.shift += before_;
  return context;
}

PositionState StackPass::start_of(const Encoding& encoding, std::int64_t tokens,
                                  const Parameters& shared) const {
  const bool whole = options_.cache != nullptr && options_.cache->asks_whole_text(encoding);
  return encoding.start(whole ? start_context(before_ + tokens, shared)
                              : context_of_tokens(tokens, shared));
}

StartContext StackPass::start_context(std::int64_t length, const Parameters& shared,
                                      std::int64_t layer) const {
  StartContext context;
  context.positions = positions_of(length, layer);
  context.dtype = dtype_;
  context.angle_dtype = options_.angle_dtype.value_or(at::promote_types(dtype_, at::kFloat));
  context.shared = &shared;
  context.layer_ids = options_.layer_position_ids;
  context.draw = options_.draw;
  return context;
}

const Positions& StackPass::positions_of(std::int64_t length, std::int64_t layer) const {
  std::vector<Positions>& layers = positions_[length];
  if (layers.empty()) layers = placed_positions(length);
  return layers.size() > 1 ? layers[static_cast<std::size_t>(layer)] : layers[0];
}

std::vector<Positions> StackPass::placed_positions(std::int64_t length) const {
  if (options_.position_ids.defined()) {
    return {{length, options_.shift, options_.position_ids, options_.axis_positions, device_,
             extent_, given_ids_}};
  }
  std::vector<Positions> layers;
  std::vector<at::Tensor> ids;
  const std::int64_t count = draws_by_layer(length) ? config_.layers : 1;
  for (std::int64_t layer = 0; layer < count; ++layer) {
    layers.push_back(host_positions(length, layer));
    if (!layers.back().consecutive()) ids.push_back(layers.back().kept);
  }
  if (device_.is_cpu() || ids.empty()) return layers;
  const std::vector<at::Tensor> there = at::stack(ids).to(device_).unbind(0);
  TORCH_INTERNAL_ASSERT(there.size() == layers.size());  // all are drawn, or none
  for (std::size_t n = 0; n < there.size(); ++n) layers[n].ids = there[n];
  return layers;
}

Positions StackPass::host_positions(std::int64_t length, std::int64_t layer) const {
  Positions positions = {length, options_.shift, {}, options_.axis_positions, device_};
  map_positions(positions, layer);
  if (config_.positions_skip_padding && given_mask_.defined()) {
    const at::Tensor text = given_mask_.to(at::kLong);
    const at::Tensor places = text.cumsum(1) * text - 1;
    const at::Tensor& drawn = positions.ids;  // (N), where the map draws
    positions.ids = drawn.defined() ? drawn.index({places.clamp_min(0)}) : places + positions.shift;
  }
  if (positions.consecutive()) return positions;
  positions.extent = extent_of(positions.ids);
  positions.kept = positions.ids;
  return positions;
}

std::int64_t StackPass::range_of_draws() const {
  return config_.positions.range > 0 ? config_.positions.range : 2 * config_.context;
}

bool StackPass::draws_positions(std::int64_t length) const {
  const PositionsConfig& how = config_.positions;
  return how.map.starts_with("random") && (options_.draw.has_value() || how.draw == "always") &&
         !options_.position_ids.defined() && length <= range_of_draws();
}

bool StackPass::draws_by_layer(std::int64_t length) const {
  return config_.positions.map == "random_by_layer" && draws_positions(length);
}

void StackPass::map_positions(Positions& positions, std::int64_t layer) const {
  const PositionsConfig& how = config_.positions;
  if (how.map == "shift") positions.shift += how.shift;
  if (!draws_positions(positions.length)) return;
  const std::uint64_t seed = options_.draw.value_or(static_cast<std::uint64_t>(how.seed)) +
                             static_cast<std::uint64_t>(layer);
  positions.ids = drawn_positions(positions.length, range_of_draws(), seed) + positions.shift;
}

// ---- Layers ------------------------------------------------------------------------------------

at::Tensor StackPass::embed(const at::Tensor& ids, const StartContext& context) const {
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

at::Tensor StackPass::with_patches(const at::Tensor& x) const {
  const PatchesConfig& p = config_.patches;
  const at::Tensor pieces = options_.patches.to(dtype_).unflatten(-1, {p.side, p.side, p.channels});
  // (B, N, windows, channels * kernel * kernel)
  const at::Tensor windows =
      pieces.unfold(2, p.kernel, 1).unfold(3, p.kernel, 1).flatten(2, 3).flatten(3);
  const at::Tensor given = x.unsqueeze(2) + project(windows, model_.patches, {});
  return windows.size(2) == 1 ? given.squeeze(2) : at::relu(given).amax(2);
}

void StackPass::report(std::int64_t index, const at::Tensor& x, State& states) const {
  if (observer_ == nullptr) return;
  observer_->on_hidden(index, has_streams() ? x[config_.streams.active] : x);
  if (has_streams()) observer_->on_streams(index, x);
  PositionState state = index < config_.layers ? state_of(index, states) : states.global;
  if (index < config_.layers) encoding_of(index).before_layer(index, state);  // as it will read it
  if (state.z.defined()) observer_->on_position(index, state);
}

at::Tensor StackPass::norm(const at::Tensor& x, const Norm& n, at::ScalarType out) const {
  return normed(config_, x, n.weight, n.bias, out);
}

at::Tensor StackPass::project(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) const {
  return product(x, weight, bias, options_.product_dtype).to(dtype_);
}

DropPlace StackPass::drop_place(DropPlace::Part part, std::int64_t layer) const {
  const StackWeights& of_encoder = model_.encoder;
  return {.part = part, .layer = layer, .encoder = &stack_.weights == &of_encoder};
}

at::Tensor StackPass::left_of(const DropPlace& place, const at::Tensor& given) const {
  const Drops& drops = options_.drops;
  return without_samples(drops, place, without_numbers(drops, place, drops.branch, given));
}

template <typename Branch>
at::Tensor StackPass::with_branch(const DropPlace& place, const at::Tensor& x, const Norm& n,
                                  const Norm& of_output, at::Tensor& given, Branch branch) const {
  const std::string& placement = config_.norm.placement;
  const bool reads_all = placement == "post" || placement == "output";
  given = branch(reads_all ? x : norm(x, n, product_dtype()));
  if (placement == "sandwich" || placement == "output") given = norm(given, of_output, dtype_);
  if (config_.residual_scale != 1) given = given * config_.residual_scale;
  given = left_of(place, given);
  const at::Tensor sum = x + given;
  return placement == "post" ? norm(sum, n, dtype_) : sum;
}

at::Tensor StackPass::run_layer(std::int64_t index, const at::Tensor& x, State& states) const {
  const LayerWeights& w = stack_.weights.layers[static_cast<std::size_t>(index)];
  if (w.as_stored) return run_with(index, converted(w, dtype_), x, states);
  return run_with(index, w, x, states);
}

at::Tensor StackPass::run_with(std::int64_t index, const LayerWeights& w, const at::Tensor& x,
                               State& states) const {
  if (has_streams()) return run_streams(index, w, x, states);
  at::Tensor result = run_branches(index, w, x, states);
  if (layer_inputs_.defined()) result = result + layer_input(index, w, result);
  return w.layer_scale.defined() ? result * w.layer_scale : result;
}

at::Tensor StackPass::run_streams(std::int64_t index, const LayerWeights& w,
                                  const at::Tensor& streams, State& states) const {
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

at::Tensor StackPass::low_rank(const LayerWeights& w, const at::Tensor& read) const {
  const at::Tensor made = project(project(read, w.low_rank_in, {}), w.low_rank_out, {});
  return read.to(dtype_) + norm(made, {w.low_rank_norm, {}}, dtype_);
}

at::Tensor StackPass::run_mlp(std::int64_t index, const LayerWeights& w,
                              const at::Tensor& read) const {
  return feed_forward(config_, w, read, options_.product_dtype, dtype_,
                      config_.shape_of(index).sparsity);
}

at::Tensor StackPass::run_mlp_again(std::int64_t index, const LayerWeights& w,
                                    const at::Tensor& read) const {
  const auto compute = [self = shared_from_this(), index,
                        w](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{self->run_mlp(index, w, inputs[0])};
  };
  return recomputed(compute, {read})[0];
}

at::Tensor StackPass::run_branches(std::int64_t index, const LayerWeights& w, const at::Tensor& x,
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
    return linear
               ? linear_attention(config_, w, read, key_mask_, options_.product_dtype, dtype_, kept)
               : convolved(index, Convolution::attention, attend(index, w, read, state),
                           w.attention_conv);
  };
  const auto mlp = [&](const at::Tensor& read) {
    return convolved(index, Convolution::mlp,
                     runs_mlp_again() ? run_mlp_again(index, w, read) : run_mlp(index, w, read),
                     w.mlp_conv);
  };
  const auto mlp_and_experts = [&](const at::Tensor& read) {
    const bool both = config_.experts.beside && w.router.defined();
    return both ? experts_beside(config_, w, result, mlp(read), options_.product_dtype) : mlp(read);
  };
  if (config_.residual == "sequential") {
    result = with_branch(drop_place(DropPlace::Part::attention, index), x,
                         {w.attention_norm, w.attention_norm_bias},
                         {w.attention_output_norm, w.attention_output_norm_bias},
                         context.attention_output, attend_to);
    if (w.low_rank_in.defined()) {
      result = (result + low_rank(w, read_by_attention)) / std::sqrt(2.0);
    }
    if (memory_.hidden.defined()) {
      at::Tensor unused;
      result = with_branch(
          drop_place(DropPlace::Part::cross, index), result, {w.cross_norm, w.cross_norm_bias},
          {w.cross_output_norm, w.cross_output_norm_bias}, unused,
          [&](const at::Tensor& read) { return cross_attend(index, w, read, state); });
    }
    result = with_branch(drop_place(DropPlace::Part::mlp, index), result,
                         {w.mlp_norm, w.mlp_norm_bias}, {w.mlp_output_norm, w.mlp_output_norm_bias},
                         context.mlp_output, mlp_and_experts);
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
    context.attention_output =
        left_of(drop_place(DropPlace::Part::attention, index), context.attention_output);
    context.mlp_output = left_of(drop_place(DropPlace::Part::mlp, index), context.mlp_output);
    result = x + context.attention_output + context.mlp_output;
  }
  encoding_of(index).after_mlp(w.encoding, context, state);
  return result;
}

at::Tensor StackPass::layer_inputs(const at::Tensor& ids, const at::Tensor& x) const {
  const EmbeddingConfig& e = config_.embedding;
  const auto split = [&](const at::Tensor& t) { return t.unflatten(-1, {config_.layers, -1}); };
  const at::Tensor known = at::where(ids < e.layer_rows, ids, at::zeros_like(ids));
  const at::Tensor stored = split(at::embedding(model_.layer_embedding, known)) *
                            std::sqrt(static_cast<double>(e.layer_width));
  const at::Tensor made = split(project(x, model_.layer_projection, {}) /
                                std::sqrt(static_cast<double>(config_.width)));
  return (norm(made, {model_.layer_projection_norm, {}}, dtype_) + stored) / std::sqrt(2.0);
}

at::Tensor StackPass::layer_input(std::int64_t index, const LayerWeights& w,
                                  const at::Tensor& x) const {
  const at::Tensor gate = activated(project(x, w.layer_input_gate, {}), config_.mlp.activation);
  const at::Tensor own = project(gate * layer_inputs_.select(2, index), w.layer_input, {});
  return norm(own, {w.layer_input_norm, {}}, dtype_);
}

}  // namespace phasescope::model
