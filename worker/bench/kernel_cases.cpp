#include "worker/bench/kernel_cases.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "analysis/heads.h"
#include "analysis/text_pass.h"
#include "formats/error.h"
#include "formats/system_memory.h"
#include "kernels/cuda/attention_cuda.h"
#include "model/attention/cuda_attention.h"
#include "model/attention/layer_attention.h"
#include "model/attention/plain_attention.h"
#include "model/checkpoints/open_model.h"
#include "worker/bench/kernel_rivals.h"
#include "worker/devices.h"

namespace phasescope::worker {
namespace {

using at::Tensor;
using model::AttentionProgram;

// A launch takes less than the clock can tell.
constexpr std::int64_t kGpuCalls = 20;

bool runs_on_gpu(const KernelRequest& request) {
  return request.backend == model::Backend::cuda_unverified;
}

protocol::AttentionBenchRow row_of(const std::string& variant, const std::string& pass,
                                   const std::string& probes, const KernelRequest& request) {
  protocol::AttentionBenchRow row;
  row.variant = variant;
  row.pass = pass;
  row.dtype = request.dtype == at::kFloat ? "f32" : "bf16";
  row.probes = probes;
  const bool gpu = runs_on_gpu(request);
  row.ran =
      protocol::Ran{.implementation = gpu ? kernels::kCudaBackend : model::fused_kernel_name(),
                    .device = gpu ? "cuda" : "cpu",
                    .dtype = row.dtype};
  row.kernel = row.ran->text();
  row.heads = request.size.heads;
  row.n = request.size.n;
  row.d = request.size.d;
  return row;
}

KernelCase left_out(KernelCase result, const std::string& reason) {
  result.row.ran.reset();
  result.row.kernel = "left out: " + reason;
  result.row.peak_mb = std::nan("");
  return result;
}

// ---- on the processor --------------------------------------------------------------------------

using Prepare = void (*)(const KernelProblem&);

Preparation forward_of(const KernelProblem& problem, const AttentionCall& call, Prepare prepare) {
  return [=]() -> std::function<void()> {
    if (prepare != nullptr) prepare(problem);
    return [=] {
      const at::NoGradGuard no_grad;
      call(problem);
    };
  };
}

Tensor sum_of(const std::vector<Tensor>& outputs) {
  Tensor sum;
  for (const Tensor& out : outputs) sum = sum.defined() ? sum + out.sum() : out.sum();
  return sum;
}

// The gradient of the sum of all outputs; the forward pass before it is not timed.
Preparation backward_of(const KernelProblem& problem, const AttentionCall& call, Prepare prepare) {
  return [=]() -> std::function<void()> {
    if (prepare != nullptr) prepare(problem);
    const Tensor sum = sum_of(call(problem));
    for (const Tensor* leaf : {&problem.program.q, &problem.program.k, &problem.v}) {
      leaf->mutable_grad() = Tensor();
    }
    return [sum] { sum.backward(); };
  };
}

std::vector<Tensor> fused(const KernelProblem& problem) {
  const model::AttentionResult result = model::attention(problem.program, problem.v, {});
  if (!result.state.defined()) return {result.out};
  return {result.out, result.state};
}

KernelCase cpu_case(const KernelVariant& variant, const KernelProblem& problem, KernelCase result) {
  const std::string obstacle = model::fused_obstacle(problem.program, problem.v);
  if (!obstacle.empty()) {
    result.row.ran = model::ran_plain(problem.v, obstacle);
    result.row.kernel = result.row.ran->text();
  }
  const auto timed = problem.gradients ? &backward_of : &forward_of;
  result.ours = timed(problem, fused, nullptr);
  for (const RivalInfo& info : variant.rivals) {
    result.rivals.push_back({info.name, timed(problem, info.call, info.prepare)});
  }
  return result;
}

// One pass from nothing, as a model's own pass does it that head statistics are read from.
Preparation probing(const KernelProblem& problem, const model::ProbeRequest& probes) {
  return timed_whole([=] {
    const at::NoGradGuard no_grad;
    model::attention(problem.program, problem.v, {.want_lse = true, .probes = &probes});
  });
}

// What is asked of a layer after the model's pass, whose log-sum-exp is at hand: the top keys of a
// map, the profile of one layer by distance.
Preparation probing_again(const KernelProblem& problem, const model::ProbeRequest& probes) {
  const model::AttentionResult before =
      model::attention(problem.program, problem.v, {.want_lse = true});
  const auto attention = std::make_shared<model::LayerAttention>(
      0, problem.program, problem.v, before.lse, Tensor(), model::Backend::fused, before.ran);
  return timed_whole([=] { attention->probe(probes); });
}

// ---- on a GPU ----------------------------------------------------------------------------------

Preparation repeated(std::function<void()> call, std::function<void()> wait) {
  return timed_whole([=] {
    for (std::int64_t n = 0; n < kGpuCalls; ++n) call();
    wait();
  });
}

// The operands cross to the GPU, and the forward pass before a backward one runs, when it is first
// prepared: a rival that cannot run is left out then.
Preparation rival_on_gpu(const KernelProblem& problem, const RivalInfo& info) {
  const auto there = std::make_shared<KernelProblem>();
  const auto sum = std::make_shared<Tensor>();
  return [=]() -> std::function<void()> {
    if (!there->v.defined()) {
      if (!rivals_have_gpu()) throw formats::bad_usage("this LibTorch has no GPU");
      *there = on_gpu(problem);
      if (info.prepare != nullptr) info.prepare(*there);
      if (problem.gradients) *sum = sum_of(info.call(*there));
    }
    if (problem.gradients) {
      return repeated([=] { sum->backward({}, /*retain_graph=*/true); }, [] { wait_for_gpu(); })();
    }
    return repeated(
        [=] {
          const at::NoGradGuard no_grad;
          info.call(*there);
        },
        [] { wait_for_gpu(); })();
  };
}

KernelCase gpu_case(const KernelVariant& variant, const KernelProblem& problem, KernelCase result,
                    bool atomic_dq, const model::ProbeRequest* probes = nullptr) {
  if (const std::string obstacle =
          model::cuda_obstacle(problem.program, problem.v, problem.gradients);
      !obstacle.empty()) {
    return left_out(std::move(result), obstacle);
  }
  const auto call = std::make_shared<const model::CudaCall>(
      problem.gradients ? model::CudaCall::backward(problem.program, problem.v, atomic_dq)
                        : model::CudaCall(problem.program, problem.v, probes));
  result.ours = repeated([call] { call->enqueue(); }, [call] { call->wait(); });
  result.calls = kGpuCalls;
  result.gpu = true;
  result.row.peak_mb = static_cast<double>(call->bytes()) / (1 << 20);
  if (problem.gradients && atomic_dq) {
    result.row.ran->implementation += model::words_of_atomic_dq(problem.program, problem.v);
    result.row.kernel = result.row.ran->text();
  }
  for (const RivalInfo& info : variant.rivals) {
    result.rivals.push_back({info.name, rival_on_gpu(problem, info)});
  }
  return result;
}

// ---- variants and probes -----------------------------------------------------------------------

// A rival that holds `maps` arrays of N x N numbers a head at once, left out where they do not fit.
Rival of_size(double maps, const KernelRequest& request, Rival rival) {
  const double most_megabytes = runs_on_gpu(request) ? 40'000 : 6000;
  const double megabytes = maps * static_cast<double>(at::elementSize(request.dtype)) *
                           static_cast<double>(request.size.heads) *
                           std::pow(static_cast<double>(request.size.n), 2) / (1 << 20);
  if (megabytes <= most_megabytes) return rival;
  const auto gigabytes = static_cast<std::int64_t>(std::lround(megabytes / 1024));
  return {rival.name + " (left out: " + std::to_string(gigabytes) + " GB)", {}};
}

KernelCase variant_case(const KernelVariant& variant, const KernelProblem* problem,
                        const KernelRequest& request, bool gradients) {
  KernelCase named{
      row_of(variant.name, gradients ? "backward" : "forward", "none", request), {}, {}};
  if (problem == nullptr) {
    return left_out(std::move(named), "a head of " + std::to_string(request.size.d) +
                                          (request.size.d == 1 ? " number" : " numbers") +
                                          " has no halves");
  }
  const KernelProblem asked = gradients ? with_gradients(*problem) : *problem;
  KernelCase result = runs_on_gpu(request)
                          ? gpu_case(variant, asked, std::move(named), request.atomic_dq)
                          : cpu_case(variant, asked, std::move(named));
  for (std::size_t n = 0; n < result.rivals.size(); ++n) {
    const RivalInfo& info = variant.rivals[n];
    const double maps = gradients ? info.backward_maps : info.forward_maps;
    result.rivals[n] = of_size(maps, request, std::move(result.rivals[n]));
  }
  return result;
}

// "all" are those of head statistics and the maximum. Content scores are the scores in plain
// attention (kernels_bench has what they cost), and top keys are no statistic: a row of their own.
void add_probe_cases(const KernelProblem& problem, const KernelRequest& request,
                     std::vector<KernelCase>& cases) {
  const auto add = [&](const std::string& probed, const model::ProbeRequest& probes,
                       const auto& probing_with) {
    KernelCase named{row_of("plain", "forward", probed, request), {}, {}};
    if (runs_on_gpu(request)) {
      cases.push_back(gpu_case({"plain", {}, {}}, problem, std::move(named), false, &probes));
    } else {
      named.ours = probing_with(problem, probes);
      cases.push_back(std::move(named));
    }
  };
  model::ProbeRequest probes;
  probes.entropy = probes.max_score = probes.max_key = true;
  add("maximum, entropy", probes, probing);
  probes.top1_mass = probes.first_key_weight = probes.mean_distance = true;
  probes.windows = {16, 64, 256};
  probes.bucket_edges = analysis::distance_edges(request.size.n);
  add("all", probes, probing);
  model::ProbeRequest few = probes;
  const double octaves = std::log2(static_cast<double>(request.size.n) + 1);
  few.bucket_edges = analysis::distance_edges(request.size.n, 1, std::llround(32 / octaves));
  add("all, about 32 buckets", few, probing);
  if (runs_on_gpu(request)) return;
  add("all, log-sum-exp known", probes, probing_again);
  model::ProbeRequest top;
  top.top_keys = 8;
  add("8 top keys", top, probing);
}

// ---- statistics of every head of a model -------------------------------------------------------

constexpr std::int64_t kModelLayers = 12;

// A decoder of random weights, and ids for it.
std::shared_ptr<const model::Model> random_decoder(const KernelSize& size, std::uint64_t seed) {
  model::ModelConfig config;
  config.layers = kModelLayers;
  config.heads = config.kv_heads = size.heads;
  config.head_dim = size.d;
  config.width = size.heads * size.d;
  config.ffn_width = 4 * config.width;
  config.context = size.n;
  config.encoding.key = "rope";
  config.init_std = 0.02;
  return model::random_model(config, seed);
}

// Sums of x (H, N, N) over each distance q - k, (H, N); x is 0 where k > q. Reading rows of the
// mirrored map one step later each puts equal distances in one column; what lies beyond a row's end
// is the next row's keys after its query.
Tensor sums_by_distance(const Tensor& x) {
  const std::int64_t heads = x.size(0), n = x.size(1);
  if (n == 1) return x.view({heads, 1});
  const Tensor mirrored = x.flip(-1).contiguous();
  const Tensor columns = mirrored.as_strided({heads, n, n - 1}, {n * n, n - 1, 1}, n - 1).sum(1);
  return at::cat({columns, x.select(1, n - 1).narrow(1, 0, 1)}, 1);
}

// Maps at once below: scores, weights, scores seen, their squares, the squares mirrored.
constexpr double kStatisticsMaps = 5;

// What read_heads() says of a layer, from its whole map `scores` (H, N, N) and its softmax.
std::vector<Tensor> statistics_of_map(const Tensor& scores, const Tensor& weights) {
  const Tensor token = at::arange(scores.size(-1), at::kFloat);
  std::vector<Tensor> out{at::xlogy(weights, weights).sum(-1).neg(), weights.amax(-1),
                          weights.select(-1, 0), token - at::matmul(weights, token)};
  for (const std::int64_t window : {16, 64, 256}) {
    out.push_back(weights.triu(1 - window).sum(-1));
  }
  out.push_back(sums_by_distance(weights));
  const Tensor seen = scores.masked_fill(scores.isneginf(), 0.0);
  out.push_back(sums_by_distance(seen));
  out.push_back(sums_by_distance(seen.square()));
  return out;
}

Tensor whole_map(const AttentionProgram& program) {
  const std::int64_t n = program.q.size(2);
  return model::plain_scores(program, {0, program.q.size(1)}, {0, n}, {0, n})[0];
}

// Attention of one layer and the statistics of all its heads.
KernelCase layer_case(const KernelRequest& request) {
  const KernelProblem problem =
      random_problem({}, request.size, at::kFloat, request.seed, request.layout);
  KernelCase result{row_of("layer", "forward", "all", request), {}, {}};
  result.ours = probing(problem, analysis::head_probes(analysis::distance_edges(request.size.n)));
  const auto eager = [=] {
    const at::NoGradGuard no_grad;
    const Tensor scores = whole_map(problem.program);
    const Tensor weights = at::softmax(scores, -1);
    at::matmul(weights, problem.v[0]);
    statistics_of_map(scores, weights);
  };
  result.rivals.push_back(
      of_size(kStatisticsMaps, request,
              {"eager: the whole map, the same statistics from it", timed_whole(eager)}));
  return result;
}

// Every head of a model, its other products among the time. The rival's own forward pass is the
// fused one: its maps come on top.
KernelCase heads_case(const KernelRequest& request) {
  const KernelSize& size = request.size;
  const auto decoder = random_decoder(size, request.seed);
  const Tensor ids = at::randint(decoder->config().vocab_size, {1, size.n},
                                 at::detail::createCPUGenerator(request.seed), at::kLong);
  const model::ProbeRequest probes = analysis::head_probes(analysis::distance_edges(size.n));
  const auto visiting = [=](const analysis::TextPass::LayerVisitor& visitor, bool probed) {
    return timed_whole([=] {
      analysis::TextPass pass(decoder, ids, {}, 0);
      pass.visit_layers(visitor, probed ? &probes : nullptr);
    });
  };
  KernelCase result{row_of("heads", "forward", "all", request), {}, {}};
  result.ours =
      visiting([=](const auto& attention) { analysis::read_heads(*attention, probes); }, true);
  const auto from_map = [](const analysis::AttentionPointer& attention) {
    const Tensor scores = whole_map(attention->program());
    statistics_of_map(scores, at::softmax(scores, -1));
  };
  result.rivals.push_back(of_size(
      kStatisticsMaps, request,
      {"eager: each layer's whole map, the same statistics from it", visiting(from_map, false)}));
  return result;
}

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// `what` and `option` as "pass" and "passes".
void check_names(const std::vector<std::string>& given, const std::vector<std::string>& known,
                 const std::string& what, const std::string& option) {
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  for (const std::string& name : given) {
    if (wanted(known, name)) continue;
    throw formats::bad_usage("there is no " + what + " \"" + name + "\"; use " + list, option);
  }
}

std::vector<KernelVariant> variants_of(const KernelRequest& request) {
  std::vector<KernelVariant> variants = kernel_variants_at(request.size, runs_on_gpu(request));
  std::erase_if(variants, [&](const KernelVariant& variant) {
    return !request.variants.empty() && !wanted(request.variants, variant.name);
  });
  return variants;
}

// The bytes of what all cases hold together: q, k, v and one more (a state or a table), and of the
// largest case eight arrays of that size (results, gradients, what they are made from).
double least_bytes(const KernelRequest& request) {
  const KernelSize& size = request.size;
  const double array = static_cast<double>(at::elementSize(request.dtype)) *
                       static_cast<double>(size.heads) * static_cast<double>(size.n) *
                       static_cast<double>(size.d);
  return array * (4 * static_cast<double>(variants_of(request).size()) + 8);
}

}  // namespace

std::vector<std::string> kernel_variants() {
  std::vector<std::string> names;
  for (const KernelVariant& variant : kernel_variants_at({}, false)) names.push_back(variant.name);
  names.push_back("layer");
  names.push_back("heads");
  return names;
}

void check_kernel_request(const KernelRequest& request) {
  const std::vector<std::string>& variants = request.variants;
  check_names(variants, kernel_variants(), "variant", "variants");
  check_names(request.passes, {"forward", "backward"}, "pass", "passes");
  const bool statistics = wanted(variants, "layer") || wanted(variants, "heads");
  if (statistics && (runs_on_gpu(request) || request.dtype != at::kFloat)) {
    throw formats::bad_usage("layer and heads are timed in f32 on the processor alone", "variants");
  }
  const double wanted_gb = least_bytes(request) / (1 << 30);
  const double free_gb = static_cast<double>(formats::available_bytes()) / (1 << 30);
  if (wanted_gb <= free_gb || free_gb == 0) return;  // 0: not known
  char text[160];
  std::snprintf(text, sizeof text,
                "operands and results of %lld heads, %lld tokens and %lld numbers a head take %.3g "
                "GB, and %.3g GB are free",
                static_cast<long long>(request.size.heads), static_cast<long long>(request.size.n),
                static_cast<long long>(request.size.d), wanted_gb, free_gb);
  throw formats::Error("out_of_memory", text, "lengths", "Ask for fewer heads or tokens");
}

std::vector<KernelCase> kernel_cases(const KernelRequest& request) {
  const std::vector<KernelVariant> variants = variants_of(request);
  // The problem of each variant, for both passes.
  std::vector<std::optional<KernelProblem>> problems;
  std::optional<KernelProblem> beside;  // the first of them
  for (const KernelVariant& variant : variants) {
    const bool possible = !variant.halves || request.size.d % 2 == 0;
    problems.emplace_back();
    if (!possible) continue;
    problems.back() = random_problem(variant.form, request.size, request.dtype, request.seed,
                                     request.layout, beside ? &*beside : nullptr);
    if (!beside) beside = problems.back();
  }
  std::vector<KernelCase> cases;
  for (const char* pass : {"forward", "backward"}) {
    if (!request.passes.empty() && !wanted(request.passes, pass)) continue;
    const bool backward = pass == std::string("backward");
    for (std::size_t n = 0; n < variants.size(); ++n) {
      const KernelProblem* problem = problems[n] ? &*problems[n] : nullptr;
      cases.push_back(variant_case(variants[n], problem, request, backward));
      if (variants[n].name == "plain" && !backward) add_probe_cases(*problem, request, cases);
    }
    if (backward) continue;
    if (wanted(request.variants, "layer")) cases.push_back(layer_case(request));
    if (wanted(request.variants, "heads")) cases.push_back(heads_case(request));
  }
  return cases;
}

}  // namespace phasescope::worker
