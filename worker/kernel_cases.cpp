#include "worker/kernel_cases.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "analysis/heads.h"
#include "analysis/text_pass.h"
#include "formats/error.h"
#include "model/attention.h"
#include "model/encoding.h"
#include "model/layer_attention.h"
#include "model/open_model.h"
#include "model/plain_attention.h"

namespace phasescope::worker {
namespace {

using at::Tensor;
using model::AttentionProgram;

// ---- random data -------------------------------------------------------------------------------

// Sizes and terms that trained models have.
struct Problem {
  KernelSize size;
  AttentionProgram program;
  Tensor v;
  bool gradients = false;  // q, k and v ask for them
};

Tensor random_input(const KernelSize& size) {
  return at::randn({1, size.heads, size.n, size.d}, at::kFloat);
}

// (H, N): slopes as ALiBi and Kerple have them.
Tensor random_table(const KernelSize& size) {
  return at::outer(at::rand({size.heads}) * -0.1, at::arange(size.n, at::kFloat)).contiguous();
}

void make_table(Problem& problem) {
  problem.program.kind = AttentionProgram::Kind::table;
  problem.program.table.values = random_table(problem.size);
}

void make_tapa(Problem& problem) {
  problem.program.kind = AttentionProgram::Kind::tapa;
  const double half = static_cast<double>(problem.size.d) / 2;
  problem.program.tapa = {.content_dim = problem.size.d / 2,
                          .scale_content = 1 / std::sqrt(half),
                          .scale_phase = 0.1 / std::sqrt(half),
                          .power = at::arange(problem.size.n, at::kFloat).pow(0.1) * (2 * M_PI)};
}

// A state of d numbers a token: d/2 cosines and d/2 sines.
void make_tape(Problem& problem) {
  problem.program.kind = AttentionProgram::Kind::tape;
  problem.program.tape.state = random_input(problem.size);
}

void make_cape(Problem& problem) {
  problem.program.kind = AttentionProgram::Kind::cape;
  const std::int64_t hidden = 32, heads = problem.size.heads;
  problem.program.cape = {.values = random_table(problem.size),
                          .w1 = at::randn({hidden, 2 * heads}) * 0.1,
                          .b1 = at::zeros({hidden}),
                          .w2 = at::randn({heads, hidden}) * 0.1,
                          .b2 = at::zeros({heads})};
}

// A quarter of the text within its threshold: past it the bias is no function of the distance.
void make_fire(Problem& problem) {
  const KernelSize& size = problem.size;
  model::ModelConfig config;
  config.heads = config.kv_heads = size.heads;
  config.head_dim = size.d;
  config.width = size.heads * size.d;
  config.context = size.n;
  config.encoding = {"fire", {{"threshold", static_cast<double>(size.n) / 4}}};
  const auto fire = model::make_encoding(config);
  model::Parameters layer;
  for (const model::ParameterSpec& spec : fire->parameters()) {
    if (spec.optional) continue;
    layer[spec.name] = spec.start.defined()
                           ? spec.start.expand(spec.shape)
                           : at::empty(spec.shape, at::kFloat).uniform_(spec.low, spec.high);
  }
  const model::StartContext context{problem.program.positions, at::kFloat, at::kFloat};
  problem.program =
      fire->program(layer, problem.program.q, problem.program.k, fire->start(context));
}

// ---- rivals ------------------------------------------------------------------------------------

// Outputs of one attention call, for their sum's gradient.
using Call = std::function<std::vector<Tensor>(const Problem&)>;

// A rival, and how many arrays of N x N floats a head it holds at once (forward, and with what its
// backward pass keeps), so that it is left out where these do not fit.
struct RivalInfo {
  std::string name;
  Call call;
  double forward_maps = 0, backward_maps = 0;
};

constexpr double kMostMegabytes = 6000;

Tensor flash(const Tensor& q, const Tensor& k, const Tensor& v,
             const std::optional<Tensor>& bias = {}) {
  return std::get<0>(
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, !bias.has_value(), bias));
}

RivalInfo flash_rival() {
  return {"PyTorch SDPA, flash", [](const Problem& p) -> std::vector<Tensor> {
            return {flash(p.program.q, p.program.k, p.v)};
          }};
}

RivalInfo math_rival() {
  return {"PyTorch SDPA, math",
          [](const Problem& p) -> std::vector<Tensor> {
            return {std::get<0>(at::_scaled_dot_product_attention_math(p.program.q, p.program.k,
                                                                       p.v, {}, 0.0, true))};
          },
          3, 6};
}

// What a program adds to the scores of all pairs, (1, H, N, N); -inf above the diagonal.
Tensor dense_bias(const Problem& p) {
  const std::int64_t n = p.size.n, heads = p.size.heads;
  const Tensor key = at::arange(n);
  const Tensor index = key.unsqueeze(1) - key;
  Tensor bias;
  if (p.program.term.score) {
    constexpr std::int64_t kRows = 64;  // at once: a term makes many arrays
    bias = at::empty({1, heads, n, n}, at::kFloat);
    for (std::int64_t row = 0; row < n; row += kRows) {
      Tensor rows = bias.slice(2, row, row + kRows);
      const Tensor query = key.slice(0, row, row + kRows);
      rows.copy_(p.program.term.score({.content = at::zeros_like(rows),
                                       .query_id = query.view({1, -1, 1}),
                                       .key_id = key.view({1, 1, -1}),
                                       .first_row = row}));
    }
  } else {
    bias =
        p.program.table.values.index_select(1, index.clamp_min(0).flatten()).view({1, heads, n, n});
  }
  return bias.masked_fill(index < 0, -std::numeric_limits<double>::infinity());
}

// The bias is made before, and no gradient of it is asked for: both in the rival's favour.
RivalInfo dense_bias_rival() {
  return {"PyTorch SDPA, flash, with a dense bias made before",
          [bias = std::make_shared<Tensor>()](const Problem& p) -> std::vector<Tensor> {
            if (!bias->defined()) *bias = dense_bias(p);
            return {flash(p.program.q, p.program.k, p.v, *bias)};
          },
          3, 3};
}

// Values, cosines and sines, each half of the state as wide as a head, as the public code has them.
RivalInfo three_calls_rival() {
  return {"three PyTorch SDPA calls, flash", [](const Problem& p) -> std::vector<Tensor> {
            const auto both = p.program.tape.state.chunk(2, -1);
            std::vector<Tensor> out{flash(p.program.q, p.program.k, p.v)};
            for (const Tensor& half : both) {
              out.push_back(flash(p.program.q, p.program.k, at::cat({half, half}, -1)));
            }
            return out;
          }};
}

// Tensor operations on scores: blocks of rows where no gradient is wanted, else all at once.
RivalInfo eager_rival(double backward_maps) {
  return {"eager tensor operations",
          [](const Problem& p) -> std::vector<Tensor> {
            return {model::attention(p.program, p.v, {.backend = model::Backend::plain}).out};
          },
          0, backward_maps};
}

// ---- the list of variants ----------------------------------------------------------------------

struct VariantInfo {
  std::string name;
  void (*make)(Problem&);  // null: plain
  std::vector<RivalInfo> rivals;
};

std::vector<VariantInfo> variants_at(const KernelSize& size) {
  // Of eager CAPE: inputs of both layers, hidden units before and after the rectifier.
  const double cape_maps = 8 + 3 * 32 / static_cast<double>(size.heads);
  return {{"plain", nullptr, {flash_rival(), math_rival()}},
          {"table", make_table, {dense_bias_rival()}},
          {"tapa", make_tapa, {eager_rival(9)}},
          {"tape", make_tape, {three_calls_rival()}},
          {"cape", make_cape, {eager_rival(cape_maps)}},
          {"fire", make_fire, {dense_bias_rival()}}};
}

Problem problem_of(const VariantInfo& variant, const KernelSize& size, bool gradients) {
  Problem problem{size, {}, random_input(size), gradients};
  AttentionProgram& program = problem.program;
  program.q = program.q_plain = random_input(size).requires_grad_(gradients);
  program.k = program.k_plain = random_input(size).requires_grad_(gradients);
  problem.v.requires_grad_(gradients);
  program.scale = 1 / std::sqrt(static_cast<double>(size.d));
  program.positions.length = size.n;
  if (variant.make != nullptr) variant.make(problem);
  return problem;
}

// ---- cases -------------------------------------------------------------------------------------

Preparation forward_of(const Problem& problem, const Call& call) {
  return timed_whole([=] {
    const at::NoGradGuard no_grad;
    call(problem);
  });
}

// The gradient of the sum of all outputs; the forward pass before it is not timed.
Preparation backward_of(const Problem& problem, const Call& call) {
  return [=]() -> std::function<void()> {
    Tensor sum;
    for (const Tensor& out : call(problem)) sum = sum.defined() ? sum + out.sum() : out.sum();
    for (const Tensor* leaf : {&problem.program.q, &problem.program.k, &problem.v}) {
      leaf->mutable_grad() = Tensor();
    }
    return [sum] { sum.backward(); };
  };
}

std::vector<Tensor> fused(const Problem& problem) {
  const model::AttentionResult result = model::attention(problem.program, problem.v, {});
  if (!result.state.defined()) return {result.out};
  return {result.out, result.state};
}

Rival rival_of(const RivalInfo& info, const Problem& problem) {
  const double maps = problem.gradients ? info.backward_maps : info.forward_maps;
  const double megabytes = maps * 4 * static_cast<double>(problem.size.heads) *
                           std::pow(static_cast<double>(problem.size.n), 2) / (1 << 20);
  if (megabytes > kMostMegabytes) {
    const auto gigabytes = static_cast<std::int64_t>(std::lround(megabytes / 1024));
    return {info.name + " (left out: " + std::to_string(gigabytes) + " GB)", {}};
  }
  return {info.name,
          problem.gradients ? backward_of(problem, info.call) : forward_of(problem, info.call)};
}

protocol::AttentionBenchRow row_of(const std::string& variant, const std::string& pass,
                                   const std::string& probes, const KernelSize& size) {
  protocol::AttentionBenchRow row;
  row.variant = variant;
  row.pass = pass;
  row.dtype = "f32";
  row.probes = probes;
  row.kernel = model::fused_kernel_name();
  row.heads = size.heads;
  row.n = size.n;
  row.d = size.d;
  return row;
}

KernelCase variant_case(const VariantInfo& variant, const KernelSize& size, bool gradients) {
  const Problem problem = problem_of(variant, size, gradients);
  KernelCase result{row_of(variant.name, gradients ? "backward" : "forward", "none", size), {}, {}};
  const std::string obstacle = model::fused_obstacle(problem.program, problem.v);
  if (!obstacle.empty()) result.row.kernel = "plain (" + obstacle + ")";
  result.ours = gradients ? backward_of(problem, fused) : forward_of(problem, fused);
  for (const RivalInfo& info : variant.rivals) result.rivals.push_back(rival_of(info, problem));
  return result;
}

// Plain attention with probes, through the same entry that head statistics take: after the model's
// own forward pass, whose log-sum-exp is at hand.
KernelCase probe_case(const std::string& probes, const model::ProbeRequest& request,
                      const KernelSize& size) {
  const VariantInfo plain{"plain", nullptr, {}};
  const Problem problem = problem_of(plain, size, false);
  const model::AttentionResult before =
      model::attention(problem.program, problem.v, {.want_lse = true});
  const auto attention = std::make_shared<model::LayerAttention>(
      0, problem.program, problem.v, before.lse, Tensor(), model::Backend::fused, before.kernel);
  return {row_of("plain", "forward", probes, size),
          timed_whole([=] { attention->probe(request); }),
          {}};
}

void add_probe_cases(const KernelSize& size, std::vector<KernelCase>& cases) {
  model::ProbeRequest request;
  request.entropy = request.max_score = request.max_key = true;
  cases.push_back(probe_case("maximum, entropy", request, size));
  request.top1_mass = request.first_key_weight = request.mean_distance = true;
  request.windows = {16, 64, 256};
  request.bucket_edges = analysis::distance_edges(size.n);
  cases.push_back(probe_case("all", request, size));
}

// ---- statistics of every head of a model -------------------------------------------------------

constexpr std::int64_t kModelLayers = 12;

// A decoder of random weights, and ids for it.
std::shared_ptr<const model::Model> random_decoder(const KernelSize& size) {
  model::ModelConfig config;
  config.layers = kModelLayers;
  config.heads = config.kv_heads = size.heads;
  config.head_dim = size.d;
  config.width = size.heads * size.d;
  config.ffn_width = 4 * config.width;
  config.context = size.n;
  config.encoding.key = "rope";
  config.init_std = 0.02;
  return model::random_model(config, 1);
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
KernelCase layer_case(const KernelSize& size) {
  const Problem problem = problem_of({"plain", nullptr, {}}, size, false);
  const model::ProbeRequest probes = analysis::head_probes(analysis::distance_edges(size.n));
  KernelCase result{row_of("layer", "forward", "all", size), {}, {}};
  result.ours = timed_whole([=] {
    const at::NoGradGuard no_grad;
    model::attention(problem.program, problem.v, {.want_lse = true, .probes = &probes});
  });
  const auto eager = [=] {
    const at::NoGradGuard no_grad;
    const Tensor scores = whole_map(problem.program);
    const Tensor weights = at::softmax(scores, -1);
    at::matmul(weights, problem.v[0]);
    statistics_of_map(scores, weights);
  };
  result.rivals.push_back(
      {"eager: the whole map, the same statistics from it", timed_whole(eager)});
  return result;
}

// Every head of a model, its other products among the time. The rival's own forward pass is the
// fused one: its maps come on top.
KernelCase heads_case(const KernelSize& size) {
  const auto decoder = random_decoder(size);
  const Tensor ids = at::randint(decoder->config().vocab_size, {1, size.n}, at::kLong);
  const model::ProbeRequest probes = analysis::head_probes(analysis::distance_edges(size.n));
  const auto visiting = [=](const analysis::TextPass::LayerVisitor& visitor, bool probed) {
    return timed_whole([=] {
      analysis::TextPass pass(decoder, ids, {}, 0);
      pass.visit_layers(visitor, probed ? &probes : nullptr);
    });
  };
  KernelCase result{row_of("heads", "forward", "all", size), {}, {}};
  result.ours =
      visiting([=](const auto& attention) { analysis::read_heads(*attention, probes); }, true);
  const auto from_map = [](const analysis::AttentionPointer& attention) {
    const Tensor scores = whole_map(attention->program());
    statistics_of_map(scores, at::softmax(scores, -1));
  };
  result.rivals.push_back(
      {"eager: each layer's whole map, the same statistics from it", visiting(from_map, false)});
  return result;
}

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_names(const std::vector<std::string>& given, const std::vector<std::string>& known,
                 const char* what) {
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  for (const std::string& name : given) {
    if (!wanted(known, name)) {
      throw formats::bad_usage(
          "there is no " + std::string(what) + " \"" + name + "\"; use " + list,
          std::string(what) + "s");
    }
  }
}

}  // namespace

std::vector<std::string> kernel_variants() {
  std::vector<std::string> names;
  for (const VariantInfo& variant : variants_at({})) names.push_back(variant.name);
  names.push_back("layer");
  names.push_back("heads");
  return names;
}

std::vector<KernelCase> kernel_cases(const KernelSize& size,
                                     const std::vector<std::string>& variants,
                                     const std::vector<std::string>& passes) {
  check_names(variants, kernel_variants(), "variant");
  check_names(passes, {"forward", "backward"}, "passe");
  std::vector<KernelCase> cases;
  for (const char* pass : {"forward", "backward"}) {
    if (!passes.empty() && !wanted(passes, pass)) continue;
    const bool backward = pass == std::string("backward");
    for (const VariantInfo& variant : variants_at(size)) {
      if (!variants.empty() && !wanted(variants, variant.name)) continue;
      cases.push_back(variant_case(variant, size, backward));
      if (variant.name == "plain" && !backward) add_probe_cases(size, cases);
    }
    if (backward) continue;
    if (wanted(variants, "layer")) cases.push_back(layer_case(size));
    if (wanted(variants, "heads")) cases.push_back(heads_case(size));
  }
  return cases;
}

}  // namespace phasescope::worker
