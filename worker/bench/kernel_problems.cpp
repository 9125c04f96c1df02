#include "worker/bench/kernel_problems.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace phasescope::worker {
namespace {

using at::Tensor;
using model::AttentionProgram;

Tensor random_input(const KernelProblem& problem, at::ScalarType dtype) {
  const KernelSize& size = problem.size;
  return at::randn({1, size.heads, size.n, size.d}, problem.random, at::kFloat).to(dtype);
}

// The same, laid out as asked.
Tensor random_rows(const KernelProblem& problem, at::ScalarType dtype, Layout layout) {
  const Tensor rows = random_input(problem, dtype);
  if (layout == Layout::contiguous) return rows;
  const KernelSize& size = problem.size;
  const std::int64_t width = size.heads * size.d;
  const Tensor tokens = at::empty({1, size.n, std::max(width, kModelRow)}, rows.options());
  const Tensor own = tokens.narrow(2, 0, width).view({1, size.n, size.heads, size.d});
  return own.transpose(1, 2).copy_(rows);
}

// (H, N): slopes as ALiBi and Kerple have them.
Tensor random_table(const KernelProblem& problem) {
  const KernelSize& size = problem.size;
  return at::outer(at::rand({size.heads}, problem.random) * -0.1, at::arange(size.n, at::kFloat))
      .contiguous();
}

// What a program adds to the scores of all pairs, (1, H, N, N) float32.
Tensor added_scores(const KernelProblem& problem) {
  const std::int64_t n = problem.size.n, heads = problem.size.heads;
  const Tensor key = at::arange(n);
  if (const auto* table = problem.program.as<model::TableProgram>()) {
    const Tensor distance = (key.unsqueeze(1) - key).clamp_min(0);
    return table->values.index_select(1, distance.flatten()).view({1, heads, n, n});
  }
  const model::TermProgram& term = *problem.program.term();
  constexpr std::int64_t kRows = 64;  // at once: a term makes many arrays
  Tensor bias = at::empty({1, heads, n, n}, at::kFloat);
  for (std::int64_t row = 0; row < n; row += kRows) {
    Tensor rows = bias.slice(2, row, row + kRows);
    const Tensor query = key.slice(0, row, row + kRows);
    rows.copy_(term.score({.content = at::zeros_like(rows),
                           .query_id = query.view({1, -1, 1}),
                           .key_id = key.view({1, 1, -1}),
                           .first_row = row}));
  }
  return bias;
}

}  // namespace

KernelProblem random_problem(void (*make)(KernelProblem&), const KernelSize& size,
                             at::ScalarType dtype, std::uint64_t seed, Layout layout) {
  KernelProblem problem{.size = size, .random = at::detail::createCPUGenerator(seed)};
  AttentionProgram& program = problem.program;
  program.q = program.q_plain = random_rows(problem, dtype, layout);
  program.k = program.k_plain = random_rows(problem, dtype, layout);
  problem.v = random_rows(problem, dtype, layout);
  program.scale = 1 / std::sqrt(static_cast<double>(size.d));
  program.positions.length = size.n;
  if (make != nullptr) make(problem);
  return problem;
}

KernelProblem with_gradients(const KernelProblem& problem) {
  KernelProblem result = problem;
  AttentionProgram& program = result.program;
  program.q = program.q_plain = program.q.detach().requires_grad_();
  program.k = program.k_plain = program.k.detach().requires_grad_();
  result.v = result.v.detach().requires_grad_();
  result.gradients = true;
  return result;
}

void make_table(KernelProblem& problem) {
  problem.program.variant = model::TableProgram{random_table(problem)};
}

void make_tapa(KernelProblem& problem) {
  const double half = static_cast<double>(problem.size.d) / 2;
  problem.program.variant =
      model::TapaProgram{.content_dim = problem.size.d / 2,
                         .scale_content = 1 / std::sqrt(half),
                         .scale_phase = 0.1 / std::sqrt(half),
                         .power = at::arange(problem.size.n, at::kFloat).pow(0.1) * (2 * M_PI)};
}

// A state of d numbers a token: d/2 cosines and d/2 sines.
void make_tape(KernelProblem& problem) {
  problem.program.variant = model::TapeProgram{random_input(problem, problem.v.scalar_type())};
}

void make_cape(KernelProblem& problem) {
  const std::int64_t hidden = 32, heads = problem.size.heads;
  problem.program.variant =
      model::CapeProgram{.values = random_table(problem),
                         .w1 = at::randn({hidden, 2 * heads}, problem.random) * 0.1,
                         .b1 = at::zeros({hidden}),
                         .w2 = at::randn({heads, hidden}, problem.random) * 0.1,
                         .b2 = at::zeros({heads})};
}

// A quarter of the text within its threshold: past it the bias is no function of the distance.
void make_fire(KernelProblem& problem) {
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
    layer[spec.name] =
        spec.start.defined()
            ? spec.start.expand(spec.shape)
            : at::empty(spec.shape, at::kFloat).uniform_(spec.low, spec.high, problem.random);
  }
  const model::StartContext context{problem.program.positions, at::kFloat, at::kFloat};
  problem.program =
      fire->program(layer, problem.program.q, problem.program.k, fire->start(context));
}

void make_dense_bias(const KernelProblem& problem) {
  if (problem.bias->defined()) return;
  const at::NoGradGuard no_grad;
  const Tensor unseen = at::ones({problem.size.n, problem.size.n}, at::kBool).triu_(1);
  *problem.bias = added_scores(problem)
                      .masked_fill_(unseen, -std::numeric_limits<double>::infinity())
                      .to(problem.program.q.options());
}

}  // namespace phasescope::worker
