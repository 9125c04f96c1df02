#pragma once
// Scores and weights by distance, near-far histograms.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Scores and weights by distance, near-far histograms: a DistanceResult.
struct DistanceRequest {
  static constexpr const char* method = "distance";
  static constexpr const char* verb = "distance";
  std::vector<std::string> models;
  Running running;
  ReadingMany reading;
  std::optional<Range> near, far;
  std::int64_t pairs = 10000;
  std::optional<bool> leave_out_first;
  bool per_head = false;
  std::vector<std::string> heads;
  std::vector<std::int64_t> bases{10'000, 100'000, 1'000'000, 10'000'000};
  std::vector<std::int64_t> factors{2, 4, 8, 16};
  template <class V>
  void fields(V& v) {
    v("models", models, kModelsAbout);
    reading.fields(v);
    running.fields(v);
    v("near", near,
      About{.help = "near distances a:b (default 1:N/16)",
            .title = "Near distances",
            .unit = "tokens"});
    v("far", far,
      About{.help = "far distances a:b (default 15N/16:N)",
            .title = "Far distances",
            .unit = "tokens"});
    v("pairs", pairs,
      About{.help = "samples for each histogram",
            .title = "Pairs of a histogram",
            .low = 1,
            .high = 1e9});
    v("leave_out_first", leave_out_first,
      About{.help = "key 0 is left out of the histogram (default: where it is [BOS])",
            .title = "Leave out key 0",
            .wire_only = true});
    v("per_head", per_head,
      About{.help = "also measure every head by itself", .title = "Every head, too"});
    v("heads", heads,
      About{.help = "heads whose coefficients, bias and sweep are shown, e.g. L2H1,L3H0, of models "
                    "that rotate q and k only (default: the first head of the middle layer)",
            .title = "Heads of the sweep"});
    v("bases", bases,
      About{.help = "bases of the sweep", .title = "Bases of the sweep", .low = 2, .high = 1e15});
    v("factors", factors,
      About{.help = "factors that the sweep divides positions by",
            .title = "Factors of the sweep",
            .low = 1,
            .high = 1e9});
  }
};

// A distance, or the distances [distance, distance_end) of long texts; count: pairs. sd: standard
// deviation over the pairs, NaN of a single one; of the positional term where content score and
// score were seen together.
struct DistancePoint {
  std::int64_t distance = 0, distance_end = 0, count = 0;
  double score_mean = 0, score_sd = 0, weight_mean = 0;
  double content_mean = 0, content_sd = 0, positional_mean = 0;
  std::optional<double> positional_sd;
  std::optional<double> weight_sd;  // of one text that is read row by row
  // 95 % bands of the means over n texts, or over the 8 blocks of one.
  IntervalEnd score_low, score_high, weight_low, weight_high;
  IntervalEnd content_low, content_high, positional_low, positional_high;
  std::int64_t n = 0;
  template <class V>
  void fields(V& v) {
    v("distance", distance, About{.unit = "tokens"});
    v("distance_end", distance_end, About{.title = "to before distance", .unit = "tokens"});
    v("count", count, About{.title = "pairs"});
    v("score_mean", score_mean);
    v("score_sd", score_sd), v("weight_mean", weight_mean);
    v("content_mean", content_mean), v("content_sd", content_sd);
    v("positional_mean", positional_mean), v("positional_sd", positional_sd);
    v("weight_sd", weight_sd);
    v("score_low", score_low), v("score_high", score_high);
    v("weight_low", weight_low), v("weight_high", weight_high);
    v("content_low", content_low), v("content_high", content_high);
    v("positional_low", positional_low), v("positional_high", positional_high);
    v("n", n);
  }
};

// The moments of Delta with their intervals.
struct NearFarIntervals {
  Interval mean, sigma, skewness, share_positive;
  template <class V>
  void fields(V& v) {
    v("mean", mean), v("sigma", sigma), v("skewness", skewness);
    v("share_positive", share_positive, About{.title = "share above 0"});
  }
};

// Delta = score(near key) - score(far key) of one query (TAPA Appendix I). In JSON "mean_low" and
// "mean_high" are the ends of intervals.mean, and "interval" says in words how it was made.
struct NearFar {
  std::int64_t near_begin = 0, near_end = 0, far_begin = 0, far_end = 0;
  std::int64_t texts = 0;
  std::int64_t pairs = 0;
  double mean = 0, sigma = 0, skewness = 0, share_positive = 0;
  NearFarIntervals intervals;
  std::vector<double> edges;
  std::vector<std::int64_t> counts;
};

namespace detail {

template <>
struct Form<NearFar> {
  static json write(const NearFar& n) {
    return {{"near", {n.near_begin, n.near_end}},
            {"far", {n.far_begin, n.far_end}},
            {"texts", n.texts},
            {"pairs", n.pairs},
            {"mean", write_double(n.mean)},
            {"sigma", write_double(n.sigma)},
            {"skewness", write_double(n.skewness)},
            {"share_positive", write_double(n.share_positive)},
            {"mean_low", Form<IntervalEnd>::write(n.intervals.mean.low)},
            {"mean_high", Form<IntervalEnd>::write(n.intervals.mean.high)},
            {"interval", words_of(n.intervals.mean)},
            {"intervals", Form<NearFarIntervals>::write(n.intervals)},
            {"edges", Form<std::vector<double>>::write(n.edges)},
            {"counts", n.counts}};
  }
  static void read(const json& j, NearFar& n) {
    n.near_begin = j.at("near").at(0);
    n.near_end = j.at("near").at(1);
    n.far_begin = j.at("far").at(0);
    n.far_end = j.at("far").at(1);
    n.texts = j.value("texts", std::int64_t{0});
    n.pairs = j.at("pairs");
    n.mean = read_double(j.at("mean"));
    n.sigma = read_double(j.at("sigma"));
    n.skewness = read_double(j.at("skewness"));
    n.share_positive = read_double(j.at("share_positive"));
    if (j.contains("intervals")) {
      Form<NearFarIntervals>::read(j.at("intervals"), n.intervals);
    } else {  // a file of before, which had that of the mean alone
      Form<IntervalEnd>::read(j.at("mean_low"), n.intervals.mean.low);
      Form<IntervalEnd>::read(j.at("mean_high"), n.intervals.mean.high);
      n.intervals.mean.mean = n.mean;
      n.intervals.mean.n = n.texts;
      n.intervals.mean.method = j.value("interval", std::string{});
    }
    Form<std::vector<double>>::read(j.at("edges"), n.edges);
    n.counts = j.at("counts").get<std::vector<std::int64_t>>();
  }
  static void put(json& out, const char* name, const NearFar& n) { out[name] = write(n); }
};

}  // namespace detail

// One group of heads: the whole model (layer and head empty), a layer, or a head.
struct DistanceGroup {
  std::optional<std::int64_t> layer, head;
  std::vector<DistancePoint> profile;
  std::optional<NearFar> histogram;
  std::optional<NearFar> weight_histogram = {};  // of the weights of the same pairs
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("profile", profile), v("histogram", histogram);
    v("weight_histogram", weight_histogram);
  }
};

// Gamma(lambda) of theory.md (TAPA Definition 2.1) and what it predicts, rope only.
struct IntrinsicBias {
  std::int64_t layer = 0, head = -1;
  double mu = 0, nu = 0;
  std::vector<double> distances, sqrt_d_gamma, per_plane;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("mu", mu), v("nu", nu),
        v("distances", distances, About{.unit = "tokens"});
    v("sqrt_d_gamma", sqrt_d_gamma), v("per_plane", per_plane);
  }
};

// Coefficients of the planes of pairs at a distance (TAPA, arXiv 2509.12635, Appendix H and Figure
// 1): A_d = q_2d k_2d + q_2d+1 k_2d+1, B_d = q_2d k_2d+1 - q_2d+1 k_2d, of q and k before the
// rotation. Means over all pairs and planes with their 95 % bands, and standard deviations over the
// same.
struct CoefficientPoint {
  std::int64_t distance = 0, distance_end = 0, count = 0;
  double a_mean = 0, a_sd = 0, b_mean = 0, b_sd = 0;
  IntervalEnd a_low, a_high, b_low, b_high;
  std::int64_t n = 0;
  template <class V>
  void fields(V& v) {
    v("distance", distance, About{.unit = "tokens"});
    v("distance_end", distance_end, About{.title = "to before distance", .unit = "tokens"});
    v("count", count, About{.title = "pairs"});
    v("a_mean", a_mean, About{.title = "mean of A"}), v("a_sd", a_sd, About{.title = "sd of A"});
    v("b_mean", b_mean, About{.title = "mean of B"}), v("b_sd", b_sd, About{.title = "sd of B"});
    v("a_low", a_low), v("a_high", a_high), v("b_low", b_low), v("b_high", b_high);
    v("n", n);
  }
};

// The coefficients of one plane over all pairs.
struct PlanePoint {
  std::int64_t plane = 0;
  double frequency = 0;
  double a_mean = 0, a_sd = 0, b_mean = 0, b_sd = 0;
  IntervalEnd a_low, a_high, b_low, b_high;
  std::int64_t n = 0;
  template <class V>
  void fields(V& v) {
    v("plane", plane), v("frequency", frequency, About{.unit = "radians a token"});
    v("a_mean", a_mean, About{.title = "mean of A"}), v("a_sd", a_sd, About{.title = "sd of A"});
    v("b_mean", b_mean, About{.title = "mean of B"}), v("b_sd", b_sd, About{.title = "sd of B"});
    v("a_low", a_low), v("a_high", a_high), v("b_low", b_low), v("b_high", b_high);
    v("n", n);
  }
};

// The bias that a head's measured coefficients have with another base, or with positions divided by
// a factor, at the head's `distances`.
struct BiasSweep {
  std::string kind;  // base, factor
  double value = 0;
  std::vector<double> score;
  template <class V>
  void fields(V& v) {
    v("kind", kind), v("value", value), v("score", score);
  }
};

// The distance bias of one head of a model that rotates: what was measured and what its mean
// coefficients predict, to 10^7. The regimes of TAPA (Section 2) in the model's own distances, 1 /
// theta_0 its angle after the slowest: local to 2 pi theta_0^(-1/4) / 8, ultra from 2 pi / theta_0,
// critical between.
struct HeadBias {
  std::int64_t layer = 0, head = 0;
  double local_to = 0, ultra_from = 0;
  double smallest_a = 0;  // |mean of A| at a distance
  std::vector<DistancePoint> profile;
  std::vector<CoefficientPoint> coefficients;
  std::vector<PlanePoint> planes;
  // Means at each distance of `coefficients`, a row a plane.
  std::vector<std::vector<double>> a_by_plane, b_by_plane;
  std::vector<double> distances, sqrt_d_gamma, per_plane;
  std::vector<BiasSweep> sweep;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head);
    v("local_to", local_to, About{.title = "local to", .unit = "tokens"});
    v("ultra_from", ultra_from, About{.title = "ultra from", .unit = "tokens"});
    v("smallest_a", smallest_a, About{.title = "smallest |mean of A|"});
    v("profile", profile), v("coefficients", coefficients), v("planes", planes);
    v("a_by_plane", a_by_plane), v("b_by_plane", b_by_plane);
    v("distances", distances, About{.unit = "tokens"});
    v("sqrt_d_gamma", sqrt_d_gamma), v("per_plane", per_plane), v("sweep", sweep);
  }
};

struct DistanceModel {
  std::string model, encoding, note;
  std::string bands;                   // how the bands of the profiles were made, in words
  std::vector<DistanceGroup> layers;   // one a layer, all its heads pooled
  std::vector<DistanceGroup> heads;    // with per_head
  std::vector<DistancePoint> profile;  // all layers and heads pooled
  std::optional<NearFar> histogram;    // the same
  std::optional<NearFar> weight_histogram;
  std::vector<IntrinsicBias> intrinsic;
  std::vector<HeadBias> head_bias;  // of the heads that were asked for
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("note", note), v("bands", bands);
    v("layers", layers), v("heads", heads), v("profile", profile), v("histogram", histogram);
    v("weight_histogram", weight_histogram);
    v("intrinsic", intrinsic), v("head_bias", head_bias), v("provenance", provenance);
  }
};

struct DistanceResult {
  std::vector<DistanceModel> models;
  template <class V>
  void fields(V& v) {
    v("models", models);
  }
};

}  // namespace phasescope::protocol
