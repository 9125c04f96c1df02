#pragma once
// What d of a pair's score gives the tensors that the variants make it of; the end of reference.h.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {

template <typename Real>
void Reference<Real>::pair_gradient(std::int64_t b, std::int64_t i, std::int64_t j,
                                    const std::vector<Real>& d_score) {
  if (const auto* cape = std::get_if<CapeVariant>(&in.variant)) {
    cape_gradient(*cape, b, i, j, d_score);
    return;
  }
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const Real g = token_gradient(b, h, i, j, d_score[static_cast<std::size_t>(h * s.keys + j)]);
    if (const auto* tapa = std::get_if<TapaVariant>(&in.variant)) {
      tapa_gradient(*tapa, b, h, i, j, g);
      continue;
    }
    const auto* table = std::get_if<TableVariant>(&in.variant);
    Real d_content = g;
    if (is_far(h, i, j)) {
      far_gradient(b, h, i, j, g * Real(in.scale));
      continue;
    }
    if (table && table->multiplies) d_content *= Real(table_value(*table, h, distance(i, j)));
    dot_gradient(b, h, i, j, 0, s.head_dim, d_content * Real(in.scale));
    if (table) {
      const Real content = Real(in.scale) * dot(b, h, i, j, 0, s.head_dim);
      d_table[static_cast<std::size_t>(h * table->length + table_entry(*table, distance(i, j)))] +=
          table->multiplies ? g * content : g;
    } else if (const auto* fire = std::get_if<FireVariant>(&in.variant)) {
      fire_gradient(*fire, h, i, j, g);
    } else if (const auto* own = std::get_if<QueryTableVariant>(&in.variant)) {
      const std::int64_t entry = query_entry(*own, b, h, i, j);
      if (entry >= 0) d_table[static_cast<std::size_t>(entry)] += g;
    } else if (const auto* relative = std::get_if<RelativeKeysVariant>(&in.variant)) {
      relative_gradient(*relative, b, h, i, j, g);
    }
  }
}

template <typename Real>
void Reference<Real>::far_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j,
                                   Real g) {
  const std::int64_t dim = s.head_dim;
  const Real *query = far_q.at(b, h, i), *key = far_k.at(b, kv(h), j);
  Real* d_query = d_far_q.data() + row(b, h, i) * dim;
  Real* d_key = d_far_k.data() + ((b * s.kv_heads + kv(h)) * s.keys + j) * dim;
  for (std::int64_t d = 0; d < dim; ++d) d_query[d] += g * key[d];
  for (std::int64_t d = 0; d < dim; ++d) d_key[d] += g * query[d];
}

template <typename Real>
void Reference<Real>::relative_gradient(const RelativeKeysVariant& t, std::int64_t b,
                                        std::int64_t h, std::int64_t i, std::int64_t j, Real g) {
  const std::int64_t key = relative_key(t, h, i, j);
  Real* d_query = d_far_q.data() + row(b, h, i) * t.rank;
  for (std::int64_t d = 0; d < t.rank && key >= 0; ++d) {
    d_query[d] += g * Real(t.keys[key + d * t.length]);
    d_table[static_cast<std::size_t>(key + d * t.length)] += g * far_q.at(b, h, i)[d];
  }
}

template <typename Real>
Real Reference<Real>::token_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j,
                                     Real g) {
  const TokenTerms& t = in.tokens;
  const auto query = static_cast<std::size_t>(row(b, h, i));
  if (t.factor) {
    Real before = Real(in.scale) * dot(b, h, i, j, 0, s.head_dim) + token_bias(b, h, i, j);
    if (const auto* table = std::get_if<TableVariant>(&in.variant)) {
      before += Real(table_value(*table, h, distance(i, j)));
    }
    if (const auto* relative = std::get_if<RelativeKeysVariant>(&in.variant)) {
      before += relative_dot(*relative, b, h, i, j);
    }
    d_query_factor[query] += g * before;
    g *= Real(t.factor[query]);
  }
  if (t.query) d_query_bias[query] += g;
  if (t.key) d_key_bias[static_cast<std::size_t>((b * s.heads + h) * s.keys + j)] += g;
  return g;
}

template <typename Real>
void Reference<Real>::fire_gradient(const FireVariant& fire, std::int64_t h, std::int64_t i,
                                    std::int64_t j, Real g) {
  const Real near = Real(fire.distance[distance(i, j)]), factor = Real(fire.factor[i]);
  const std::int64_t n = segment(fire, near * factor);
  const Real slope = Real(fire.slope[h * fire.head_stride + n]);
  const auto piece = static_cast<std::size_t>(h * fire.segments + n);
  d_slope[piece] += g * near * factor;
  d_intercept[piece] += g;
  d_factor[static_cast<std::size_t>(i)] += g * slope * near;
  d_table[static_cast<std::size_t>(distance(i, j))] += g * slope * factor;
}

template <typename Real>
void Reference<Real>::tapa_gradient(const TapaVariant& t, std::int64_t b, std::int64_t h,
                                    std::int64_t i, std::int64_t j, Real g) {
  const Real power = Real(t.power[std::abs(distance(i, j))]);
  const Real angle = power * phase(t, b, h, i, j);
  const Real a = Real(t.scale_content) * dot(b, h, i, j, 0, t.content_dim);
  dot_gradient(b, h, i, j, 0, t.content_dim, g * std::cos(angle) * Real(t.scale_content));
  const Real d_phase = -g * a * std::sin(angle) * power * Real(t.scale_phase);
  if (t.phase == TapaPhase::quadratic) {
    dot_gradient(b, h, i, j, t.content_dim, s.head_dim, d_phase);
    return;
  }
  for (std::int64_t d = t.content_dim; d < s.head_dim; ++d) {
    dq_at(b, h, i, d) += d_phase;
    dk_at(b, h, j, d) += d_phase;
  }
}

template <typename Real>
void Reference<Real>::cape_gradient(const CapeVariant& c, std::int64_t b, std::int64_t i,
                                    std::int64_t j, const std::vector<Real>& d_score) {
  std::vector<Real> content, bias;
  const std::vector<Real> x = cape_input(c, b, i, j, content, bias);
  const std::vector<Real> u = cape_hidden(c, x);
  std::vector<Real> dx(x.size());
  for (std::int64_t d = 0; d < c.hidden; ++d) {
    const auto n = static_cast<std::size_t>(d);
    Real du = 0;
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const Real g = d_score[static_cast<std::size_t>(h * s.keys + j)];
      du += g * Real(c.w2[h * c.hidden + d]);
      d_w2[static_cast<std::size_t>(h * c.hidden + d)] += g * leaky(u[n]);
    }
    du *= u[n] > 0 ? Real(1) : Real(0.01);
    d_b1[n] += du;
    for (std::size_t m = 0; m < x.size(); ++m) {
      d_w1[n * x.size() + m] += du * x[m];
      dx[m] += du * Real(c.w1[n * x.size() + m]);
    }
  }
  const std::int64_t lambda = std::max<std::int64_t>(distance(i, j), 0);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const auto n = static_cast<std::size_t>(h);
    const Real g = d_score[static_cast<std::size_t>(h * s.keys + j)];
    d_b2[n] += g;
    dot_gradient(b, h, i, j, 0, s.head_dim, (g + dx[n]) * Real(in.scale));
    if (c.form == CapeForm::content) continue;
    const Real through =
        c.form == CapeForm::add_residual ? dx[n] : dx[n + static_cast<std::size_t>(s.heads)];
    const Real d_bias = through + (adds_bias(c) ? g : Real(0));
    if (c.fire) {
      fire_gradient(*c.fire, h, i, j, d_bias);
    } else {
      d_table[static_cast<std::size_t>(h * c.length + lambda)] += d_bias;
    }
  }
}

}  // namespace phasescope::kernels::testing
