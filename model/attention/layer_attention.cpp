#include "model/attention/layer_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "formats/error.h"
#include "kernels/cuda/attention_cuda.h"
#include "model/attention/cuda_attention.h"
#include "model/attention/fused_attention.h"
#include "model/attention/plain_attention.h"
#include "model/attention/probe_buffers.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

void check_range(const char* what, Range range, std::int64_t size) {
  if (range.begin >= 0 && range.begin < range.end && range.end <= size) return;
  throw formats::bad_usage(std::string(what) + " " + std::to_string(range.begin) + ":" +
                               std::to_string(range.end) +
                               " is empty or outside 0:" + std::to_string(size),
                           what);
}

ProbeResult fused_probe(const LayerAttention& attention, const ProbeRequest& request) {
  const KernelInputs kernel(attention.program(), attention.v());
  const kernels::AttentionShape& shape = kernel.inputs().shape;
  const ProbeRequest wanted = in_one_pass(attention.program(), request);
  ProbeBuffers buffers(wanted, shape, attention.v().device());
  const at::TensorOptions options = attention.v().options();
  const at::Tensor out =
      empty_by_token(shape.batch, shape.heads, shape.queries, shape.value_dim, options);
  buffers.outputs().out = output_tensor(out);
  at::Tensor state;
  if (const auto* tape = attention.program().as<TapeProgram>()) {
    state = empty_by_token(shape.batch, shape.heads, shape.queries, tape->state.size(-1), options);
    buffers.outputs().out_state = output_tensor(state);
  }
  const at::Tensor known = attention.lse().defined() ? attention.lse().contiguous() : at::Tensor();
  if (known.defined()) {
    buffers.outputs().known_lse = static_cast<const float*>(known.const_data_ptr());
  }
  kernel.forward(buffers.outputs());
  return buffers.take(ran_fused(attention.v()));
}

// As what the CUDA kernels run a layer that they have run before.
Backend device_backend(const LayerAttention& attention) {
  return is_verified_on_cuda(attention.program(), attention.v()) ? Backend::fused
                                                                 : Backend::cuda_unverified;
}

// Another pass of the device's kernels, of which nothing is read but what it measures.
ProbeResult cuda_probe(const LayerAttention& attention, const ProbeRequest& request) {
  const AttentionProgram& program = attention.program();
  const Backend backend = device_backend(attention);
  const AttentionResult result =
      cuda_attention(program, attention.v(), {.backend = backend, .probes = &request});
  ProbeResult probes = *result.probes;
  probes.ran = ran_on_cuda(program, attention.v(), backend);
  return probes;
}

// The content scores as a program of their own, under the same mask.
AttentionProgram content_of(const AttentionProgram& program) {
  AttentionProgram content = program;
  content.q = program.content_q(), content.k = program.content_k(), content.transformed = false;
  const auto* tapa = program.as<TapaProgram>();
  content.scale = tapa != nullptr ? tapa->scale_content : program.scale * program.gain;
  const std::int64_t from = program.content_from;
  // Not those of q: an encoding may turn as many channels into more.
  const std::int64_t channels = tapa != nullptr ? tapa->content_dim : content.q.size(3) - from;
  for (at::Tensor* x : {&content.q, &content.k}) *x = x->narrow(-1, from, channels);
  content.q_plain = content.q, content.k_plain = content.k;
  content.q_normed = content.k_normed = at::Tensor();
  content.variant = PlainProgram{};
  content.tokens = TokenTerms();
  content.sinks = content.gate = content.distance_bias = at::Tensor();
  content.gain = 1, content.soft_cap = 0, content.content_from = 0, content.edit = {};
  return content;
}

// The same with every pair seen.
AttentionProgram with_every_pair(AttentionProgram program) {
  program.causal = false, program.window = 0;
  program.key_mask = program.documents = program.mask = at::Tensor();
  return program;
}

kernels::Region kernel_region(const Region& region, std::int64_t batch) {
  return {.batch = batch,
          .head_begin = region.heads.begin,
          .head_count = region.heads.size(),
          .row_begin = region.rows.begin,
          .row_end = region.rows.end,
          .col_begin = region.columns.begin,
          .col_end = region.columns.end};
}

// (B, heads, rows, columns), the scores, or the weights where there is an lse.
at::Tensor fused_region(const AttentionProgram& program, const at::Tensor& v, const Region& region,
                        const at::Tensor& lse = {}) {
  const KernelInputs kernel(program, v);
  const at::Tensor result =
      at::empty({program.q.size(0), region.heads.size(), region.rows.size(), region.columns.size()},
                v.options().dtype(at::kFloat));
  const at::Tensor known = lse.defined() ? lse.contiguous() : at::Tensor();
  for (std::int64_t batch = 0; batch < result.size(0); ++batch) {
    auto* to = static_cast<float*>(result[batch].mutable_data_ptr());
    const auto* from =
        known.defined() ? static_cast<const float*>(known.const_data_ptr()) : nullptr;
    kernel.region(from, kernel_region(region, batch), from == nullptr ? to : nullptr,
                  from == nullptr ? nullptr : to);
  }
  return result;
}

// Sums of the rows' means, then of what is left of the scores: where a row's scores have much in
// common, what differs keeps its digits. sum(kernels::ScoreSums) makes sums.
template <class Sum>
CentredSums centred_sums_by(const AttentionProgram& program, const at::Tensor& v, const Sum& sum) {
  const kernels::AttentionShape shape = shape_of(program, v);
  const at::TensorOptions sums = v.options().dtype(at::kDouble);
  const auto data = [](const at::Tensor& x) { return static_cast<double*>(x.mutable_data_ptr()); };
  CentredSums result;
  result.mean = at::empty({shape.batch, shape.heads, shape.queries}, sums);
  result.pairs = at::empty_like(result.mean, result.mean.options().dtype(at::kLong));
  result.by_distance = at::empty_like(result.mean);
  result.by_key = at::empty({shape.batch, shape.heads, shape.keys}, sums);
  result.square = at::empty({shape.batch, shape.heads}, sums);
  kernels::ScoreSums rows;
  rows.row = data(result.mean);
  rows.pairs = static_cast<std::int64_t*>(result.pairs.mutable_data_ptr());
  sum(rows);
  result.mean.div_(result.pairs.clamp_min(1));
  kernels::ScoreSums rest;
  rest.shift = data(result.mean);
  rest.column = data(result.by_key);
  rest.distance = data(result.by_distance), rest.length = shape.queries;
  rest.square = data(result.square);
  sum(rest);
  return result;
}

CentredSums fused_sums(const AttentionProgram& program, const at::Tensor& v) {
  const KernelInputs kernel(program, v);
  return centred_sums_by(program, v,
                         [&](const kernels::ScoreSums& sums) { kernel.score_sums(sums); });
}
CentredSums cuda_sums(const AttentionProgram& program, const at::Tensor& v) {
  return centred_sums_by(
      program, v, [&](const kernels::ScoreSums& sums) { cuda_score_sums(program, v, sums); });
}

MapResult fused_map(const LayerAttention& attention, const MapRequest& request) {
  const bool of_content = request.quantity == MapQuantity::content;
  const AttentionProgram& program = attention.program();
  const KernelInputs kernel(of_content ? content_of(program) : program, attention.v());
  const Region& region = request.region;
  MapResult result;
  result.mean = at::empty({region.heads.size(), request.height, request.width},
                          attention.v().options().dtype(at::kFloat));
  kernels::MapOutputs outputs;
  outputs.height = request.height;
  outputs.width = request.width;
  outputs.quantity = request.quantity == MapQuantity::weight ? kernels::MapQuantity::weight
                                                             : kernels::MapQuantity::score;
  outputs.mean = static_cast<float*>(result.mean.mutable_data_ptr());
  if (request.maximum) {
    result.maximum = at::empty_like(result.mean);
    outputs.maximum = static_cast<float*>(result.maximum.mutable_data_ptr());
  }
  if (request.share) {
    result.share = at::empty_like(result.mean);
    outputs.share = static_cast<float*>(result.share.mutable_data_ptr());
  }
  const at::Tensor lse = attention.lse().contiguous();
  kernel.map(static_cast<const float*>(lse.const_data_ptr()), kernel_region(region, request.batch),
             outputs);
  result.ran = ran_fused(attention.v());
  return result;
}

// A mean of differences is one of two maps, a maximum is not: scores and content scores come from
// the kernel region by region.
MapResult fused_positional_map(const LayerAttention& attention, const MapRequest& request) {
  MapResult result = pooled_map(attention, request, [&](const Region& region) {
    return attention.score(region)[request.batch] - attention.content(region)[request.batch];
  });
  result.ran = ran_fused(attention.v());
  return result;
}

// What a pass measured, where analyses read it.
ProbeResult with_host_tensors(ProbeResult result) {
  HostCopies copies;
  copies.begin_all({&result.entropy, &result.max_score, &result.max_key, &result.top1_mass,
                    &result.first_key_weight, &result.mean_distance, &result.sink_weight,
                    &result.bucket_pairs, &result.bucket_weight, &result.bucket_score,
                    &result.bucket_score_square, &result.bucket_content,
                    &result.bucket_content_square, &result.bucket_term, &result.bucket_term_square,
                    &result.top_key, &result.top_weight});
  for (at::Tensor& mass : result.window_mass) mass = copies.begin(mass);
  copies.wait();
  return result;
}

CentredSums with_host_tensors(CentredSums sums) {
  HostCopies copies;
  copies.begin_all({&sums.mean, &sums.pairs, &sums.by_distance, &sums.by_key, &sums.square});
  copies.wait();
  return sums;
}

ScoreParts with_host_tensors(ScoreParts parts) {
  HostCopies copies;
  copies.begin_all({&parts.score, &parts.content, &parts.positional});
  copies.wait();
  return parts;
}

// What plain operations take 16-bit tokens as where passes run fused: the kernel computes in
// float32 whatever the tensors have, and leaves a log-sum-exp of that.
std::optional<at::ScalarType> widened(const LayerAttention& attention) {
  const bool narrow = at::elementSize(attention.program().q.scalar_type()) < 4;
  return narrow && attention.is_fused() ? std::optional(at::kFloat) : std::nullopt;
}

// What ran: the plain twins, with the reason that the pass gave where it was plain too.
Ran ran_by_twin(const LayerAttention& attention) {
  const Ran plain = ran_plain(attention.v());
  return attention.ran().implementation == plain.implementation ? attention.ran() : plain;
}

}  // namespace

LayerAttention::LayerAttention(std::int64_t layer, AttentionProgram program, at::Tensor v,
                               at::Tensor lse, at::Tensor entropy, Backend backend, Ran ran,
                               MeasuredProbes measured)
    : layer_(layer),
      program_(std::move(program)),
      v_(std::move(v)),
      lse_(std::move(lse)),
      entropy_(std::move(entropy)),
      backend_(backend),
      ran_(std::move(ran)),
      measured_(std::move(measured)) {}

std::int64_t LayerAttention::batch() const { return program_.q.size(0); }
std::int64_t LayerAttention::heads() const { return program_.q.size(1); }
std::int64_t LayerAttention::kv_heads() const { return program_.k.size(1); }
std::int64_t LayerAttention::length() const { return program_.q.size(2); }
std::int64_t LayerAttention::keys() const { return program_.k.size(2); }

Region LayerAttention::whole() const { return {{0, heads()}, {0, length()}, {0, keys()}}; }

void LayerAttention::check(const Region& region) const {
  check_range("heads", region.heads, heads());
  check_range("rows", region.rows, length());
  check_range("columns", region.columns, keys());
}

at::Tensor LayerAttention::score(const Region& region) const {
  const at::NoGradGuard no_grad;
  check(region);
  if (has_regions_on_device(program_)) {
    return on_host(cuda_region(program_, v_, kernel_region(region, 0)));
  }
  if (is_fused()) return on_host(fused_region(program_, v_, region));
  return on_host(plain_scores(program_, region.heads, region.rows, region.columns));
}

at::Tensor LayerAttention::content(const Region& region) const {
  const at::NoGradGuard no_grad;
  check(region);
  if (is_fused() || ran_on_device()) {
    const AttentionProgram content = with_every_pair(content_of(program_));
    if (has_regions_on_device(content)) {
      return on_host(cuda_region(content, v_, kernel_region(region, 0)));
    }
    if (is_fused()) return on_host(fused_region(content, v_, region));
  }
  return on_host(plain_content(program_, region.heads, region.rows, region.columns));
}

std::optional<CentredSums> LayerAttention::centred_sums(std::int64_t within,
                                                        bool of_content) const {
  const at::NoGradGuard no_grad;
  const bool cuda = ran_on_device();
  if (!is_fused() && !cuda) return {};
  AttentionProgram program = of_content ? content_of(program_) : program_;
  program.window = program.window > 0 ? std::min(program.window, within) : within;
  if (cuda && !cuda_obstacle(program, v_, false).empty()) return {};
  return with_host_tensors(cuda ? cuda_sums(program, v_) : fused_sums(program, v_));
}

ScoreParts LayerAttention::scores(const Region& region) const {
  const at::NoGradGuard no_grad;
  check(region);
  const auto dtype = widened(*this);
  return with_host_tensors(plain_score_parts(dtype ? with_float_tables(program_) : program_,
                                             region.heads, region.rows, region.columns, dtype));
}

at::Tensor LayerAttention::weights(const Region& region) const {
  const at::NoGradGuard no_grad;
  check(region);
  if (has_regions_on_device(program_)) {
    return on_host(cuda_region(program_, v_, kernel_region(region, 0), lse_));
  }
  if (is_fused()) return on_host(fused_region(program_, v_, region, lse_));
  const at::Tensor scores = plain_scores(program_, region.heads, region.rows, region.columns);
  const at::Tensor lse = with_sinks()
                             .slice(1, region.heads.begin, region.heads.end)
                             .slice(2, region.rows.begin, region.rows.end);
  // A row that sees no key has lse -inf, and exp(-inf + inf) is no number; a NaN score stays one.
  return on_host(at::exp(scores - lse.unsqueeze(-1)).masked_fill(scores.isneginf(), 0.0));
}

std::shared_ptr<const LayerAttention> LayerAttention::for_weights() const {
  if (is_fused()) return std::make_shared<LayerAttention>(*this);
  AttentionProgram program = program_;
  if (program.term() == nullptr) program.q_plain = program.k_plain = at::Tensor();
  program.q_normed = program.k_normed = at::Tensor();
  return std::make_shared<LayerAttention>(layer_, std::move(program), at::Tensor(), lse_,
                                          at::Tensor(), Backend::plain, ran_);
}

at::Tensor LayerAttention::normalisers() const { return on_host(with_sinks()); }

at::Tensor LayerAttention::with_sinks() const {
  if (!program_.sinks.defined() || !lse_.defined()) return lse_;
  return at::logaddexp(lse_, program_.sinks.to(lse_.scalar_type()).view({1, -1, 1}));
}

at::Tensor LayerAttention::sink_weights() const {
  if (!program_.sinks.defined() || !lse_.defined()) return {};
  const at::Tensor sinks = program_.sinks.to(lse_.scalar_type()).view({1, -1, 1});
  return on_host(at::exp(sinks - with_sinks()));
}

ScoreParts LayerAttention::pair_scores(const TokenPairs& pairs) const {
  const at::NoGradGuard no_grad;
  const auto dtype = widened(*this);
  return with_host_tensors(
      plain_pair_scores(dtype ? with_float_tables(program_) : program_, pairs, dtype));
}

bool LayerAttention::ran_on_device() const {
  static_assert(std::string_view(kernels::kCudaBackend).starts_with(kernels::kVerifiedCudaBackend));
  return v_.defined() && !v_.is_cpu() &&
         ran_.implementation.starts_with(kernels::kVerifiedCudaBackend);
}

// Kernels that are not verified run where the pass was by such a one, which somebody asked for.
bool LayerAttention::may_run_on_device(const AttentionProgram& program) const {
  return ran_on_device() && (ran_.implementation.starts_with(kernels::kCudaBackend) ||
                             is_verified_on_cuda(program, v_));
}

bool LayerAttention::measures_on_device(const ProbeRequest& request) const {
  return may_run_on_device(program_) && cuda_obstacle(program_, v_, false, &request).empty();
}

bool LayerAttention::has_regions_on_device(const AttentionProgram& program) const {
  return may_run_on_device(program) && cuda_obstacle(program, v_, false).empty();
}

bool LayerAttention::is_fused() const {
  return backend_ != Backend::plain && fused_obstacle(program_, v_).empty();
}

ProbeResult LayerAttention::probe(const ProbeRequest& request) const {
  const at::NoGradGuard no_grad;
  check_probes(request);
  if (measured_.result && measured_.request == request) return with_host_tensors(*measured_.result);
  if (measures_on_device(request)) return with_host_tensors(cuda_probe(*this, request));
  if (is_fused()) return with_host_tensors(fused_probe(*this, request));
  ProbeResult result = with_host_tensors(plain_probe(*this, request));
  result.ran = ran_by_twin(*this);
  return result;
}

MapResult LayerAttention::map(const MapRequest& request) const {
  const at::NoGradGuard no_grad;
  check(request.region);
  check_range("batch", {request.batch, request.batch + 1}, batch());
  if (request.height < 1 || request.width < 1) {
    throw formats::bad_usage("a map needs at least one cell", "size");
  }
  const bool positional = request.quantity == MapQuantity::positional;
  const bool of_content = request.quantity == MapQuantity::content;
  MapResult result;
  if (!positional && ran_on_device() &&
      has_regions_on_device(of_content ? with_every_pair(content_of(program_)) : program_)) {
    result = pooled_map(*this, request, [&](const Region& region) {
      const bool of_weights = request.quantity == MapQuantity::weight;
      return (of_content   ? content(region)
              : of_weights ? weights(region)
                           : score(region))[request.batch];
    });
    result.ran = ran_on_cuda(program_, v_, device_backend(*this));
  } else if (is_fused()) {
    result = positional ? fused_positional_map(*this, request) : fused_map(*this, request);
  } else {
    result = plain_map(*this, request);
    result.ran = ran_by_twin(*this);
  }
  HostCopies copies;
  copies.begin_all({&result.mean, &result.maximum, &result.share});
  copies.wait();
  return result;
}

}  // namespace phasescope::model
