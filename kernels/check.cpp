#include "kernels/check.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/cpu/problem.h"

namespace phasescope::kernels {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

/// require(), with the name of what has these limits in front of the sentence.
class Requirements {
 public:
  explicit Requirements(const Limits& of) : limits(of) {}

  void operator()(bool holds, const std::string& sentence) const {
    if (!holds) throw std::invalid_argument(limits.name + sentence);
  }

  const Limits& limits;
};

void check_shape(const AttentionShape& s, const Requirements& require) {
  const Limits& limits = require.limits;
  const std::int64_t most = limits.positions;
  require(s.batch >= 1 && s.heads >= 1 && s.kv_heads >= 1,
          "expected at least one batch entry, head and kv head");
  require(s.heads % s.kv_heads == 0, "expected kv_heads to divide heads but got " +
                                         number(s.kv_heads) + " and " + number(s.heads));
  require(s.queries >= 0 && s.keys >= 0, "expected non-negative numbers of queries and keys");
  require(s.keys <= most, "expected at most " + number(most) +
                              " keys, which the kernels number in float32, but got " +
                              number(s.keys));
  require(
      s.queries <= most && s.query_offset <= most - s.queries && s.query_offset >= s.keys - most,
      "expected queries at most " + number(most) +
          " tokens from every key, which the kernels count in float32, but got " +
          number(s.queries) + " queries from " + number(s.query_offset) + " and " + number(s.keys) +
          " keys");
  require(
      s.head_dim >= 1 && s.head_dim <= limits.channels,
      "expected a head_dim of 1 to " + number(limits.channels) + " but got " + number(s.head_dim));
  require(s.head_dim % limits.channel_step == 0, "expected a head_dim that is a multiple of " +
                                                     number(limits.channel_step) + " but got " +
                                                     number(s.head_dim));
  require(s.value_dim >= 0 && s.value_dim <= limits.channels,
          "expected a value_dim of at most " + number(limits.channels) + " but got " +
              number(s.value_dim));
  require(s.window >= 0 && s.window <= kNoWindow, "expected a window of 0, for none, to " +
                                                      number(kNoWindow) + " tokens but got " +
                                                      number(s.window));
}

/// Largest |lambda| of an unmasked pair, or -1 where there is none; `least` gets the smallest
/// lambda.
std::int64_t largest_distance(const AttentionShape& s, std::int64_t& least) {
  least = 0;
  if (s.queries == 0 || s.keys == 0) return -1;
  const std::int64_t most = s.query_offset + s.queries - 1;
  least = s.query_offset - (s.keys - 1);
  if (s.causal) least = std::max<std::int64_t>(least, 0);
  if (most < least) return -1;
  return std::max(std::abs(most), std::abs(least));
}

struct CheckVariant {
  const AttentionInputs& inputs;
  const Requirements& require;

  void operator()(const PlainVariant&) const {}

  void operator()(const TableVariant& table) const {
    std::int64_t least = 0;
    const std::int64_t most = largest_distance(inputs.shape, least);
    if (most < 0) return;
    require(table.values, "expected a table of biases but its pointer is null");
    require(table.first_distance <= 0,
            "expected first_distance <= 0 but got " + number(table.first_distance));
    const std::int64_t last =
        table.first_distance == 0 ? most : inputs.shape.query_offset + inputs.shape.queries - 1;
    require(last < table.first_distance + table.length,
            "expected a table that reaches distance " + number(last) + " but it has " +
                number(table.length) + " entries from " + number(table.first_distance));
    require(table.first_distance == 0 || least >= table.first_distance,
            "expected a signed table from distance " + number(least) + " but it begins at " +
                number(table.first_distance));
  }

  void operator()(const QueryTableVariant& table) const {
    require(table.length >= 0, "expected a length of the queries' tables of at least 0 but got " +
                                   number(table.length));
    require(table.values || table.length == 0 || inputs.shape.queries == 0,
            "expected the queries' tables but their pointer is null");
  }

  void operator()(const RelativeKeysVariant& relative) const {
    const std::int64_t most = require.limits.channels;
    require(relative.rank >= 1 && relative.rank <= most, "expected relative keys of 1 to " +
                                                             number(most) + " channels but got " +
                                                             number(relative.rank));
    require(relative.length >= 1, "expected a length of the relative keys of at least 1 but got " +
                                      number(relative.length));
    require(
        relative.head_stride == 0 || relative.head_stride == relative.rank * relative.length,
        "expected relative keys that heads share or that lie head by head but got a head_stride "
        "of " +
            number(relative.head_stride));
    require(relative.keys, "expected the relative keys but their pointer is null");
    require(relative.r.data || inputs.shape.queries == 0,
            "expected the queries' vectors for relative keys but their pointer is null");
  }

  void operator()(const ClampVariant& clamp) const {
    require(clamp.limits, "expected the heads' limits of distances but their pointer is null");
    for (std::int64_t h = 0; h < inputs.shape.heads && require.limits.reads_arrays; ++h) {
      require(clamp.limits[h] >= 0,
              "expected limits of distances of at least 0 but got " + number(clamp.limits[h]));
    }
    require((clamp.q.data || inputs.shape.queries == 0) && (clamp.k.data || inputs.shape.keys == 0),
            "expected the far q and k of clamped distances but a pointer is null");
  }

  void operator()(const TapaVariant& tapa) const {
    require(tapa.content_dim >= 1 && tapa.content_dim < inputs.shape.head_dim,
            "expected tapa's content_dim inside head_dim " + number(inputs.shape.head_dim) +
                " but got " + number(tapa.content_dim));
    std::int64_t least = 0;
    const std::int64_t most = largest_distance(inputs.shape, least);
    if (most < 0) return;
    require(tapa.power && most < tapa.power_length, "expected tapa's powers up to distance " +
                                                        number(most) + " but got " +
                                                        number(tapa.power_length) + " entries");
  }

  void operator()(const TapeVariant& tape) const {
    const std::int64_t most = require.limits.channels;
    require(tape.state_dim >= 1 && tape.state_dim <= most,
            "expected a state_dim of 1 to " + number(most) + " but got " + number(tape.state_dim));
    require(tape.state.data || inputs.shape.keys == 0,
            "expected tape's states but their pointer is null");
  }

  void operator()(const CapeVariant& cape) const {
    const Limits& limits = require.limits;
    require(cape.hidden >= 1 && cape.hidden <= limits.cape_units,
            "expected cape's hidden width of 1 to " + number(limits.cape_units) + " but got " +
                number(cape.hidden));
    require(inputs.shape.heads <= limits.cape_heads,
            "expected at most " + number(limits.cape_heads) + " heads with cape but got " +
                number(inputs.shape.heads));
    require(cape.w1 && cape.b1 && cape.w2 && cape.b2,
            "expected cape's four weights but a pointer is null");
    if (cape.form == CapeForm::content) return;
    if (cape.fire) {
      (*this)(*cape.fire);
      require((cape.hidden + inputs.shape.heads) * cape.fire->segments <= limits.cape_pieces,
              "expected at most " + number(limits.cape_pieces) +
                  " numbers of cape's hidden units and heads x fire's segments but got " +
                  number((cape.hidden + inputs.shape.heads) * cape.fire->segments));
      return;
    }
    std::int64_t least = 0;
    const std::int64_t most = largest_distance(inputs.shape, least);
    if (most < 0) return;
    const std::int64_t last = inputs.shape.query_offset + inputs.shape.queries - 1;
    require(cape.values && std::max<std::int64_t>(last, 0) < cape.length,
            "expected cape's table of biases to reach distance " + number(last) + " but it has " +
                number(cape.length) + " entries");
  }

  void operator()(const FireVariant& fire) const {
    require(inputs.shape.causal, "expected a causal mask with fire");
    require(fire.segments >= 1 && fire.slope && fire.intercept,
            "expected fire's slopes and intercepts of at least one segment");
    require(fire.segments <= require.limits.segments,
            "expected at most " + number(require.limits.segments) + " segments of fire but got " +
                number(fire.segments));
    require(fire.segments == 1 || fire.knots, "expected fire's knots but their pointer is null");
    for (std::int64_t n = 0; n + 2 < fire.segments && require.limits.reads_arrays; ++n) {
      require(fire.knots[n] <= fire.knots[n + 1], "expected fire's knots in ascending order");
    }
    std::int64_t least = 0;
    const std::int64_t most = largest_distance(inputs.shape, least);
    if (most < 0) return;
    require(fire.distance && most < fire.length, "expected fire's distances up to " + number(most) +
                                                     " but got " + number(fire.length) +
                                                     " entries");
    require(fire.factor, "expected fire's factors but their pointer is null");
  }
};

/// Whether gradients are those of the variant; none fit every one.
struct GradientsFit {
  const Variant& variant;

  bool operator()(std::monostate) const { return true; }
  template <class Own>
  bool operator()(const Own&) const {
    return std::holds_alternative<typename Own::Of>(variant);
  }
};

/// Whether TokenTerms stand beside the variant.
bool takes_token_terms(const Variant& variant) {
  return with_tokens(std::visit([](const auto& one) { return one.score(); }, variant)).has_value();
}

void check_rows(const RowProbes& rows, const Requirements& require) {
  require(!wants_top_keys(rows) || (rows.top_count >= 1 && rows.top_count <= kMaxTopKeys),
          "expected 1 to " + number(kMaxTopKeys) + " top keys of a row but got " +
              number(rows.top_count));
}

void check_buckets(const BucketProbes& buckets, const Requirements& require) {
  if (buckets.count == 0) return;
  require(buckets.edges && buckets.count > 0, "expected edges for the distance buckets");
  if (!require.limits.reads_arrays) return;
  require(buckets.edges[0] >= 0, "expected bucket edges from 0 up");
  for (std::int64_t b = 0; b < buckets.count; ++b) {
    require(buckets.edges[b] < buckets.edges[b + 1], "expected strictly ascending bucket edges");
  }
}

}  // namespace

void check_inputs(const AttentionInputs& inputs, const Limits& limits) {
  const Requirements require(limits);
  check_shape(inputs.shape, require);
  require(inputs.soft_cap >= 0 && std::isfinite(inputs.soft_cap),
          "expected a finite soft_cap of at least 0");
  const bool empty = inputs.shape.queries == 0 || inputs.shape.keys == 0;
  require(empty || (inputs.q.data && inputs.k.data), "expected q and k but a pointer is null");
  require(empty || !inputs.query_documents == !inputs.key_documents,
          "expected the documents of both queries and keys, or of neither");
  require(
      !inputs.tokens.any() || takes_token_terms(inputs.variant),
      "expected numbers of tokens beside a plain variant, an added table or relative keys alone");
  const std::int64_t gates = inputs.gate.data ? inputs.gate_dim : 1;
  require(gates == 1 || gates == value_dim(inputs.shape),
          "expected a gate of 1 or " + number(value_dim(inputs.shape)) +
              " numbers a row but got a gate_dim of " + number(gates));
  std::visit(CheckVariant{inputs, require}, inputs.variant);
}

void check_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs,
                   const Limits& limits) {
  const Requirements require(limits);
  check_inputs(inputs, limits);
  require(inputs.v.data || inputs.shape.keys == 0, "expected v but its pointer is null");
  require(outputs.out.data || inputs.shape.queries == 0, "expected out but its pointer is null");
  if (std::holds_alternative<TapeVariant>(inputs.variant)) {
    require(outputs.out_state.data || inputs.shape.queries == 0,
            "expected out_state for tape but its pointer is null");
  }
  check_rows(outputs.rows, require);
  check_buckets(outputs.buckets, require);
}

void check_backward(const AttentionInputs& inputs, const SavedForward& saved,
                    const Gradients& gradients, const Limits& limits) {
  const Requirements require(limits);
  check_inputs(inputs, limits);
  const bool no_rows = inputs.shape.queries == 0;
  require(inputs.v.data || inputs.shape.keys == 0, "expected v but its pointer is null");
  require(no_rows || (saved.out.data && saved.lse && saved.d_out.data),
          "expected out, lse and d_out of the forward pass but a pointer is null");
  require(no_rows || gradients.dq.data, "expected dq but its pointer is null");
  require(inputs.shape.keys == 0 || (gradients.dk.data && gradients.dv.data),
          "expected dk and dv but a pointer is null");
  require(!gradients.sinks || inputs.sinks,
          "expected sinks where their gradients are wanted but their pointer is null");
  require(!gradients.gate.data || inputs.gate.data,
          "expected a gate where its gradient is wanted but its pointer is null");
  require(gradients.scores.length >= 0,
          "expected at least 0 distances of the scores' gradients but got " +
              number(gradients.scores.length));
  const TokenGradients& tokens = gradients.tokens;
  require((!tokens.query || inputs.tokens.query) && (!tokens.key || inputs.tokens.key) &&
              (!tokens.factor || inputs.tokens.factor),
          "expected the tokens' numbers whose gradients are wanted but a pointer is null");
  const auto& got = gradients.variant;
  require(std::visit(GradientsFit{inputs.variant}, got),
          "expected the variant's own kind of gradients");
  const auto* relative = std::get_if<RelativeKeysGradients>(&got);
  require(!std::holds_alternative<RelativeKeysVariant>(inputs.variant) || no_rows ||
              (relative && relative->dr.data),
          "expected the gradient of the queries' vectors of relative keys but its pointer is null");
  if (const auto* tape = std::get_if<TapeGradients>(&got)) {
    require(!tape->d_out_state.data || saved.out_state.data || no_rows,
            "expected tape's out_state with its gradient but its pointer is null");
  }
}

void check_region(const AttentionInputs& inputs, const float* lse, const Region& region,
                  bool needs_lse, const Limits& limits) {
  const Requirements require(limits);
  check_inputs(inputs, limits);
  const AttentionShape& s = inputs.shape;
  require(region.batch >= 0 && region.batch < s.batch,
          "expected a batch entry below " + number(s.batch) + " but got " + number(region.batch));
  require(region.head_begin >= 0 && region.head_count >= 0 &&
              region.head_begin + region.head_count <= s.heads,
          "expected heads within 0.." + number(s.heads));
  require(
      region.row_begin >= 0 && region.row_begin <= region.row_end && region.row_end <= s.queries,
      "expected rows within 0.." + number(s.queries));
  require(region.col_begin >= 0 && region.col_begin <= region.col_end && region.col_end <= s.keys,
          "expected columns within 0.." + number(s.keys));
  require(lse || !needs_lse, "expected the forward pass's lse for weights but it is null");
}

void check_sums(const AttentionInputs& inputs, const ScoreSums& sums, const Limits& limits) {
  const Requirements require(limits);
  check_inputs(inputs, limits);
  require(sums.length >= 0,
          "expected at least 0 distances of the scores' sums but got " + number(sums.length));
}

void check_map(const Region& region, const MapOutputs& outputs) {
  const Requirements require(kCpuLimits);
  require(outputs.height >= 1 && outputs.width >= 1,
          "expected a map of at least one cell but got " + number(outputs.height) + " x " +
              number(outputs.width));
  require(region.row_begin < region.row_end && region.col_begin < region.col_end,
          "expected a region of at least one row and column to pool");
}

}  // namespace phasescope::kernels
