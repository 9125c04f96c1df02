#include "worker/bench/kernel_problems.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <variant>
#include <vector>

#include "model/attention/attention.h"

namespace phasescope::worker {
namespace {

using at::Tensor;
using kernels::problems::RandomInputs;
using model::AttentionProgram;

// The numbers of an array, in memory of its own.
template <typename Number>
Tensor tensor_of(const std::vector<Number>& values, at::IntArrayRef sizes) {
  // What is read is not written: from_blob() knows no constant memory.
  return at::from_blob(const_cast<Number*>(values.data()), sizes,
                       at::CppTypeToScalarType<Number>::value)
      .clone();
}

// An array (N, H, width) as (1, H, N, width), laid out as asked.
Tensor rows_of(const std::vector<float>& values, const KernelSize& size, at::ScalarType dtype,
               Layout layout) {
  const auto width = static_cast<std::int64_t>(values.size()) / (size.n * size.heads);
  const Tensor tokens = tensor_of(values, {1, size.n, size.heads, width}).to(dtype);
  if (layout == Layout::contiguous) return tokens.transpose(1, 2).contiguous();
  const std::int64_t own = size.heads * width;
  const Tensor rows = at::empty({1, size.n, std::max(own, kModelRow)}, tokens.options());
  return rows.narrow(2, 0, own).view(tokens.sizes()).copy_(tokens).transpose(1, 2);
}

// FIRE's scores by their definition: its pieces at u = distance[lambda] factor[i].
model::TermProgram term_of(const model::FireProgram& fire) {
  const auto score = [distance = fire.distance, factor = fire.factor, knots = fire.knots,
                      slope = fire.slope,
                      intercept = fire.intercept](const model::TermRegion& region) {
    const std::int64_t heads = region.content.size(1), rows = region.content.size(2);
    const Tensor lambda = (region.query_id - region.key_id).clamp_min(0).squeeze(0);
    const Tensor u = distance.index({lambda}) *
                     factor.narrow(0, region.first_row, rows).unsqueeze(1);  // (rows, columns)
    const Tensor piece = at::bucketize(u, knots).flatten();
    const auto of_piece = [&](const Tensor& numbers) {
      return numbers.narrow(0, region.first_head, heads)
          .index_select(1, piece)
          .view({heads, rows, -1});
    };
    return region.content + of_piece(slope) * u + of_piece(intercept);
  };
  return {.score = score};
}

// A problem's variant as a program has it.
struct ProgramOf {
  const RandomInputs& drawn;
  const KernelSize& size;
  at::ScalarType dtype;
  Layout layout;

  using Variant = decltype(AttentionProgram::variant);

  Variant operator()(const kernels::PlainVariant&) const { return model::PlainProgram{}; }
  Variant operator()(const kernels::TableVariant& table) const {
    return model::TableProgram{tensor_of(drawn.table, {size.heads, table.length}),
                               table.first_distance, table.multiplies};
  }
  Variant operator()(const kernels::QueryTableVariant& table) const {
    return model::QueryTableProgram{tensor_of(drawn.table, {1, size.heads, size.n, table.length})};
  }
  Variant operator()(const kernels::RelativeKeysVariant& relative) const {
    const std::int64_t tables = relative.head_stride == 0 ? 1 : size.heads;
    return model::RelativeKeysProgram{
        rows_of(drawn.far_q, size, dtype, layout),
        tensor_of(drawn.table, {tables, relative.rank, relative.length}), relative.first_distance,
        relative.clips};
  }
  Variant operator()(const kernels::ClampVariant&) const {
    return model::ClampProgram{rows_of(drawn.far_q, size, dtype, layout),
                               rows_of(drawn.far_k, size, dtype, layout), drawn.limits};
  }
  Variant operator()(const kernels::TapaVariant& tapa) const {
    return model::TapaProgram{.content_dim = tapa.content_dim,
                              .scale_content = static_cast<double>(tapa.scale_content),
                              .scale_phase = static_cast<double>(tapa.scale_phase),
                              .linear_phase = tapa.phase == kernels::TapaPhase::linear,
                              .power = tensor_of(drawn.table, {tapa.power_length})};
  }
  Variant operator()(const kernels::TapeVariant&) const {
    return model::TapeProgram{rows_of(drawn.state, size, dtype, Layout::contiguous)};
  }
  Variant operator()(const kernels::FireVariant& fire) const {
    model::FireProgram program{.distance = tensor_of(drawn.table, {fire.length}),
                               .factor = tensor_of(drawn.factor, {size.n}),
                               .knots = tensor_of(drawn.knots, {fire.segments - 1}),
                               .slope = tensor_of(drawn.slope, {size.heads, fire.segments}),
                               .intercept = tensor_of(drawn.intercept, {size.heads, fire.segments}),
                               .term = {}};
    program.term = term_of(program);
    return program;
  }
  // Over a table alone.
  Variant operator()(const kernels::CapeVariant& cape) const {
    return model::CapeProgram{.values = tensor_of(drawn.table, {size.heads, cape.length}),
                              .w1 = tensor_of(drawn.w1, {cape.hidden, 2 * size.heads}),
                              .b1 = tensor_of(drawn.b1, {cape.hidden}),
                              .w2 = tensor_of(drawn.w2, {size.heads, cape.hidden}),
                              .b2 = tensor_of(drawn.b2, {size.heads})};
  }
};

// What a problem has beside its variant.
void add_sides(const RandomInputs& drawn, const ProgramOf& as, AttentionProgram& program) {
  const std::int64_t heads = as.size.heads, n = as.size.n;
  if (!drawn.sinks.empty()) program.sinks = tensor_of(drawn.sinks, {heads});
  if (!drawn.gate.empty()) program.gate = rows_of(drawn.gate, as.size, as.dtype, as.layout);
  const auto by_token = [&](const auto& values) {
    return values.empty() ? Tensor() : tensor_of(values, {1, heads, n});
  };
  program.tokens = {by_token(drawn.query_bias), by_token(drawn.key_bias),
                    by_token(drawn.query_factor)};
}

// What a program adds to the scores of all pairs, (1, H, N, N) float32, -inf above the diagonal:
// the scores of queries and keys of 0.
Tensor added_scores(const KernelProblem& problem) {
  const auto [heads, n, d] = problem.size;
  AttentionProgram program = problem.program;
  program.q = program.k = at::zeros({1}, at::kFloat).expand({1, heads, n, d});
  constexpr std::int64_t kRows = 64;  // at once: a term makes many arrays
  Tensor bias = at::empty({1, heads, n, n}, at::kFloat);
  for (std::int64_t row = 0; row < n; row += kRows) {
    const std::int64_t end = std::min(row + kRows, n);
    bias.slice(2, row, end).copy_(model::plain_scores(program, {0, heads}, {row, end}, {0, n}));
  }
  return bias;
}

}  // namespace

KernelProblem random_problem(const kernels::problems::Problem& form, const KernelSize& size,
                             at::ScalarType dtype, std::uint64_t seed, Layout layout,
                             const KernelProblem* beside) {
  kernels::problems::Problem asked = form;
  asked.shape = {1, size.heads, size.heads, size.n, size.n, size.d};
  asked.seed = static_cast<std::uint32_t>(seed);
  const RandomInputs drawn(asked);
  KernelProblem problem{.size = size, .program = {}, .v = {}};
  AttentionProgram& program = problem.program;
  if (beside != nullptr) {
    program.q = beside->program.q, program.k = beside->program.k, problem.v = beside->v;
  } else {
    program.q = rows_of(drawn.q, size, dtype, layout);
    program.k = rows_of(drawn.k, size, dtype, layout);
    problem.v = rows_of(drawn.v, size, dtype, layout);
  }
  program.q_plain = program.q, program.k_plain = program.k;
  program.scale = static_cast<double>(drawn.inputs.scale);
  program.positions.length = size.n;
  const ProgramOf as{drawn, size, dtype, layout};
  program.variant = std::visit(as, drawn.inputs.variant);
  add_sides(drawn, as, program);
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

void make_dense_bias(const KernelProblem& problem) {
  if (problem.bias->defined()) return;
  const at::NoGradGuard no_grad;
  *problem.bias = added_scores(problem).to(problem.program.q.options());
}

void make_sink_bias(const KernelProblem& problem) {
  if (problem.bias->defined()) return;
  const at::NoGradGuard no_grad;
  const auto [heads, n, d] = problem.size;
  Tensor bias = at::full({1, heads, n, n + kSinkColumns}, -std::numeric_limits<double>::infinity(),
                         at::kFloat);
  bias.narrow(3, 0, n).copy_(added_scores(problem));
  bias.select(3, n).copy_(problem.program.sinks.view({1, heads, 1}).expand({1, heads, n}));
  *problem.bias = bias.to(problem.program.q.options());
}

}  // namespace phasescope::worker
