#pragma once
// Attention as the formulas say it, in simple loops: the twin the kernels are held against. As
// Reference<double> it is the truth, as Reference<float> the plain float32 operation whose error
// sets the bound.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/half_types.h"

namespace phasescope::kernels::testing {

/// A tensor (B, heads, count, dim) in these numbers, row after row.
template <typename Real>
class Rows {
 public:
  Rows() = default;
  Rows(const InputTensor& from, std::int64_t batch, std::int64_t heads, std::int64_t count,
       std::int64_t dim)
      : heads_(heads), count_(count), dim_(dim) {
    values_.reserve(static_cast<std::size_t>(batch * heads * count * dim));
    for (std::int64_t r = 0; r < batch * heads * count; ++r) {
      const std::int64_t n = r % count, h = r / count % heads, b = r / count / heads;
      for (std::int64_t d = 0; d < dim; ++d) {
        values_.push_back(Real(element(from, b * from.batch + h * from.head + n * from.row + d)));
      }
    }
  }

  const Real* at(std::int64_t b, std::int64_t h, std::int64_t n) const {
    return values_.data() + ((b * heads_ + h) * count_ + n) * dim_;
  }
  Real* at(std::int64_t b, std::int64_t h, std::int64_t n) {
    return values_.data() + ((b * heads_ + h) * count_ + n) * dim_;
  }
  std::int64_t dim() const { return dim_; }
  template <class Each>
  void for_each(const Each& each) {
    for (Real& x : values_) each(x);
  }

 private:
  static float element(const InputTensor& t, std::int64_t place) {
    if (t.storage == Storage::float32) return static_cast<const float*>(t.data)[place];
    return half_type(t.storage).from(static_cast<const std::uint16_t*>(t.data)[place]);
  }

  std::int64_t heads_ = 0, count_ = 0, dim_ = 0;
  std::vector<Real> values_;
};

template <typename Real>
struct Reference {
  explicit Reference(const AttentionInputs& inputs)
      : in(inputs),
        s(inputs.shape),
        q(inputs.q, s.batch, s.heads, s.queries, s.head_dim),
        k(inputs.k, s.batch, s.kv_heads, s.keys, s.head_dim),
        v(inputs.v, s.batch, s.kv_heads, s.keys, values()) {
    if (const auto* clamp = std::get_if<ClampVariant>(&in.variant)) {
      far_q = Rows<Real>(clamp->q, s.batch, s.heads, s.queries, s.head_dim);
      far_k = Rows<Real>(clamp->k, s.batch, s.kv_heads, s.keys, s.head_dim);
    }
    if (const auto* relative = std::get_if<RelativeKeysVariant>(&in.variant)) {
      far_q = Rows<Real>(relative->r, s.batch, s.heads, s.queries, relative->rank);
    }
    pairs = s.queries * s.keys;
    score.assign(static_cast<std::size_t>(s.batch * s.heads * pairs), 0);
    weight = score;
    for (std::int64_t b = 0; b < s.batch; ++b) fill_scores(b);
    normalise();
    out = average(v);
    if (const auto* tape = std::get_if<TapeVariant>(&in.variant)) {
      state = Rows<Real>(tape->state, s.batch, s.kv_heads, s.keys, tape->state_dim);
      out_state = average(state);
    }
    if (!in.gate.data) return;
    gate = Rows<Real>(in.gate, s.batch, s.heads, s.queries, in.gate_dim);
    ungated = out;
    apply_gate();
  }

  // ---- Forward ----

  std::int64_t values() const { return s.value_dim ? s.value_dim : s.head_dim; }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return ((b * s.heads + h) * s.queries + i) * s.keys + j;
  }
  std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return (b * s.heads + h) * s.queries + i;
  }
  bool visible(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (in.key_mask && !in.key_mask[b * s.keys + j]) return false;
    if (in.query_documents &&
        in.query_documents[b * s.queries + i] != in.key_documents[b * s.keys + j]) {
      return false;
    }
    if (s.window > 0 && std::abs(distance(i, j)) >= s.window) return false;
    return !s.causal || j <= i + s.query_offset;
  }
  std::int64_t distance(std::int64_t i, std::int64_t j) const { return i + s.query_offset - j; }
  std::int64_t kv(std::int64_t h) const { return h / (s.heads / s.kv_heads); }

  Real dot(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t from,
           std::int64_t to) const {
    const Real *query = q.at(b, h, i), *key = k.at(b, kv(h), j);
    Real sum = 0;
    for (std::int64_t d = from; d < to; ++d) sum += query[d] * key[d];
    return sum;
  }

  /// Whether a pair of clamped distances has the far q and k.
  bool is_far(std::int64_t h, std::int64_t i, std::int64_t j) const {
    const auto* clamp = std::get_if<ClampVariant>(&in.variant);
    return clamp && distance(i, j) > clamp->limits[h];
  }
  Real far_dot(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const Real *query = far_q.at(b, h, i), *key = far_k.at(b, kv(h), j);
    Real sum = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) sum += query[d] * key[d];
    return sum;
  }

  /// What of a row's output the gate leaves.
  Real gate_of(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) const {
    return gate.at(b, h, i)[in.gate_dim == 1 ? 0 : d];
  }
  void apply_gate() {
    const std::int64_t dim = values();
    for (std::int64_t n = 0; n < s.batch * s.heads * s.queries; ++n) {
      const std::int64_t i = n % s.queries, h = n / s.queries % s.heads,
                         b = n / s.queries / s.heads;
      for (std::int64_t d = 0; d < dim; ++d) {
        const auto to = static_cast<std::size_t>(n * dim + d);
        out[to] = ungated[to] * gate_of(b, h, i, d);
      }
    }
  }

  /// The score before the variant's term, correction and cap.
  Real content(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (const auto* tapa = std::get_if<TapaVariant>(&in.variant)) {
      return Real(tapa->scale_content) * dot(b, h, i, j, 0, tapa->content_dim);
    }
    return Real(in.scale) * dot(b, h, i, j, 0, s.head_dim);
  }

  /// TAPA's phase (before the power of the distance).
  Real phase(const TapaVariant& t, std::int64_t b, std::int64_t h, std::int64_t i,
             std::int64_t j) const {
    if (t.phase == TapaPhase::quadratic) {
      return Real(t.scale_phase) * dot(b, h, i, j, t.content_dim, s.head_dim);
    }
    const Real *query = q.at(b, h, i), *key = k.at(b, kv(h), j);
    Real sum = 0;
    for (std::int64_t d = t.content_dim; d < s.head_dim; ++d) sum += query[d] + key[d];
    return Real(t.scale_phase) * sum;
  }

  static std::int64_t table_entry(const TableVariant& t, std::int64_t lambda) {
    return t.first_distance == 0 ? std::abs(lambda) : lambda - t.first_distance;
  }

  static float table_value(const TableVariant& t, std::int64_t h, std::int64_t lambda) {
    return t.values[h * t.head_stride + table_entry(t, lambda)];
  }

  /// Where a pair's entry of its query's own table is; -1 where it has none.
  std::int64_t query_entry(const QueryTableVariant& t, std::int64_t b, std::int64_t h,
                           std::int64_t i, std::int64_t j) const {
    const std::int64_t lambda = distance(i, j);
    return lambda < 0 || lambda >= t.length ? -1 : row(b, h, i) * t.length + lambda;
  }

  /// Where the first channel of a pair's relative key is; -1 where it has none.
  std::int64_t relative_key(const RelativeKeysVariant& t, std::int64_t h, std::int64_t i,
                            std::int64_t j) const {
    std::int64_t n = distance(i, j) - t.first_distance;
    if (t.clips) n = std::clamp<std::int64_t>(n, 0, t.length - 1);
    return n < 0 || n >= t.length ? -1 : h * t.head_stride + n;
  }
  Real relative_dot(const RelativeKeysVariant& t, std::int64_t b, std::int64_t h, std::int64_t i,
                    std::int64_t j) const {
    const std::int64_t key = relative_key(t, h, i, j);
    Real sum = 0;
    for (std::int64_t d = 0; d < t.rank && key >= 0; ++d) {
      sum += far_q.at(b, h, i)[d] * Real(t.keys[key + d * t.length]);
    }
    return sum;
  }

  /// The number of FIRE's knots below u.
  static std::int64_t segment(const FireVariant& fire, Real u) {
    std::int64_t n = 0;
    while (n + 1 < fire.segments && Real(fire.knots[n]) < u) ++n;
    return n;
  }

  /// What FIRE adds to a pair's score.
  Real fire_bias(const FireVariant& fire, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const Real u = Real(fire.distance[distance(i, j)]) * Real(fire.factor[i]);
    const std::int64_t piece = h * fire.head_stride + segment(fire, u);
    return Real(fire.slope[piece]) * u + Real(fire.intercept[piece]);
  }

  /// Inputs of CAPE's network for one pair.
  std::vector<Real> cape_input(const CapeVariant& c, std::int64_t b, std::int64_t i, std::int64_t j,
                               std::vector<Real>& content, std::vector<Real>& bias) const {
    const std::int64_t lambda = std::max<std::int64_t>(distance(i, j), 0);
    content.clear();
    bias.clear();
    for (std::int64_t h = 0; h < s.heads; ++h) {
      content.push_back(Real(in.scale) * dot(b, h, i, j, 0, s.head_dim));
      if (c.form == CapeForm::content) {
        bias.push_back(0);
      } else {
        bias.push_back(c.fire ? fire_bias(*c.fire, h, i, j)
                              : Real(c.values[h * c.head_stride + lambda]));
      }
    }
    std::vector<Real> x = content;
    if (c.form == CapeForm::add_residual) {
      for (std::size_t h = 0; h < x.size(); ++h) x[h] += bias[h];
    } else if (c.form != CapeForm::content) {
      x.insert(x.end(), bias.begin(), bias.end());
    }
    return x;
  }
  static bool adds_bias(const CapeVariant& c) {
    return c.form == CapeForm::concat_residual || c.form == CapeForm::add_residual;
  }
  /// Hidden values before the leaky rectifier.
  std::vector<Real> cape_hidden(const CapeVariant& c, const std::vector<Real>& x) const {
    std::vector<Real> u;
    for (std::int64_t d = 0; d < c.hidden; ++d) {
      Real sum = Real(c.b1[d]);
      for (std::size_t n = 0; n < x.size(); ++n) {
        sum += Real(c.w1[static_cast<std::size_t>(d) * x.size() + n]) * x[n];
      }
      u.push_back(sum);
    }
    return u;
  }
  static Real leaky(Real x) { return x > 0 ? x : Real(0.01) * x; }

  Real token_bias(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const TokenTerms& t = in.tokens;
    return Real((t.query ? t.query[row(b, h, i)] : 0) +
                (t.key ? t.key[(b * s.heads + h) * s.keys + j] : 0));
  }
  Real token_factor(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return in.tokens.factor ? Real(in.tokens.factor[row(b, h, i)]) : Real(1);
  }

  void fill_scores(std::int64_t b) {
    for (std::int64_t i = 0; i < s.queries; ++i) {
      for (std::int64_t j = 0; j < s.keys; ++j) fill_pair(b, i, j);
    }
  }

  void fill_pair(std::int64_t b, std::int64_t i, std::int64_t j) {
    const Real none = -std::numeric_limits<Real>::infinity();
    std::vector<Real> corrected;
    const auto* cape = std::get_if<CapeVariant>(&in.variant);
    if (cape && visible(b, i, j)) corrected = cape_scores(*cape, b, i, j);
    for (std::int64_t h = 0; h < s.heads; ++h) {
      Real& to = score[static_cast<std::size_t>(at(b, h, i, j))];
      if (!visible(b, i, j)) {
        to = none;
      } else if (cape) {
        to = corrected[static_cast<std::size_t>(h)];
      } else if (const auto* tapa = std::get_if<TapaVariant>(&in.variant)) {
        const Real power = Real(tapa->power[std::abs(distance(i, j))]);
        to = Real(tapa->scale_content) * dot(b, h, i, j, 0, tapa->content_dim) *
             std::cos(power * phase(*tapa, b, h, i, j));
      } else {
        to = Real(in.scale) *
             (is_far(h, i, j) ? far_dot(b, h, i, j) : dot(b, h, i, j, 0, s.head_dim));
        if (const auto* table = std::get_if<TableVariant>(&in.variant)) {
          const Real entry = Real(table_value(*table, h, distance(i, j)));
          to = table->multiplies ? to * entry : to + entry;
        } else if (const auto* fire = std::get_if<FireVariant>(&in.variant)) {
          to += fire_bias(*fire, h, i, j);
        } else if (const auto* own = std::get_if<QueryTableVariant>(&in.variant)) {
          const std::int64_t entry = query_entry(*own, b, h, i, j);
          if (entry >= 0) to += Real(own->values[entry]);
        } else if (const auto* relative = std::get_if<RelativeKeysVariant>(&in.variant)) {
          to += relative_dot(*relative, b, h, i, j);
        }
      }
      if (in.tokens.any() && visible(b, i, j)) {
        to = token_factor(b, h, i) * (to + token_bias(b, h, i, j));
      }
      if (in.soft_cap > 0 && visible(b, i, j)) {
        to = Real(in.soft_cap) * std::tanh(to / Real(in.soft_cap));
      }
    }
  }

  std::vector<Real> cape_scores(const CapeVariant& c, std::int64_t b, std::int64_t i,
                                std::int64_t j) const {
    std::vector<Real> content, bias;
    const std::vector<Real> u = cape_hidden(c, cape_input(c, b, i, j, content, bias));
    std::vector<Real> scores;
    for (std::int64_t h = 0; h < s.heads; ++h) {
      Real sum = Real(c.b2[h]);
      for (std::int64_t d = 0; d < c.hidden; ++d) {
        sum += Real(c.w2[h * c.hidden + d]) * leaky(u[static_cast<std::size_t>(d)]);
      }
      const auto n = static_cast<std::size_t>(h);
      scores.push_back(content[n] + (adds_bias(c) ? bias[n] : Real(0)) + sum);
    }
    return scores;
  }

  void normalise() {
    const Real none = -std::numeric_limits<Real>::infinity();
    for (std::int64_t r = 0; r < s.batch * s.heads * s.queries; ++r) {
      const Real* from = score.data() + r * s.keys;
      Real* to = weight.data() + r * s.keys;
      if (in.sinks) {
        normalise_with_sink(from, to, Real(in.sinks[r / s.queries % s.heads]));
        continue;
      }
      Real best = none, sum = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) best = std::max(best, from[j]);
      for (std::int64_t j = 0; j < s.keys && best > none; ++j) {
        to[j] = std::exp(from[j] - best);
        sum += to[j];
      }
      for (std::int64_t j = 0; j < s.keys && best > none; ++j) to[j] /= sum;
      lse.push_back(best > none ? best + std::log(sum) : none);
    }
  }

  /// Softmax over one more column, whose weight nothing reads; the log-sum-exp without it.
  void normalise_with_sink(const Real* from, Real* to, Real sink) {
    const Real none = -std::numeric_limits<Real>::infinity();
    Real best = none, sum = 0, total = 0;
    for (std::int64_t j = 0; j < s.keys; ++j) best = std::max(best, from[j]);
    for (std::int64_t j = 0; j < s.keys && best > none; ++j) sum += std::exp(from[j] - best);
    lse.push_back(best > none ? best + std::log(sum) : none);
    const Real top = std::max(best, sink);
    if (top == none) {
      sink_weight.push_back(0);
      return;
    }
    for (std::int64_t j = 0; j < s.keys; ++j) total += to[j] = std::exp(from[j] - top);
    const Real own = std::exp(sink - top);
    for (std::int64_t j = 0; j < s.keys; ++j) to[j] /= total + own;
    sink_weight.push_back(own / (total + own));
  }

  /// (B, heads, queries, dim): weights times a value stream.
  std::vector<Real> average(const Rows<Real>& stream) const {
    const std::int64_t dim = stream.dim();
    std::vector<Real> result(static_cast<std::size_t>(s.batch * s.heads * s.queries * dim));
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t i = 0; i < s.queries; ++i) {
          Real* const sum = result.data() + row(b, h, i) * dim;
          for (std::int64_t j = 0; j < s.keys; ++j) {
            const Real p = weight[static_cast<std::size_t>(at(b, h, i, j))];
            if (p == 0) continue;
            const Real* const value = stream.at(b, kv(h), j);
            for (std::int64_t d = 0; d < dim; ++d) sum[d] += p * value[d];
          }
        }
      }
    }
    return result;
  }

  // ---- Backward ----

  /// All gradients for the given d_out (and d_out_state, may have no data).
  void backward(const InputTensor& d_out, const InputTensor& d_out_state) {
    clear_gradients();
    Rows<Real> d_values = of_queries(d_out, values());
    if (gate.dim() > 0) gate_gradients(d_values);
    const Rows<Real> d_states = of_queries(d_out_state, state.dim());
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t i = 0; i < s.queries; ++i) backward_row(b, i, d_values, d_states);
    }
  }

  /// Of the gates; d_values become those of what they multiply.
  void gate_gradients(Rows<Real>& d_values) {
    for (std::int64_t n = 0; n < s.batch * s.heads * s.queries; ++n) {
      const std::int64_t i = n % s.queries, h = n / s.queries % s.heads,
                         b = n / s.queries / s.heads;
      for (std::int64_t d = 0; d < values(); ++d) {
        Real& given = d_values.at(b, h, i)[d];
        const auto to = static_cast<std::size_t>(n * in.gate_dim + (in.gate_dim == 1 ? 0 : d));
        d_gate[to] += given * ungated[static_cast<std::size_t>(n * values() + d)];
        given *= gate_of(b, h, i, d);
      }
    }
  }

  /// (B, heads, queries, dim); of a tensor without data empty.
  Rows<Real> of_queries(const InputTensor& from, std::int64_t dim) const {
    return from.data ? Rows<Real>(from, s.batch, s.heads, s.queries, dim) : Rows<Real>();
  }

  void clear_gradients() {
    const auto sized = [](std::int64_t n) {
      return std::vector<Real>(static_cast<std::size_t>(n));
    };
    dq = sized(s.batch * s.heads * s.queries * s.head_dim);
    dk = sized(s.batch * s.kv_heads * s.keys * s.head_dim);
    dv = sized(s.batch * s.kv_heads * s.keys * values());
    if (in.sinks) d_sinks = sized(s.heads);
    d_gate = sized(in.gate.data ? s.batch * s.heads * s.queries * in.gate_dim : 0);
    d_scores = std::vector<Real>(score.size());
    d_far_q = sized(s.batch * s.heads * s.queries * far_q.dim());
    d_far_k = sized(far_k.dim() > 0 ? s.batch * s.kv_heads * s.keys * s.head_dim : 0);
    d_query_bias = sized(in.tokens.query ? s.batch * s.heads * s.queries : 0);
    d_key_bias = sized(in.tokens.key ? s.batch * s.heads * s.keys : 0);
    d_query_factor = sized(in.tokens.factor ? s.batch * s.heads * s.queries : 0);
    if (const auto* t = std::get_if<TableVariant>(&in.variant)) {
      d_table = sized(s.heads * t->length);
    }
    if (const auto* t = std::get_if<QueryTableVariant>(&in.variant)) {
      d_table = sized(s.batch * s.heads * s.queries * t->length);
    }
    if (const auto* t = std::get_if<RelativeKeysVariant>(&in.variant)) d_table = sized(t->size(s));
    if (const auto* t = std::get_if<TapeVariant>(&in.variant)) {
      d_state = sized(s.batch * s.kv_heads * s.keys * t->state_dim);
    }
    const auto size_fire = [&](const FireVariant& fire) {
      d_table = sized(fire.length);
      d_factor = sized(s.queries);
      d_slope = d_intercept = sized(s.heads * fire.segments);
    };
    if (const auto* fire = std::get_if<FireVariant>(&in.variant)) size_fire(*fire);
    if (const auto* c = std::get_if<CapeVariant>(&in.variant)) {
      d_table = sized(s.heads * c->length);
      if (c->fire) size_fire(*c->fire);
      d_w1 = sized(c->hidden * cape_width(*c));
      d_b1 = sized(c->hidden);
      d_w2 = sized(s.heads * c->hidden);
      d_b2 = sized(s.heads);
    }
  }

  std::int64_t cape_width(const CapeVariant& c) const {
    return c.form == CapeForm::concat_residual || c.form == CapeForm::concat ? 2 * s.heads
                                                                             : s.heads;
  }

  void backward_row(std::int64_t b, std::int64_t i, const Rows<Real>& d_out,
                    const Rows<Real>& d_out_state) {
    std::vector<Real> d_score(static_cast<std::size_t>(s.heads * s.keys));
    for (std::int64_t h = 0; h < s.heads; ++h) {
      Real* ds = d_score.data() + h * s.keys;
      const Real* p = weight.data() + at(b, h, i, 0);
      Real mean = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        if (p[j] == 0) continue;
        ds[j] = value_gradient(b, h, i, j, p[j], d_out, v, dv);
        if (d_out_state.dim() > 0) {
          ds[j] += value_gradient(b, h, i, j, p[j], d_out_state, state, d_state);
        }
        mean += p[j] * ds[j];
      }
      // The sink's value is 0.
      if (in.sinks) {
        d_sinks[static_cast<std::size_t>(h)] -=
            sink_weight[static_cast<std::size_t>(row(b, h, i))] * mean;
      }
      for (std::int64_t j = 0; j < s.keys; ++j) {
        const auto pair = static_cast<std::size_t>(at(b, h, i, j));
        d_scores[pair] = p[j] == 0 ? Real(0) : p[j] * (ds[j] - mean);
        ds[j] = p[j] == 0 ? Real(0) : d_scores[pair] * cap_slope(at(b, h, i, j));
      }
    }
    for (std::int64_t j = 0; j < s.keys; ++j) {
      if (visible(b, i, j)) pair_gradient(b, i, j, d_score);
    }
  }

  /// d of the capped score by the score before.
  Real cap_slope(std::int64_t pair) const {
    if (in.soft_cap == 0) return 1;
    const Real tangent = score[static_cast<std::size_t>(pair)] / Real(in.soft_cap);
    return 1 - tangent * tangent;
  }

  Real value_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, Real p,
                      const Rows<Real>& d_out, const Rows<Real>& stream,
                      std::vector<Real>& d_stream) {
    const std::int64_t dim = stream.dim();
    const Real *g = d_out.at(b, h, i), *value = stream.at(b, kv(h), j);
    Real* const to = d_stream.data() + ((b * s.kv_heads + kv(h)) * s.keys + j) * dim;
    Real dp = 0;
    for (std::int64_t d = 0; d < dim; ++d) dp += g[d] * value[d];
    for (std::int64_t d = 0; d < dim; ++d) to[d] += p * g[d];
    return dp;
  }

  /// d dot (channels from .. to) spread to q and k.
  void dot_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j,
                    std::int64_t from, std::int64_t to, Real g) {
    const Real *query = q.at(b, h, i), *key = k.at(b, kv(h), j);
    Real *d_query = &dq_at(b, h, i, 0), *d_key = &dk_at(b, h, j, 0);
    for (std::int64_t d = from; d < to; ++d) d_query[d] += g * key[d];
    for (std::int64_t d = from; d < to; ++d) d_key[d] += g * query[d];
  }
  Real& dq_at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
    return dq[static_cast<std::size_t>(row(b, h, i) * s.head_dim + d)];
  }
  Real& dk_at(std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t d) {
    return dk[static_cast<std::size_t>(((b * s.kv_heads + kv(h)) * s.keys + j) * s.head_dim + d)];
  }

  void pair_gradient(std::int64_t b, std::int64_t i, std::int64_t j,
                     const std::vector<Real>& d_score);

  void far_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, Real g);

  void relative_gradient(const RelativeKeysVariant& t, std::int64_t b, std::int64_t h,
                         std::int64_t i, std::int64_t j, Real g);

  /// Sums of d_scores over the pairs of each head at |distance| 0 .. length - 1: (B, heads,
  /// length).
  std::vector<double> score_gradients(std::int64_t length) const {
    std::vector<double> sums(static_cast<std::size_t>(s.batch * s.heads * length));
    for (std::size_t n = 0; n < d_scores.size(); ++n) {
      const auto pair = static_cast<std::int64_t>(n);
      const std::int64_t j = pair % s.keys, i = pair / s.keys % s.queries, head = pair / pairs;
      const std::int64_t lambda = std::abs(distance(i, j));
      if (lambda >= length) continue;
      sums[static_cast<std::size_t>(head * length + lambda)] += static_cast<double>(d_scores[n]);
    }
    return sums;
  }

  /// From d of a score to d of the variant's own.
  Real token_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, Real g);

  void fire_gradient(const FireVariant& fire, std::int64_t h, std::int64_t i, std::int64_t j,
                     Real g);

  void tapa_gradient(const TapaVariant& t, std::int64_t b, std::int64_t h, std::int64_t i,
                     std::int64_t j, Real g);

  void cape_gradient(const CapeVariant& c, std::int64_t b, std::int64_t i, std::int64_t j,
                     const std::vector<Real>& d_score);

  const AttentionInputs& in;
  const AttentionShape& s;
  Rows<Real> q, k, v, state;  ///< `state` of the tape variant alone
  Rows<Real> far_q, far_k;    ///< of clamped distances; of relative keys far_q is r
  Rows<Real> gate;            ///< of dimension 0 where there is none, as what follows is empty
  std::vector<Real> ungated, d_gate;
  std::vector<Real> d_scores;  ///< like `score`, of the softmax's input
  std::vector<Real> d_far_q, d_far_k;
  std::int64_t pairs = 0;
  std::vector<Real> score, weight;  ///< (B, heads, queries, keys)
  std::vector<Real> out, out_state, lse;
  std::vector<Real> sink_weight, d_sinks;  ///< where there are sinks: (B, heads, queries), (heads)
  std::vector<Real> dq, dk, dv, d_table, d_state, d_w1, d_b1, d_w2, d_b2;
  std::vector<Real> d_factor, d_slope, d_intercept;
  std::vector<Real> d_query_bias, d_key_bias, d_query_factor;  ///< of tokens' numbers
};

}  // namespace phasescope::kernels::testing

#include "tests/kernels/reference_gradients.h"
