#pragma once
// Position products, drift of the state, bias curves.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Position products, frequencies, bias curves: a PatternsResult.
struct PatternsRequest {
  static constexpr const char* method = "patterns";
  static constexpr const char* verb = "patterns";
  std::string model;
  Running running;
  Reading reading;
  std::int64_t positions = 128;
  std::optional<std::vector<std::int64_t>> layers;
  std::optional<std::int64_t> query;
  template <class V>
  void fields(V& v) {
    v("model", model, About{.help = kModelHelp, .argument = "MODEL"});
    reading.fields(v);
    running.fields(v);
    v("layers", layers, About{.help = "e.g. 0,3 (default: all; 0 is the start)", .low = 0});
    v("positions", positions,
      About{.help = "how many positions are sampled", .low = 2, .high = 4096});
    v("query", query, About{.help = "of the bias curves (default: the last token)", .low = 0});
  }
};

// PE dot products G_ij = sum_m Re(z_i conj z_j) (TAPE Figures 7 and 8), drift of the state with
// depth, bias curves. Tensors: `pe_dot.L` (S, S) the layer's mean over heads, sampled at
// `positions`; `bias` (Lb, H, D) bias by head at distances `bias_distances`.
struct PatternsLayer {
  int64_t layer = 0;                     // 0 is the initial state, n the state after n layers
  double mean_abs_z = 0, sd_abs_z = 0;   // magnitude of the state's complex numbers
  double drift = 0;                      // ||z_L - z_0|| / ||z_0||
  std::vector<double> mean_by_distance;  // mean of G over pairs at distances 0, 1, ...
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("mean_abs_z", mean_abs_z), v("sd_abs_z", sd_abs_z), v("drift", drift);
    v("mean_by_distance", mean_by_distance);
  }
};

struct BiasCurve {
  int64_t layer = 0, head = 0;
  std::string label;
  std::vector<double> values;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("label", label), v("values", values);
  }
};

struct PatternsResult {
  std::string model, encoding, formula, why_empty;  // why_empty: the encoding has no such state
  std::vector<int64_t> positions;
  std::vector<PatternsLayer> layers;
  std::vector<int64_t> bias_distances;
  std::vector<BiasCurve> bias;
  std::vector<double> frequencies;  // radians a token, one a plane
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("formula", formula), v("why_empty", why_empty);
    v("positions", positions), v("layers", layers), v("bias_distances", bias_distances);
    v("bias", bias), v("frequencies", frequencies), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
