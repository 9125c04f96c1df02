#include "kernels/attention.h"

#include <algorithm>

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

/// The three passes of a variant's score.
struct Passes {
  ForwardEntry* forward;
  BackwardEntry* backward;
  RegionEntry* region;
};
#define PHASESCOPE_PASSES(name) \
  Passes { forward_##name, backward_##name, region_##name }

/// Picks them: one line each.
struct PassesOf {
  bool tokens;  ///< whether numbers of tokens stand around the scores

  Passes operator()(const PlainVariant&) const {
    return tokens ? PHASESCOPE_PASSES(plain_tokens) : PHASESCOPE_PASSES(plain);
  }
  Passes operator()(const TableVariant& table) const {
    if (table.multiplies) return PHASESCOPE_PASSES(table_multiplied);
    return tokens ? PHASESCOPE_PASSES(table_tokens) : PHASESCOPE_PASSES(table);
  }
  Passes operator()(const TapaVariant& tapa) const {
    return tapa.phase == TapaPhase::linear ? PHASESCOPE_PASSES(tapa_linear)
                                           : PHASESCOPE_PASSES(tapa);
  }
  // What TAPE's weights average is no matter of its scores.
  Passes operator()(const TapeVariant&) const {
    return {forward_tape, backward_tape, region_plain};
  }
  Passes operator()(const CapeVariant&) const { return PHASESCOPE_PASSES(cape); }
  Passes operator()(const FireVariant&) const { return PHASESCOPE_PASSES(fire); }
  Passes operator()(const QueryTableVariant&) const { return PHASESCOPE_PASSES(query_table); }
  Passes operator()(const ClampVariant&) const { return PHASESCOPE_PASSES(clamp); }
};
#undef PHASESCOPE_PASSES

Passes passes_of(const AttentionInputs& inputs) {
  return std::visit(PassesOf{inputs.tokens.any()}, inputs.variant);
}

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
  passes_of(inputs).forward(inputs, outputs, probes);
}

void attention_backward(const AttentionInputs& inputs, const SavedForward& saved,
                        const Gradients& gradients) {
  check_backward(inputs, saved, gradients);
  passes_of(inputs).backward(inputs, saved, gradients);
  if (gradients.sinks) backward_sinks(inputs, saved, gradients);
  if (gradients.gate.data) backward_gate(inputs, saved, gradients);
}

void attention_region(const AttentionInputs& inputs, const float* lse, const Region& region,
                      float* scores, float* weights) {
  check_region(inputs, lse, region, weights != nullptr);
  if (!scores && !weights) return;
  passes_of(inputs).region({inputs, lse, region, scores, weights});
}

void attention_map(const AttentionInputs& inputs, const float* lse, const Region& region,
                   const MapOutputs& outputs) {
  check_region(inputs, lse, region, outputs.quantity == MapQuantity::weight);
  check_map(region, outputs);
  passes_of(inputs).region({inputs, lse, region, nullptr, nullptr, &outputs});
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
    passes_of(inputs).region({inputs, nullptr, all, nullptr, nullptr, nullptr, &sums});
  }
}

const char* attention_target() { return target_name(current_target()); }

}  // namespace phasescope::kernels
