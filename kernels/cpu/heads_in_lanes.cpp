#include "kernels/cpu/heads_in_lanes.h"

#include <algorithm>

#include "kernels/cpu/buckets.h"
#include "kernels/cpu/problem.h"
#include "kernels/cpu/storage.h"

namespace phasescope::kernels {
namespace {

/// Whether some probe of rows goes by keys or distances.
bool asks_for_keys(const RowProbes& rows) {
  const auto& masses = rows.window_mass;
  return rows.max_key || rows.first_key_weight || rows.mean_distance || wants_top_keys(rows) ||
         std::any_of(masses.begin(), masses.end(), [](const float* mass) { return mass; });
}

/// (B, heads, 1, d) as (B, kv_heads, group, d).
template <typename Void>
Tensor4<Void> by_group(Tensor4<Void> tensor, std::int64_t group) {
  tensor.row = tensor.head;
  tensor.head *= group;
  return tensor;
}

}  // namespace

bool fits_lanes(const AttentionInputs& inputs, const ForwardOutputs& outputs) {
  const AttentionShape& s = inputs.shape;
  const bool reads_dots = std::holds_alternative<PlainVariant>(inputs.variant) ||
                          std::holds_alternative<TableVariant>(inputs.variant);
  return s.queries == 1 && s.heads > s.kv_heads && reads_dots && !asks_for_keys(outputs.rows) &&
         !wants_buckets(outputs.buckets);
}

LaneInputs::LaneInputs(const AttentionInputs& from) : AttentionInputs(from), given(from) {
  const AttentionShape& s = given.shape;
  const std::int64_t group = s.heads / s.kv_heads, query = s.query_offset;
  std::int64_t end = s.causal ? query + 1 : s.keys;
  if (s.window > 0) {
    first_key = std::clamp<std::int64_t>(query - s.window + 1, 0, s.keys);
    end = std::min(end, query + s.window);
  }
  shape.heads = s.kv_heads;
  shape.queries = group;
  shape.keys = std::clamp(end, first_key, s.keys) - first_key;
  shape.causal = false;
  shape.query_offset = shape.window = 0;
  q = by_group(q, group);
  gate = by_group(gate, group);
  if (shape.keys > 0) {
    k = skip_numbers(k, first_key * k.row);
    v = skip_numbers(v, first_key * v.row);
  }
  hide_keys();
}

void LaneInputs::hide_keys() {
  query_documents = key_documents = nullptr;
  if (!given.key_mask && !given.key_documents) return;
  real_.assign(static_cast<std::size_t>(shape.batch * shape.keys), 1);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t from = b * given.shape.keys + first_key;
    std::uint8_t* real = real_.data() + b * shape.keys;
    if (given.key_mask) std::copy_n(given.key_mask + from, shape.keys, real);
    for (std::int64_t j = 0; given.key_documents && j < shape.keys; ++j) {
      if (given.key_documents[from + j] != given.query_documents[b]) real[j] = 0;
    }
  }
  key_mask = real_.data();
}

ForwardOutputs LaneInputs::outputs(const ForwardOutputs& outputs) const {
  ForwardOutputs result = outputs;
  result.out = by_group(outputs.out, shape.queries);
  result.ungated = by_group(outputs.ungated, shape.queries);
  return result;
}

}  // namespace phasescope::kernels
