#include "analysis/formula.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "formats/formula/terms.h"
#include "model/attention/plain_attention.h"
#include "model/encoding_cost.h"
#include "model/encodings/formula.h"

namespace phasescope::analysis {

namespace {

using formula::Parameter;

constexpr std::int64_t kFormulaTokens = 24;
constexpr std::int64_t kFormulaShift = 1000;  // tokens of the shift
constexpr double kFormulaStep = 1e-6;
// Sums of some tens of float64 terms in another order; angles of 1000 tokens lose three digits.
constexpr double kFormulaSame = 1e-11, kFormulaSameShifted = 1e-8;
// A difference over 2e-6 has half of float64's digits, and a kink may lie within it.
constexpr double kFormulaSameSlope = 1e-5;

model::ModelConfig formula_config(const protocol::FormulaRequest& request, bool recognise) {
  model::ModelConfig config;
  config.layers = 1, config.heads = config.kv_heads = request.heads;
  config.head_dim = request.head_dim, config.width = request.heads * request.head_dim;
  config.encoding = {
      "formula",
      {{"expression", request.expression}, {"layout", request.layout}, {"recognise", recognise}}};
  return config;
}

std::string number_text(double number) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  return {digits, end};
}

std::string start_text(const Parameter& p) {
  using Start = Parameter::Start;
  switch (p.start) {
    case Start::zeros:
      return "zeros";
    case Start::ones:
      return "ones";
    case Start::constant:
      return "constant(" + number_text(p.first) + ")";
    case Start::uniform:
      return "uniform(" + number_text(p.first) + ", " + number_text(p.second) + ")";
    case Start::normal:
      return "normal(" + number_text(p.first) + ")";
    case Start::slopes:
      return "slopes";
  }
  return "";
}

protocol::FormulaParameter told_parameter(const Parameter& p) {
  protocol::FormulaParameter out{p.name, p.shape, p.shared, start_text(p),
                                 p.unit, p.low,   p.high,   1};
  for (const std::int64_t n : p.shape) out.count *= n;
  return out;
}

// A formula on random queries, keys and parameters near their starts.
class FormulaTrial {
 public:
  FormulaTrial(const protocol::FormulaRequest& request, const formula::Formula& formula)
      : known_(model::make_encoding(formula_config(request, true))),
        term_(model::make_encoding(formula_config(request, false))),
        random_(
            at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(request.seed))) {
    q_ = drawn({1, request.heads, kFormulaTokens, request.head_dim});
    k_ = drawn({1, request.heads, kFormulaTokens, request.head_dim});
    for (const bool shared : {false, true}) {
      for (const model::ParameterSpec& spec : model::formula_parameters(formula, shared)) {
        (shared ? shared_ : layer_)[spec.name] = near_start(spec);
      }
    }
  }

  double both_ways() const {
    const at::NoGradGuard no_grad;
    return apart(scores(*known_, 0), scores(*term_, 0));
  }

  double shifted() const {
    const at::NoGradGuard no_grad;
    return std::max(apart(scores(*term_, kFormulaShift), scores(*term_, 0)),
                    apart(scores(*known_, kFormulaShift), scores(*known_, 0)));
  }

  // Slopes of a weighted sum of scores along a random direction of everything.
  double slopes() {
    std::vector<at::Tensor> inputs{q_, k_};
    for (auto* tensors : {&layer_, &shared_}) {
      for (auto& [name, tensor] : *tensors) inputs.push_back(tensor);
    }
    for (at::Tensor& input : inputs) input.set_requires_grad(true);
    const at::Tensor weights = drawn(scores(*known_, 0).sizes().vec());
    const auto sum = [&] { return (scores(*known_, 0) * weights).sum(); };
    sum().backward();
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> steps;
    double along = 0, size = 0;
    for (const at::Tensor& input : inputs) {
      steps.push_back(drawn(input.sizes().vec()));
      if (!input.grad().defined()) continue;
      along += (input.grad() * steps.back()).sum().item<double>();
      size += input.grad().square().sum().item<double>();
    }
    const auto moved = [&](double by) {
      for (std::size_t n = 0; n < inputs.size(); ++n) inputs[n] += by * steps[n];
      const double value = sum().item<double>();
      for (std::size_t n = 0; n < inputs.size(); ++n) inputs[n] -= by * steps[n];
      return value;
    };
    const double difference = (moved(kFormulaStep) - moved(-kFormulaStep)) / (2 * kFormulaStep);
    return std::abs(difference - along) / std::max(std::sqrt(size), 1e-300);
  }

 private:
  at::Tensor drawn(std::vector<std::int64_t> shape) {
    return at::randn(shape, random_, at::TensorOptions(at::kDouble));
  }

  at::Tensor near_start(const model::ParameterSpec& spec) {
    using Init = model::ParameterSpec::Init;
    const at::TensorOptions options(at::kDouble);
    if (spec.start.defined()) {
      return spec.start.to(at::kDouble).expand(spec.shape) *
             (1 + 0.1 * at::rand(spec.shape, random_, options));
    }
    if (spec.init == Init::uniform) {
      return spec.low + (spec.high - spec.low) * at::rand(spec.shape, random_, options);
    }
    const double middle = spec.init == Init::ones ? 1 : 0;
    return middle + 0.3 * drawn(spec.shape);
  }

  at::Tensor scores(const model::Encoding& encoding, std::int64_t shift) const {
    const model::StartContext context{
        {kFormulaTokens, shift, {}}, at::kDouble, at::kDouble, &shared_};
    const model::AttentionProgram program =
        encoding.program(layer_, q_, k_, encoding.start(context));
    const at::Tensor scores =
        model::plain_scores(program, {0, q_.size(1)}, {0, kFormulaTokens}, {0, kFormulaTokens});
    return at::where(at::ones_like(scores).tril() > 0, scores, at::zeros_like(scores));
  }

  static double apart(const at::Tensor& a, const at::Tensor& b) {
    const double largest = b.abs().max().item<double>();
    return (a - b).abs().max().item<double>() / std::max(largest, 1e-300);
  }

  std::unique_ptr<model::Encoding> known_, term_;
  at::Generator random_;
  at::Tensor q_, k_;
  model::Parameters layer_, shared_;
};

protocol::FormulaCheck checked_formula(const protocol::FormulaRequest& request,
                                       const formula::Formula& formula) {
  FormulaTrial trial(request, formula);
  protocol::FormulaCheck out;
  out.both_ways = trial.both_ways(), out.shift = trial.shifted(), out.slopes = trial.slopes();
  // Written so that what is no number fails.
  if (!(out.both_ways <= kFormulaSame)) {
    out.why = "its scores are not those of the term";
  } else if (!(out.slopes <= kFormulaSameSlope)) {
    out.why = "its gradients are not the slopes of its scores";
  } else if (formula.shift_invariant() && !(out.shift <= kFormulaSameShifted)) {
    out.why = "a shift of the positions changes its scores";
  }
  out.verdict = out.why.empty() ? "holds" : "fails";
  return out;
}

}  // namespace

protocol::FormulaResult analyse_formula(const protocol::FormulaRequest& request) {
  const model::ModelConfig config = formula_config(request, true);
  formula::Formula formula =
      formula::read_formula(request.expression, model::formula_sizes(config));
  const formula::Recognised form = formula::recognised(formula);
  protocol::FormulaResult out;
  out.expression = request.expression;
  out.kind = name_of(form.form), out.why = form.why;
  out.fused = form.form != formula::Recognised::Form::term;
  out.shift_invariant = formula.shift_invariant();
  out.warnings = formula.warnings;
  for (const Parameter& p : formula.parameters) out.parameters.push_back(told_parameter(p));
  out.length = request.length;
  const double n = static_cast<double>(request.length);
  const model::CostSizes sizes{n,
                               static_cast<double>(config.width),
                               1,
                               static_cast<double>(request.heads),
                               static_cast<double>(request.heads),
                               static_cast<double>(request.head_dim),
                               n * n,
                               n * (n + 1) / 2};
  for (const model::EncodingCost& part : model::make_encoding(config)->cost(sizes)) {
    out.macs += part.executed_macs, out.flops += part.executed_flops;
  }
  if (request.check) out.check = checked_formula(request, formula);
  return out;
}

}  // namespace phasescope::analysis
