// The numbers a row ends with: log-sum-exp and the row probes.
#if defined(PHASESCOPE_CPU_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_ROWS_INL_H
#undef PHASESCOPE_CPU_ROWS_INL_H
#else
#define PHASESCOPE_CPU_ROWS_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Rows of kPanel floats that start_probes() uses.
inline std::int64_t probe_rows(const RowProbes& wanted) {
  return kProbeRows + (wants_top_keys(wanted) ? 2 * wanted.top_count : 0);
}

/// Gives the panel's probes their memory (probe_rows() rows from `at`) and first values.
inline float* start_probes(PanelProbes& probes, const RowProbes& wanted, float* at) {
  const auto next = [&](float value) {
    float* row = at;
    fill_panel(row, value);
    at += kPanel;
    return row;
  };
  probes.entropy = next(0);
  probes.distance = wanted.mean_distance ? next(0) : nullptr;
  probes.best = next(kFirstMaximum);
  probes.best_key = wanted.max_key ? next(-1) : nullptr;
  probes.first_score = next(kMaskedScore);
  for (std::size_t w = 0; w < kMaxWindows; ++w) {
    probes.window[w] = next(0);
    probes.width[w] = wanted.window_mass[w] ? wanted.windows[w] : 0;
  }
  probes.widest = *std::max_element(probes.width, probes.width + kMaxWindows);
  probes.bound = probes.best;
  if (!wants_top_keys(wanted)) return at;
  probes.top = at;
  probes.top_count = wanted.top_count;
  for (std::int64_t n = 0; n < wanted.top_count; ++n) {
    probes.bound = next(kFirstMaximum);
    next(-1);
  }
  return at;
}

/// lse[first + n] in natural units; -inf for rows that see no key.
inline void write_lse(const Panel& panel, std::int64_t count, std::int64_t first, float* lse) {
  if (!lse) return;
  for (std::int64_t n = 0; n < count; ++n) {
    const double l = panel.normaliser[n];
    lse[first + n] =
        l == 0 ? -std::numeric_limits<float>::infinity()
               : static_cast<float>((panel.reference[n] + std::log2(l)) * std::numbers::ln2);
  }
}

/// The share of a row's weights beside a sink (natural units): 1 where there is none.
inline double keys_share(const Panel& panel, std::int64_t n, const RowSinks& sinks) {
  if (!sinks || panel.normaliser[n] == 0) return 1;
  const double l = panel.normaliser[n], reference = panel.reference[n];
  return 1 / (1 + std::exp2(sinks.of(n) * std::numbers::log2e - reference) / l);
}

/// What the sink has of the row, to full precision where it is small.
inline double sink_weight(const Panel& panel, std::int64_t n, float sink) {
  const double l = panel.normaliser[n], reference = panel.reference[n];
  if (l == 0) return sink == -std::numeric_limits<float>::infinity() ? 0 : 1;
  return 1 / (1 + l * std::exp2(reference - sink * std::numbers::log2e));
}

/// Adds sinks to the normalisers of rows that see a key, once all that leaves them out is written.
inline void add_sinks(Panel& panel, std::int64_t count, const RowSinks& sinks) {
  for (std::int64_t n = 0; n < count && sinks; ++n) {
    panel.normaliser[n] = static_cast<float>(panel.normaliser[n] / keys_share(panel, n, sinks));
  }
}

/// The largest weights of each row and their keys; inverse: 1 over the normalisers, 0 of none.
inline void write_top_keys(const Panel& panel, std::int64_t count, std::int64_t first,
                           const double* inverse, const RowProbes& out) {
  const std::int64_t most = panel.probes.top_count;
  for (std::int64_t rank = 0; rank < most; ++rank) {
    const float* score = panel.probes.top + 2 * rank * kPanel;
    HWY_ALIGN float weight[kPanel];
    for (int at = 0; at < kPanel; at += kLanes) {
      store(exp2_any(hn::Sub(load(score + at), load(panel.reference + at))), weight + at);
    }
    for (std::int64_t n = 0; n < count; ++n) {
      const auto key = static_cast<std::int32_t>(score[kPanel + n]);
      const std::int64_t to = (first + n) * most + rank;
      if (out.top_key) out.top_key[to] = key;
      if (out.top_weight) {
        out.top_weight[to] = key < 0 ? 0 : static_cast<float>(weight[n] * inverse[n]);
      }
    }
  }
}

/// sinks: not in the normalisers yet.
inline void write_probes(const Panel& panel, std::int64_t count, std::int64_t first,
                         const RowSinks& sinks, const RowProbes& out) {
  const PanelProbes& probes = panel.probes;
  const auto put = [first](float* array, std::int64_t n, double value) {
    if (array) array[first + n] = static_cast<float>(value);
  };
  // Two scores of each row as weights before normalisation.
  HWY_ALIGN float best[kPanel];
  HWY_ALIGN float first_key[kPanel];
  for (int at = 0; at < kPanel; at += kLanes) {
    const Vec reference = load(panel.reference + at);
    store(exp2_any(hn::Sub(load(probes.best + at), reference)), best + at);
    store(exp2_any(hn::Sub(load(probes.first_score + at), reference)), first_key + at);
  }
  double inverses[kPanel];
  for (std::int64_t n = 0; n < count; ++n) {
    const double l = panel.normaliser[n];
    const bool empty = l == 0;
    const double share = keys_share(panel, n, sinks);
    const double inverse = inverses[n] = empty ? 0 : share / l;
    if (out.entropy && share == 1) {
      put(out.entropy, n,
          empty ? 0 : std::numbers::ln2 * (std::log2(l) - probes.entropy[n] * inverse));
    } else if (out.entropy) {
      const double sum = share * (std::log2(l) - std::log2(share)) - probes.entropy[n] * inverse;
      put(out.entropy, n, share == 0 ? 0 : std::numbers::ln2 * sum);
    }
    if (out.sink_weight) put(out.sink_weight, n, sinks ? sink_weight(panel, n, sinks.of(n)) : 0);
    put(out.max_score, n,
        empty ? -std::numeric_limits<double>::infinity() : probes.best[n] * std::numbers::ln2);
    put(out.top1_mass, n, best[n] * inverse);
    put(out.first_key_weight, n, first_key[n] * inverse);
    if (probes.distance) put(out.mean_distance, n, probes.distance[n] * inverse);
    for (std::size_t w = 0; w < kMaxWindows; ++w) {
      put(out.window_mass[w], n, probes.window[w][n] * inverse);
    }
    if (out.max_key) {
      out.max_key[first + n] = empty ? -1 : static_cast<std::int32_t>(probes.best_key[n]);
    }
  }
  if (probes.top) write_top_keys(panel, count, first, inverses, out);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
