#include "analysis/theory/tapa_phi_zero.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "analysis/random.h"
#include "analysis/theory/equality.h"
#include "model/encoding.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kTapaPhiZeroPairs = 200;

std::int64_t amplitude_size(const model::ModelConfig& config) {
  const double split = config.encoding.options.value("split", 0.5);
  return std::llround(split * static_cast<double>(config.head_dim));
}

bool is_linear(const model::ModelConfig& config) {
  return config.encoding.options.value("phase", "quadratic") == std::string("linear");
}

// The same sizes and options of the encoding with one head.
model::ModelConfig one_head(const model::ModelConfig& like) {
  model::ModelConfig config;
  config.heads = config.kv_heads = 1;
  config.width = config.head_dim = like.head_dim;
  config.encoding = like.encoding;
  config.encoding.options.erase("phase_gain");
  config.encoding.options.erase("phase_norm");
  return config;
}

at::Tensor normal_rows(Random& random, std::int64_t rows, std::int64_t columns) {
  at::Tensor out = at::empty({rows, columns}, at::kDouble);
  for (std::int64_t n = 0; n < rows * columns; ++n) out.data_ptr<double>()[n] = random.normal();
  return out;
}

at::Tensor places(Random& random, std::int64_t count, std::int64_t below) {
  at::Tensor out = at::empty({count}, at::kLong);
  for (std::int64_t n = 0; n < count; ++n) out.data_ptr<std::int64_t>()[n] = random.below(below);
  return out;
}

CheckResult run_tapa_phi_zero(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  model::ModelConfig config;
  config.encoding = {"tapa", model::Json::object()};
  config.head_dim = 16;
  if (context.model != nullptr) {
    if (context.model->config().encoding.key != "tapa") {
      return not_measured(Verdict::premise_not_met,
                          "premise: scores of an amplitude times the cosine of a phase; this model "
                          "has none");
    }
    config = context.model->config();
  }
  config = one_head(config);
  Random random(context.seed);
  const at::Tensor q = normal_rows(random, kTapaPhiZeroPairs, config.head_dim),
                   k = normal_rows(random, kTapaPhiZeroPairs, config.head_dim);
  const at::Tensor i = places(random, kTapaPhiZeroPairs, 5000),
                   j = places(random, kTapaPhiZeroPairs, 5000);
  return judge_phi_zero(config, q, k, at::maximum(i, j), at::minimum(i, j), without_phase);
}

}  // namespace

at::Tensor tapa_scores(const model::ModelConfig& config, const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& i, const at::Tensor& j) {
  const auto encoding = model::make_encoding(config);
  const std::int64_t count = i.size(0);
  // Tokens 0.. hold the queries at positions i, the next ones the keys at positions j.
  model::PositionState state;
  state.positions.length = 2 * count;
  state.positions.ids = at::cat({i, j});
  const at::Tensor x = at::cat({q, k}).view({1, 1, 2 * count, -1});
  model::AttentionProgram program = encoding->program({}, x, x, state);
  program.causal = false;
  const model::LayerAttention attention(0, program, x, {}, {}, model::Backend::plain,
                                        model::ran_plain(x));
  const at::Tensor rows = at::arange(count, at::kLong), none = at::zeros({count}, at::kLong);
  return attention.pair_scores({{none, none, rows, rows + count}, at::kCPU}).score;
}

at::Tensor tapa_amplitudes(const model::ModelConfig& config, const at::Tensor& q,
                           const at::Tensor& k) {
  const std::int64_t size = amplitude_size(config);
  return (q.narrow(1, 0, size) * k.narrow(1, 0, size)).sum(1) /
         std::sqrt(static_cast<double>(size));
}

at::Tensor without_phase(const model::ModelConfig& config, const at::Tensor& x) {
  at::Tensor out = x.clone();
  out.slice(1, amplitude_size(config)).zero_();
  return out;
}

CheckResult judge_phi_zero(const model::ModelConfig& config, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& i, const at::Tensor& j,
                           at::Tensor (*zero)(const model::ModelConfig&, const at::Tensor&)) {
  const at::Tensor plain = tapa_amplitudes(config, q, k);
  const auto off = [&](const at::Tensor& scores) {
    return (scores - plain).abs().max().item<double>();
  };
  const at::Tensor qz = zero(config, q), kz = is_linear(config) ? zero(config, k) : k;
  const at::Tensor whole = (q * k).sum(1) / std::sqrt(static_cast<double>(config.head_dim));
  // The kernel sums products in its own order; the cosine of 0 is exactly 1.
  const double rounding =
      4 * static_cast<double>(config.head_dim) * 0x1p-53 * plain.abs().max().item<double>();
  Parts parts;
  parts.below("scores without a phase from q_A.k_A / sqrt(t D)",
              off(tapa_scores(config, qz, kz, i, j)), rounding);
  if (config.encoding.options.value("alpha", 0.1) > 0) {
    parts.below("scores at distance 0, any phase", off(tapa_scores(config, q, k, i, i)), rounding);
  }
  parts.control("with the phase left", off(tapa_scores(config, q, k, i, j)), rounding);
  model::ModelConfig flat = config;
  flat.encoding.options["alpha"] = 0.0;
  parts.control("with alpha = 0 in place of the phase", off(tapa_scores(flat, q, k, i, j)),
                rounding);
  parts.report("amplitude from q.k / sqrt D of the whole head", off(whole));
  CheckResult result = parts.result();
  result.samples = q.size(0);
  result.curves = {
      curve_of("scores less amplitudes",
               {"without a phase; phase left; alpha = 0", "largest", false, false}, {0, 1, 2},
               {off(tapa_scores(config, qz, kz, i, j)), off(tapa_scores(config, q, k, i, j)),
                off(tapa_scores(flat, q, k, i, j))})};
  return result;
}

TheoryCheck tapa_phi_zero() {
  return {{.id = "tapa.phi_zero",
           .statement = "With q_P = 0 (for the linear phase k_P = 0 too) the score is q_A.k_A / "
                        "sqrt(t D): plain attention of the amplitude part, not of the whole head.",
           .source = "arXiv 2509.12635, after Definition 3.1",
           .title = "Without a phase TAPA is plain attention",
           .needs = "nothing; of a model TAPA",
           .rule = "holds where the scores differ from the amplitudes by no more than the order of "
                   "their sums does, in float64, and by more with the phase left or alpha = 0"},
          &run_tapa_phi_zero,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
