#include "analysis/theory/tape_layer_equivariance.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analysis/theory/equality.h"
#include "analysis/theory/general_tape.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/theory/tape_bare_layer.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kTapeLayerEquivarianceBound = 1e-12;

LayerResidual larger(const LayerResidual& a, const LayerResidual& b) {
  return {worst_of(a.x, b.x), worst_of(a.e, b.e)};
}

at::Tensor permutation_of(Random& random, std::int64_t count) {
  const std::vector<std::int64_t> order = random.permutation(count);
  at::Tensor out = at::empty({count}, at::kLong);
  std::copy(order.begin(), order.end(), out.data_ptr<std::int64_t>());
  return out;
}

// Three rotations, three reflections.
std::vector<at::Tensor> six_turns(Random& random, std::int64_t size) {
  std::vector<at::Tensor> turns;
  for (int n = 0; n < 6; ++n) turns.push_back(drawn_orthogonal(random, size, n < 3 ? 1 : -1));
  return turns;
}

CheckResult tape_layer_equivariance_alone(const CheckContext& context) {
  Random random(context.seed);
  const std::vector<std::int64_t> word = returning_word(random, 24);
  const std::vector<at::Tensor> turns = six_turns(random, 6);
  const at::Tensor bent = turns[0] + 0.1 * normal_tensor(random, {6, 6});
  const at::Tensor order = permutation_of(random, 24);
  Parts parts;
  CheckCurve curve = curve_of("float64", {"layer", "largest residual", false, true}, {}, {});
  for (const CircuitLayerCase& layer : circuit_layers(word, at::kDouble)) {
    const std::string name = "layer " + std::to_string(layer.layer);
    LayerResidual turned;
    for (const at::Tensor& turn : turns) turned = larger(turned, turned_layer(layer, turn));
    const double permuted = permuted_layer(layer, order).largest();
    parts.below(name + ", permutation", permuted, kTapeLayerEquivarianceBound);
    parts.below(name + ", six orthogonal matrices", turned.largest(), kTapeLayerEquivarianceBound);
    curve.x.push_back(layer.layer), curve.y.push_back(worst_of(permuted, turned.largest()));
    curve.bound.push_back(kTapeLayerEquivarianceBound);
    // Layers 1 and 3 are linear in e with weights that ignore it: no R can break them.
    if (layer.layer % 2 == 1) continue;
    parts.control(name + ", R not orthogonal", turned_layer(layer, bent).largest(), 1e-3);
  }
  const auto single = circuit_layers(word, at::kFloat);
  double worst32 = 0;
  for (const CircuitLayerCase& layer : single) {
    worst32 = worst_of(worst32, permuted_layer(layer, order).largest());
    worst32 = worst_of(worst32, turned_layer(layer, turns[0].to(at::kFloat)).largest());
  }
  // Sums of some 24 times 6 integers up to some tens, in float32.
  parts.below("float32, all layers", worst32, 1e-3);
  CheckResult result = parts.result(worst32);
  result.samples = 4 * 7;
  result.curves = {std::move(curve)};
  return result;
}

// Every layer of a TAPE model in the general form, on the inputs it has.
CheckResult tape_layer_equivariance_of_model(const CheckContext& context) {
  const std::string missing = general_form_missing(*context.model);
  if (!missing.empty()) return not_measured(Verdict::premise_not_met, missing);
  const GeneralTape tape = general_tape(*in_float64(context.model));
  const GeneralInput input = general_input(*in_float64(context.model), first_ids(context, 48));
  Random random(context.seed);
  const at::Tensor order = permutation_of(random, input.x.size(0));
  const std::vector<at::Tensor> turns = six_turns(random, 2);
  const at::Tensor skew = turns[0] + 0.3 * normal_tensor(random, {2, 2});
  double worst = 0, control = 1e300;
  CheckCurve curve =
      curve_of("float64", {"layer", "largest residual, relative", false, true}, {}, {});
  GeneralState state{input.x, input.e};
  for (std::size_t l = 0; l < tape.layers.size(); ++l) {
    context.progress->throw_if_cancelled();
    const GeneralLayerRun base = run_layer(tape, l, state, input.mask);
    double here = 0;
    const auto off = [&](const GeneralState& moved, const GeneralState& wanted) {
      return worst_of(relative_difference(moved.x, wanted.x),
                      relative_difference(moved.e, wanted.e));
    };
    const GeneralState permuted{state.x.index_select(0, order), state.e.index_select(0, order)};
    const at::Tensor mask = input.mask.index_select(0, order).index_select(1, order);
    here = worst_of(
        here, off(run_layer(tape, l, permuted, mask).after,
                  {base.after.x.index_select(0, order), base.after.e.index_select(0, order)}));
    for (const at::Tensor& turn : turns) {
      here = worst_of(
          here, off(run_layer(tape, l, {state.x, at::matmul(state.e, turn)}, input.mask).after,
                    {base.after.x, at::matmul(base.after.e, turn)}));
    }
    control = std::min(
        control, off(run_layer(tape, l, {state.x, at::matmul(state.e, skew)}, input.mask).after,
                     {base.after.x, at::matmul(base.after.e, skew)}));
    worst = worst_of(worst, here);
    curve.x.push_back(static_cast<double>(l)), curve.y.push_back(here),
        curve.bound.push_back(kTapeLayerEquivarianceBound);
    state = base.after;
  }
  Parts parts;
  parts.below("permutation and six orthogonal matrices, worst layer", worst,
              kTapeLayerEquivarianceBound);
  parts.control("a matrix that is not orthogonal, best layer", control, 1e-9);
  CheckResult result = parts.result();
  result.samples = static_cast<std::int64_t>(tape.layers.size());
  result.curves = {std::move(curve)};
  return result;
}

CheckResult run_tape_layer_equivariance(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  return context.model == nullptr ? tape_layer_equivariance_alone(context)
                                  : tape_layer_equivariance_of_model(context);
}

}  // namespace

double LayerResidual::largest() const { return worst_of(x, e); }

LayerResidual permuted_layer(const CircuitLayerCase& layer, const at::Tensor& permutation,
                             bool permute_mask) {
  const auto moved = [&](const at::Tensor& x) { return x.index_select(0, permutation); };
  const CircuitState base = circuit_layer(layer.layer, layer.input, layer.tokens, layer.mask);
  const at::Tensor mask =
      permute_mask ? moved(layer.mask).index_select(1, permutation) : layer.mask;
  const CircuitState got = circuit_layer(layer.layer, {moved(layer.input.x), moved(layer.input.e)},
                                         moved(layer.tokens), mask);
  return {largest_entry(got.x - moved(base.x)), largest_entry(got.e - moved(base.e))};
}

LayerResidual turned_layer(const CircuitLayerCase& layer, const at::Tensor& turn) {
  const CircuitState base = circuit_layer(layer.layer, layer.input, layer.tokens, layer.mask);
  const CircuitState got = circuit_layer(
      layer.layer, {layer.input.x, at::matmul(layer.input.e, turn)}, layer.tokens, layer.mask);
  return {largest_entry(got.x - base.x), largest_entry(got.e - at::matmul(base.e, turn))};
}

std::vector<CircuitLayerCase> circuit_layers(const std::vector<std::int64_t>& word,
                                             at::ScalarType dtype) {
  const CircuitRun run_tape_layer_equivariance = run_circuit(word, dtype);
  const at::Tensor mask = causal_mask(static_cast<std::int64_t>(word.size()));
  std::vector<CircuitLayerCase> layers;
  for (int l = 1; l <= 4; ++l) {
    layers.push_back({l, run_tape_layer_equivariance.states[static_cast<std::size_t>(l - 1)],
                      run_tape_layer_equivariance.states[0].x, mask});
  }
  return layers;
}

TheoryCheck tape_layer_equivariance() {
  return {
      {.id = "tape.layer_equivariance",
       .statement = "Each layer alone is equivariant under permutations of the tokens and under "
                    "one orthogonal R: f(X, E R) = f(X, E) and g(X, E R) = g(X, E) R.",
       .source = "arXiv 2501.00712, Lemma B.6 and Equations 4 and 5",
       .title = "Each layer alone is equivariant",
       .needs = "nothing, or a TAPE model",
       .rule = "holds where every layer is off by at most 1e-12 in float64, and those that read "
               "e by more under a matrix that is not orthogonal"},
      &run_tape_layer_equivariance,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
