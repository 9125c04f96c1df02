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
  ReadingMany reading;
  std::int64_t positions = 128;
  std::optional<std::vector<std::int64_t>> layers;
  std::optional<std::int64_t> query, distances;
  std::vector<std::int64_t> queries;
  std::int64_t texts = 2;
  std::optional<std::string> against;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("layers", layers,
      About{.help = "layers, e.g. 0,3 (default: all; 0 is what the first layer starts from)",
            .low = 0});
    v("positions", positions,
      About{.help = "how many positions are sampled",
            .title = "Positions sampled",
            .low = 2,
            .high = 4096});
    v("query", query,
      About{.help = "query whose bias is measured, where the encoding has no table (default: the "
                    "last token)",
            .title = "Query of the bias",
            .low = 0});
    v("distances", distances,
      About{.help = "how far the bias tables go (default: as far as the query sees)",
            .title = "Bias tables to distance",
            .unit = "tokens",
            .low = 1,
            .high = kMostDistances});
    v("queries", queries,
      About{.help = "queries whose rows of content, bias and correction are shown, text by text, "
                    "e.g. 512,2048,8192, of encodings with a bias only (default: the last token)",
            .title = "Queries of the rows",
            .low = 0});
    v("texts", texts,
      About{.help = "how many texts have their rows shown",
            .title = "Texts of the rows",
            .low = 1,
            .high = 64});
    v("against", against,
      About{.help = "another model, whose position products are shown beside this one's and "
                    "subtracted from them",
            .title = "Against the model"});
  }
};

// PE dot products G_ij (TAPE Figures 7 and 8), drift of the state with depth, bias curves. Tensor
// `pe_dot.L` (S, S): the layer's mean over heads, sampled at `positions`.
struct PatternsLayer {
  std::int64_t layer = 0;  // 0 is the initial state, n the state after n layers
  // Magnitude of the state's complex numbers; of the rows of a table of positions.
  double mean_abs_z = 0, sd_abs_z = 0;
  double drift = 0;                      // ||z_L - z_0|| / ||z_0||
  Interval drift_interval;               // of it, over blocks of the text's tokens
  std::vector<double> mean_by_distance;  // mean of G over all pairs at each of `distances`
  // Share of the state's power between each of spectrum_frequencies and the next one; its transform
  // is the mean of G by distance.
  std::vector<double> spectrum;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("mean_abs_z", mean_abs_z, About{.title = "mean of |z|"});
    v("sd_abs_z", sd_abs_z, About{.title = "sd of |z|"}), v("drift", drift);
    v("drift_interval", drift_interval, About{.title = "drift"});
    v("mean_by_distance", mean_by_distance), v("spectrum", spectrum);
  }
};

struct BiasCurve {
  std::int64_t layer = 0, head = 0;
  std::string label;
  std::vector<double> values;  // at the first so many of bias_distances
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("label", label), v("values", values);
  }
};

// The keys of one query of one text by distance: the content score, the bias of the encoding's own
// table (base), what the encoding adds to that by content (correction), and base and correction
// together (positional), which is all there is where there is no table. CAPE, arXiv 2405.14722,
// Figure 1.
struct BiasRow {
  std::int64_t layer = 0, head = 0, query = 0, text = 0;
  std::string text_name;
  std::vector<std::int64_t> distances;
  std::vector<double> content, base, correction, positional;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("query", query), v("text", text);
    v("text_name", text_name), v("distances", distances, About{.unit = "tokens"});
    v("content", content), v("base", base), v("correction", correction);
    v("positional", positional);
  }
};

// How a head's bias at one query varies with the context: local (falls with ln(distance)),
// anti-local (rises) or flat by the 95 % interval of its slope over texts, where 64 or more reach
// the query; `why` where they do not. Curves at `distances`.
struct AdaptiveBiasOfHead {
  std::int64_t layer = 0, head = 0, query = 0;
  std::string kind, why;
  Interval slope;
  double over_contexts = 0, over_distance = 0;
  std::vector<double> distances, mean, sd;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("query", query), v("kind", kind);
    v("why", why);
    v("slope", slope, About{.title = "slope in ln(distance)"});
    v("over_contexts", over_contexts, About{.title = "variance over texts"});
    v("over_distance", over_distance, About{.title = "variance over distance"});
    v("distances", distances, About{.unit = "tokens"});
    v("mean", mean, About{.title = "mean over texts"}),
        v("sd", sd, About{.title = "sd over texts"});
  }
};

// What f makes of a head's own content score and bias, the other heads' at the means of the layer's
// rows: tensor `surface.L` (H, content, bias) over these ranges, and shares of its variance.
struct SurfaceOfHead {
  std::int64_t layer = 0, head = 0;
  double affine = 0, content = 0, bias = 0, interaction = 0;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head);
    v("affine", affine, About{.title = "share that is affine"});
    v("content", content, About{.title = "share of content alone"});
    v("bias", bias, About{.title = "share of bias alone"});
    v("interaction", interaction, About{.title = "share of both together"});
  }
};

// Angles of the planes of a learned rotation, radians a token, largest first: the eigenvalues of
// APE's matrices (arXiv 2312.16045, Section 3.2), or angles that a model stores for each head.
struct LearnedAngles {
  std::string name;  // "H0", "axis 1 H0", "branch 0 H0"
  std::vector<double> angles;
  template <class V>
  void fields(V& v) {
    v("name", name), v("angles", angles, About{.unit = "radians a token"});
  }
};

struct PatternsResult {
  std::string model, encoding, formula, why_empty;  // why_empty: the encoding has no such state
  std::string products;                             // what G is
  std::vector<std::int64_t> positions;  // of the rows and columns of G, out of 0..position_count-1
  std::int64_t position_count = 0;
  std::vector<std::int64_t> distances;  // of mean_by_distance
  std::vector<double> spectrum_frequencies;
  std::vector<PatternsLayer> layers;
  std::vector<std::int64_t> bias_distances;
  std::vector<BiasCurve> bias;
  std::string bias_note;            // of which query and how many texts, and what is left out
  std::vector<double> frequencies;  // radians a token, one a plane
  std::vector<LearnedAngles> angles;
  std::vector<BiasRow> rows;
  std::vector<AdaptiveBiasOfHead> adaptive;
  std::vector<double> surface_content, surface_bias;  // where the surfaces are sampled
  std::vector<SurfaceOfHead> surfaces;
  // Another model's states at the same positions; its tensors are `against.pe_dot.L`.
  std::string against, against_encoding;
  std::vector<PatternsLayer> against_layers;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("formula", formula), v("why_empty", why_empty);
    v("products", products), v("positions", positions), v("position_count", position_count);
    v("distances", distances);
    v("spectrum_frequencies", spectrum_frequencies, About{.unit = "radians a token"});
    v("layers", layers), v("bias_distances", bias_distances);
    v("bias", bias), v("bias_note", bias_note),
        v("frequencies", frequencies, About{.unit = "radians a token"});
    v("angles", angles), v("rows", rows), v("adaptive", adaptive);
    v("surface_content", surface_content), v("surface_bias", surface_bias);
    v("surfaces", surfaces), v("against", against), v("against_encoding", against_encoding);
    v("against_layers", against_layers), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
