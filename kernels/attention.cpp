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

/// Picks the instantiation for a variant: one line each.
struct Forward {
  const AttentionInputs& inputs;
  const ForwardOutputs& outputs;
  bool probes;

  void operator()(const PlainVariant&) const {
    (inputs.tokens.any() ? forward_plain_tokens : forward_plain)(inputs, outputs, probes);
  }
  void operator()(const TableVariant& table) const {
    (table.multiplies      ? forward_table_multiplied
     : inputs.tokens.any() ? forward_table_tokens
                           : forward_table)(inputs, outputs, probes);
  }
  void operator()(const TapaVariant& tapa) const {
    (tapa.phase == TapaPhase::linear ? forward_tapa_linear : forward_tapa)(inputs, outputs, probes);
  }
  void operator()(const TapeVariant&) const { forward_tape(inputs, outputs, probes); }
  void operator()(const CapeVariant&) const { forward_cape(inputs, outputs, probes); }
  void operator()(const FireVariant&) const { forward_fire(inputs, outputs, probes); }
  void operator()(const QueryTableVariant&) const { forward_query_table(inputs, outputs, probes); }
  void operator()(const ClampVariant&) const { forward_clamp(inputs, outputs, probes); }
};

struct Backward {
  const AttentionInputs& inputs;
  const SavedForward& saved;
  const Gradients& gradients;

  void operator()(const PlainVariant&) const {
    (inputs.tokens.any() ? backward_plain_tokens : backward_plain)(inputs, saved, gradients);
  }
  void operator()(const TableVariant& table) const {
    (table.multiplies      ? backward_table_multiplied
     : inputs.tokens.any() ? backward_table_tokens
                           : backward_table)(inputs, saved, gradients);
  }
  void operator()(const TapaVariant& tapa) const {
    (tapa.phase == TapaPhase::linear ? backward_tapa_linear : backward_tapa)(inputs, saved,
                                                                             gradients);
  }
  void operator()(const TapeVariant&) const { backward_tape(inputs, saved, gradients); }
  void operator()(const CapeVariant&) const { backward_cape(inputs, saved, gradients); }
  void operator()(const FireVariant&) const { backward_fire(inputs, saved, gradients); }
  void operator()(const QueryTableVariant&) const {
    backward_query_table(inputs, saved, gradients);
  }
  void operator()(const ClampVariant&) const { backward_clamp(inputs, saved, gradients); }
};

struct ReadRegion {
  const RegionCall& call;

  void operator()(const PlainVariant&) const {
    (call.inputs.tokens.any() ? region_plain_tokens : region_plain)(call);
  }
  void operator()(const TableVariant& table) const {
    (table.multiplies           ? region_table_multiplied
     : call.inputs.tokens.any() ? region_table_tokens
                                : region_table)(call);
  }
  void operator()(const TapaVariant& tapa) const {
    (tapa.phase == TapaPhase::linear ? region_tapa_linear : region_tapa)(call);
  }
  void operator()(const TapeVariant&) const { region_plain(call); }
  void operator()(const CapeVariant&) const { region_cape(call); }
  void operator()(const FireVariant&) const { region_fire(call); }
  void operator()(const QueryTableVariant&) const { region_query_table(call); }
  void operator()(const ClampVariant&) const { region_clamp(call); }
};

bool wants_row_probes(const RowProbes& rows) {
  bool wanted = rows.entropy || rows.max_score || rows.max_key || rows.top1_mass ||
                rows.first_key_weight || rows.mean_distance || rows.sink_weight ||
                wants_top_keys(rows);
  for (const float* window : rows.window_mass) wanted = wanted || window;
  return wanted;
}

}  // namespace

void attention_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs) {
  check_forward(inputs, outputs);
  const bool probes = wants_row_probes(outputs.rows) || wants_buckets(outputs.buckets);
  if (fits_lanes(inputs, outputs)) {
    const LaneInputs lanes(inputs);
    forward_lanes(lanes, lanes.outputs(outputs), probes);
    return;
  }
  std::visit(Forward{inputs, outputs, probes}, inputs.variant);
}

void attention_backward(const AttentionInputs& inputs, const SavedForward& saved,
                        const Gradients& gradients) {
  check_backward(inputs, saved, gradients);
  std::visit(Backward{inputs, saved, gradients}, inputs.variant);
  if (gradients.sinks) backward_sinks(inputs, saved, gradients);
  if (gradients.gate.data) backward_gate(inputs, saved, gradients);
}

void attention_region(const AttentionInputs& inputs, const float* lse, const Region& region,
                      float* scores, float* weights) {
  check_region(inputs, lse, region, weights != nullptr);
  if (!scores && !weights) return;
  const RegionCall call{inputs, lse, region, scores, weights};
  std::visit(ReadRegion{call}, inputs.variant);
}

void attention_map(const AttentionInputs& inputs, const float* lse, const Region& region,
                   const MapOutputs& outputs) {
  check_region(inputs, lse, region, outputs.quantity == MapQuantity::weight);
  check_map(region, outputs);
  const RegionCall call{inputs, lse, region, nullptr, nullptr, &outputs};
  std::visit(ReadRegion{call}, inputs.variant);
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
    const RegionCall call{inputs, nullptr, all, nullptr, nullptr, nullptr, &sums};
    std::visit(ReadRegion{call}, inputs.variant);
  }
}

const char* attention_target() { return target_name(current_target()); }

}  // namespace phasescope::kernels
