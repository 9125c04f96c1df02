#include "kernels/attention.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/check.h"
#include "kernels/cpu/buckets.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/gates.h"
#include "kernels/cpu/heads_in_lanes.h"
#include "kernels/cpu/problem.h"
#include "kernels/cpu/sinks.h"
#include "kernels/cpu/targets.h"

namespace phasescope::kernels {
namespace {

/// The passes of a score; null where it has none of its own.
struct Passes {
  ForwardEntry* forward;
  BackwardEntry* backward;
  RegionEntry* region;
};
/// In the order of ScoreName.
constexpr Passes kPasses[] = {
#define PHASESCOPE_SCORE(name, score, headers, on_cpu, on_cuda) \
  {PHASESCOPE_PASS(on_cpu, "forward", forward_##name),          \
   PHASESCOPE_PASS(on_cpu, "backward", backward_##name),        \
   PHASESCOPE_PASS(on_cpu, "region", region_##name)},
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE
};

template <class Entry>
Entry* pass_of(const AttentionInputs& inputs, const char* name, Entry* Passes::*pass) {
  const auto score = with_pass(score_of(inputs), &ScoreLine::on_cpu, name);
  if (!score) throw std::logic_error(std::string("scores.inc names no pass ") + name);
  return kPasses[static_cast<std::size_t>(*score)].*pass;
}
void run_region(const RegionCall& call) { pass_of(call.inputs, "region", &Passes::region)(call); }

}  // namespace

void attention_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs) {
  check_forward(inputs, outputs);
  const bool probes = wants_row_probes(outputs.rows) || wants_top_keys(outputs.rows) ||
                      wants_buckets(outputs.buckets);
  if (fits_lanes(inputs, outputs)) {
    const LaneInputs lanes(inputs);
    forward_lanes(lanes, lanes.outputs(outputs), probes);
    return;
  }
  pass_of(inputs, "forward", &Passes::forward)(inputs, outputs, probes);
}

void attention_backward(const AttentionInputs& inputs, const SavedForward& saved,
                        const Gradients& gradients) {
  check_backward(inputs, saved, gradients);
  pass_of(inputs, "backward", &Passes::backward)(inputs, saved, gradients);
  if (gradients.sinks) backward_sinks(inputs, saved, gradients);
  if (gradients.gate.data) backward_gate(inputs, saved, gradients);
}

void attention_region(const AttentionInputs& inputs, const float* lse, const Region& region,
                      float* scores, float* weights) {
  check_region(inputs, lse, region, weights != nullptr);
  if (!scores && !weights) return;
  run_region({inputs, lse, region, scores, weights});
}

void attention_map(const AttentionInputs& inputs, const float* lse, const Region& region,
                   const MapOutputs& outputs) {
  check_region(inputs, lse, region, outputs.quantity == MapQuantity::weight);
  check_map(region, outputs);
  run_region({inputs, lse, region, nullptr, nullptr, &outputs});
}

void attention_score_sums(const AttentionInputs& inputs, const ScoreSums& sums) {
  check_sums(inputs, sums);
  const AttentionShape& s = inputs.shape;
  const auto clear = [&s](auto* to, std::int64_t count) {
    if (to) std::fill_n(to, s.batch * s.heads * count, 0);
  };
  clear(sums.row, s.queries), clear(sums.pairs, s.queries), clear(sums.column, s.keys);
  clear(sums.distance, sums.length), clear(sums.square, 1);
  if (s.queries == 0 || s.keys == 0) return;
  for (std::int64_t batch = 0; batch < s.batch; ++batch) {
    const Region all{batch, 0, s.heads, 0, s.queries, 0, s.keys};
    run_region({inputs, nullptr, all, nullptr, nullptr, nullptr, &sums});
  }
}

const char* attention_target() { return target_name(current_target()); }

}  // namespace phasescope::kernels
