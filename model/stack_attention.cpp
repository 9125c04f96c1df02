// What a layer's attention does in a forward pass: q, k and v, the encoding's program and all that
// is done to it, the encoder's output.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "formats/error.h"
#include "model/attention/cuda_attention.h"
#include "model/attention/repairs.h"
#include "model/attention/turned.h"
#include "model/encodings/rotation.h"
#include "model/feed_forward.h"
#include "model/host_memory.h"
#include "model/linear_attention.h"
#include "model/rms_norm.h"
#include "model/stack_pass.h"

namespace phasescope::model {
namespace {

// Divides q.k by `gain` and multiplies the score by it. What is only added to q.k comes out
// multiplied; only what the score is read by tells the difference otherwise.
void add_gain(AttentionProgram& program, std::int64_t layer) {
  const auto gain = static_cast<double>(layer);
  if (program.is<CapeProgram>() || program.term() != nullptr) {
    program.scale /= gain;
    program.gain = gain;
  } else {
    for_each_added(program, [gain](const TensorInfo&, at::Tensor& x) { x = x * gain; });
  }
  for_each_added_of_tokens(program, [gain](const TensorInfo&, at::Tensor& x) { x = x * gain; });
}

constexpr double kLatentEps = 1e-6;  // of latent attention's norms, whatever the model's eps is

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

}  // namespace

at::Tensor StackPass::clipped(const at::Tensor& x) const {
  const double clip = config_.attention.clip;
  return clip > 0 ? x.clamp(-clip, clip) : x;
}

at::Tensor StackPass::query_or_key(const at::Tensor& projected, const Norm& n,
                                   const std::vector<at::Tensor>& of_heads,
                                   std::int64_t head_dim) const {
  const at::Tensor x = clipped(projected);
  const std::string& kind = config_.attention.qk_norm;
  if (kind == "full") return split_heads(norm(x, n, dtype_), head_dim);
  if (kind == "head") return norm(split_heads(x, head_dim), n, dtype_);
  if (kind == "each") return norm_of_each(split_heads(x, head_dim), at::stack(of_heads));
  return split_heads(x, head_dim);
}

at::Tensor StackPass::norm_of_each(const at::Tensor& x, const at::Tensor& weight) const {
  const at::Tensor factor = (config_.norm.unit_offset ? weight + 1 : weight).unsqueeze(1);
  return config_.norm.kind == "layer"
             ? at::layer_norm(x, {x.size(-1)}, {}, {}, config_.norm_eps) * factor
             : of_unit_square(x, config_.norm_eps) * factor;
}

at::Tensor StackPass::convolved(std::int64_t index, Convolution which, const at::Tensor& x,
                                const at::Tensor& weight) const {
  if (!weight.defined()) return x;
  at::Tensor none;
  at::Tensor& last = options_.cache != nullptr ? options_.cache->convolved(index, which) : none;
  const at::Tensor text =
      key_mask_.defined() ? x.masked_fill(key_mask_.logical_not().unsqueeze(-1), 0.0) : x;
  return x + causal_convolution(text, weight, last);
}

StackPass::HeadTensors StackPass::head_tensors(std::int64_t index, const LayerWeights& w,
                                               const at::Tensor& read) const {
  const AttentionConfig& a = config_.attention;
  const LayerShape shape = config_.shape_of(index);
  if (a.kv_rank > 0) return latent_tensors(w, read, shape);
  HeadTensors given;
  given.q =
      query_or_key(project(read, w.wq, w.bq), {w.q_norm, w.q_norm_bias}, w.q_norms, shape.head_dim);
  if (names_layer(a.shared_layers, index)) {
    const HeadTensors& own = last_own_[config_.is_local(index) ? 1 : 0];
    given.k = own.k, given.v = own.v;
    return given;
  }
  const at::Tensor key = convolved(index, Convolution::key, project(read, w.wk, w.bk), w.key_conv);
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

StackPass::HeadTensors StackPass::latent_tensors(const LayerWeights& w, const at::Tensor& read,
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

void StackPass::change_turned(std::int64_t index, const LayerWeights& w, const PositionState& state,
                              AttentionProgram& program) const {
  const AttentionConfig& a = config_.attention;
  const at::Tensor ids = has_temperature(a, index) ? position_ids(state.positions) : at::Tensor();
  model::change_turned(config_, index, ids, dtype_, program);
  if (names_layer(a.sink_layers, index)) program.sinks = w.sinks;
  program.content_from = a.kv_rank > 0 ? a.position_dim : 0;
}

at::Tensor StackPass::documents_of(std::int64_t index, const at::Tensor& read) const {
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

at::Tensor StackPass::gates_of(const LayerWeights& w, const at::Tensor& read,
                               std::int64_t value_dim) const {
  const AttentionConfig& a = config_.attention;
  if (a.gate == "none") return {};
  const at::Tensor rows =
      split_heads(project(read, w.output_gate, {}), a.gate_by_head ? 1 : value_dim);
  return a.gate == "sigmoid" ? at::sigmoid(rows) : at::softplus(rows);
}

at::Tensor StackPass::log_factors(std::int64_t length) const {
  const at::Tensor counts =
      at::arange(before_ + 1, before_ + length + 1, at::TensorOptions(at::kDouble).device(device_));
  const at::Tensor factors = counts.log() / std::log(config_.attention.log_scale);
  return factors.to(table_dtype(dtype_)).unsqueeze(1);
}

void StackPass::read_hidden(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
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

AttentionProgram StackPass::program_of(std::int64_t index, const LayerWeights& w,
                                       const at::Tensor& q, const at::Tensor& k,
                                       const PositionState& state) const {
  const Encoding& encoding = encoding_of(index);
  if (options_.cache != nullptr && options_.cache->asks_whole_text(encoding)) {
    return options_.cache->whole_text_program(index, encoding, w.encoding, q, k, state);
  }
  return encoding.program(w.encoding, q, k, state);
}

at::Tensor StackPass::attend(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
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
  leave_scores_out(options_.drops, drop_place(DropPlace::Part::attention, index), program);
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
                                      .atomic_dq = options_.atomic_dq,
                                      .want_lse = observed || read_by_hook,
                                      .want_entropy = observed,
                                      .probes = probes,
                                      .kernels = options_.kernels});
  result.out =
      ablated(repairs_of(index), index, result.out,
              resampled_.empty() ? at::Tensor() : resampled_[static_cast<std::size_t>(index)]);
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

const Repairs& StackPass::repairs_of(std::int64_t index) const {
  return model::repairs_of(encoding_of(index), stack_.encoding);
}

void StackPass::place_repairs(std::int64_t tokens) {
  if (device_.is_cpu()) return;
  std::vector<at::Tensor> rows;
  std::vector<std::int64_t> heads;
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const Repairs& repairs = repairs_of(layer);
    for (const at::Tensor& numbers : {repairs.table, repairs.means}) kept_on(numbers, device_);
    rows.push_back(resampled_rows(repairs, layer, tokens));
    heads.push_back(rows.back().size(0));
  }
  const at::Tensor all = at::cat(rows);
  if (all.size(0) > 0) resampled_ = all.to(device_).split_with_sizes(heads);
}

void StackPass::change(std::int64_t index, const PositionState& state,
                       AttentionProgram& program) const {
  const Encoding& encoding = encoding_of(index);
  const Repairs& repairs = repairs_of(index);
  if (options_.hook == nullptr && !repairs.changes_scores()) return;
  const Parameters& shared = config_.encoding_group_of(index) >= 0 ? no_parameters()
                             : reads_local(index)                  ? stack_.weights.local_encoding
                                                                   : stack_.weights.encoding;
  // A converted layer's own weights are gone when it has run.
  const Parameters& own = stack_.weights.layers[static_cast<std::size_t>(index)].encoding;
  const LayerInput input{index,    &encoding,
                         &own,     start_context(program.q.size(2), shared, index),
                         state,    config_.attention.log_scale,
                         &repairs, &config_};
  repair(input, program);
  if (options_.hook != nullptr) options_.hook->before(input, program);
  cap_sinks(input, options_.backend, program);
}

void StackPass::narrow_for_cuda(AttentionProgram& program, at::Tensor& v) const {
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

void StackPass::place_across(std::int64_t index, const LayerWeights& w, const PositionState& state,
                             AttentionProgram& program) const {
  const Encoding& encoding = encoding_of(index);
  StartContext context = start_context(state.positions.length, stack_.weights.encoding, index);
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

KeyValueCache::Across StackPass::across_of(std::int64_t index, const LayerWeights& w) const {
  KeyValueCache::Across made;
  KeyValueCache::Across& across = options_.cache != nullptr ? options_.cache->across(index) : made;
  if (!across.k.defined()) {
    const std::int64_t head_dim = config_.head_dim;
    across = {split_heads(project(memory_.hidden, w.cross_wk, w.cross_bk), head_dim),
              split_heads(project(memory_.hidden, w.cross_wv, w.cross_bv), head_dim)};
  }
  return across;
}

at::Tensor StackPass::cross_attend(std::int64_t index, const LayerWeights& w,
                                   const at::Tensor& read, const PositionState& state) const {
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
  leave_scores_out(options_.drops, drop_place(DropPlace::Part::cross, index), program);
  const bool observed = observer_ != nullptr && observer_->wants_cross_attention(index);
  const AttentionResult result = attention(program, given.v,
                                           {.backend = options_.backend,
                                            .atomic_dq = options_.atomic_dq,
                                            .want_lse = observed,
                                            .want_entropy = observed,
                                            .kernels = options_.kernels});
  if (observed) {
    observer_->on_cross_attention(std::make_shared<LayerAttention>(
        index, program, given.v, result.lse, result.entropy, options_.backend, result.ran));
  }
  return project(result.out.transpose(1, 2).flatten(2), w.cross_wo, w.cross_bo);
}

}  // namespace phasescope::model
