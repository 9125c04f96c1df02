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

// The most distances that can be asked for: a table of them for 128 heads fills a gigabyte.
inline constexpr std::int64_t kMostDistances = std::int64_t{1} << 20;

// Position products, frequencies, bias curves: a PatternsResult.
struct PatternsRequest {
  static constexpr const char* method = "patterns";
  static constexpr const char* verb = "patterns";
  std::string model;
  Running running;
  Reading reading;
  std::int64_t positions = 128;
  std::optional<std::vector<std::int64_t>> layers;
  std::optional<std::int64_t> query, distances;
  template <class V>
  void fields(V& v) {
    v("model", model, About{.help = kModelHelp, .argument = "MODEL"});
    reading.fields(v);
    running.fields(v);
    v("layers", layers, About{.help = "e.g. 0,3 (default: all; 0 is the start)", .low = 0});
    v("positions", positions,
      About{.help = "how many positions are sampled", .low = 2, .high = 4096});
    v("query", query,
      About{
          .help = "whose bias is measured, of encodings without a table (default: the last token)",
          .low = 0});
    v("distances", distances,
      About{.help = "how far the bias tables go (default: as far as the query sees)",
            .low = 1,
            .high = kMostDistances});
  }
};

// PE dot products G_ij (TAPE Figures 7 and 8), drift of the state with depth, bias curves. Tensor
// `pe_dot.L` (S, S): the layer's mean over heads, sampled at `positions`.
struct PatternsLayer {
  int64_t layer = 0;  // 0 is the initial state, n the state after n layers
  // Magnitude of the state's complex numbers; of the rows of a table of positions.
  double mean_abs_z = 0, sd_abs_z = 0;
  double drift = 0;                      // ||z_L - z_0|| / ||z_0||
  std::vector<double> mean_by_distance;  // mean of G over all pairs at each of `distances`
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("mean_abs_z", mean_abs_z, About{.title = "mean of |z|"});
    v("sd_abs_z", sd_abs_z, About{.title = "sd of |z|"}), v("drift", drift);
    v("mean_by_distance", mean_by_distance);
  }
};

struct BiasCurve {
  int64_t layer = 0, head = 0;
  std::string label;
  std::vector<double> values;  // at the first so many of bias_distances
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("label", label), v("values", values);
  }
};

struct PatternsResult {
  std::string model, encoding, formula, why_empty;  // why_empty: the encoding has no such state
  std::string products;                             // what G is
  std::vector<int64_t> positions;  // of the rows and columns of G, out of 0..position_count-1
  int64_t position_count = 0;
  std::vector<int64_t> distances;  // of mean_by_distance
  std::vector<PatternsLayer> layers;
  std::vector<int64_t> bias_distances;
  std::vector<BiasCurve> bias;
  std::string bias_note;            // of which query and how many texts, and what is left out
  std::vector<double> frequencies;  // radians a token, one a plane
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("formula", formula), v("why_empty", why_empty);
    v("products", products), v("positions", positions), v("position_count", position_count);
    v("distances", distances), v("layers", layers), v("bias_distances", bias_distances);
    v("bias", bias), v("bias_note", bias_note),
        v("frequencies", frequencies, About{.unit = "radians a token"});
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
