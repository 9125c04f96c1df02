#include "worker/kernel_problems.h"

#include <ATen/ATen.h>

#include <cmath>

namespace phasescope::worker {
namespace {

using at::Tensor;
using model::AttentionProgram;

Tensor random_input(const KernelSize& size, at::ScalarType dtype) {
  return at::randn({1, size.heads, size.n, size.d}, at::kFloat).to(dtype);
}

// (H, N): slopes as ALiBi and Kerple have them.
Tensor random_table(const KernelSize& size) {
  return at::outer(at::rand({size.heads}) * -0.1, at::arange(size.n, at::kFloat)).contiguous();
}

}  // namespace

KernelProblem random_problem(void (*make)(KernelProblem&), const KernelSize& size,
                             at::ScalarType dtype, bool gradients) {
  KernelProblem problem{size, {}, random_input(size, dtype), gradients};
  AttentionProgram& program = problem.program;
  program.q = program.q_plain = random_input(size, dtype).requires_grad_(gradients);
  program.k = program.k_plain = random_input(size, dtype).requires_grad_(gradients);
  problem.v.requires_grad_(gradients);
  program.scale = 1 / std::sqrt(static_cast<double>(size.d));
  program.positions.length = size.n;
  if (make != nullptr) make(problem);
  return problem;
}

void make_table(KernelProblem& problem) {
  problem.program.kind = AttentionProgram::Kind::table;
  problem.program.table.values = random_table(problem.size);
}

void make_tapa(KernelProblem& problem) {
  problem.program.kind = AttentionProgram::Kind::tapa;
  const double half = static_cast<double>(problem.size.d) / 2;
  problem.program.tapa = {.content_dim = problem.size.d / 2,
                          .scale_content = 1 / std::sqrt(half),
                          .scale_phase = 0.1 / std::sqrt(half),
                          .power = at::arange(problem.size.n, at::kFloat).pow(0.1) * (2 * M_PI)};
}

// A state of d numbers a token: d/2 cosines and d/2 sines.
void make_tape(KernelProblem& problem) {
  problem.program.kind = AttentionProgram::Kind::tape;
  problem.program.tape.state = random_input(problem.size, problem.v.scalar_type());
}

void make_cape(KernelProblem& problem) {
  problem.program.kind = AttentionProgram::Kind::cape;
  const std::int64_t hidden = 32, heads = problem.size.heads;
  problem.program.cape = {.values = random_table(problem.size),
                          .w1 = at::randn({hidden, 2 * heads}) * 0.1,
                          .b1 = at::zeros({hidden}),
                          .w2 = at::randn({heads, hidden}) * 0.1,
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
    layer[spec.name] = spec.start.defined()
                           ? spec.start.expand(spec.shape)
                           : at::empty(spec.shape, at::kFloat).uniform_(spec.low, spec.high);
  }
  const model::StartContext context{problem.program.positions, at::kFloat, at::kFloat};
  problem.program =
      fire->program(layer, problem.program.q, problem.program.k, fire->start(context));
}

}  // namespace phasescope::worker
