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
  template <class V>
  void fields(V& v) {
    v("models", models, About{.help = kModelsHelp, .argument = "MODEL", .alias = "model"});
    reading.fields(v);
    running.fields(v);
    v("near", near, About{.help = "near distances a:b (default 1:N/16)"});
    v("far", far, About{.help = "far distances a:b (default 15N/16:N)"});
    v("pairs", pairs, About{.help = "samples for each histogram", .low = 1, .high = 1e9});
    v("leave_out_first", leave_out_first,
      About{.help = "key 0 is no key of the histogram (default: where it is [BOS])",
            .wire_only = true});
    v("per_head", per_head, About{.help = "the same for every head"});
  }
};

// A distance, or the distances [distance, distance_end) of long texts; count: pairs. sd: standard
// deviation over the pairs, of the positional term where content score and score were seen
// together.
struct DistancePoint {
  int64_t distance = 0, distance_end = 0, count = 0;
  double score_mean = 0, score_sd = 0, weight_mean = 0;
  double content_mean = 0, content_sd = 0, positional_mean = 0;
  std::optional<double> positional_sd;
  // 95 % bands of the means over n texts, or over the 8 blocks of one.
  IntervalEnd score_low, score_high, weight_low, weight_high;
  IntervalEnd content_low, content_high, positional_low, positional_high;
  int64_t n = 0;
  template <class V>
  void fields(V& v) {
    v("distance", distance, About{.unit = "tokens"});
    v("distance_end", distance_end, About{.title = "to before distance", .unit = "tokens"});
    v("count", count, About{.title = "pairs"});
    v("score_mean", score_mean);
    v("score_sd", score_sd), v("weight_mean", weight_mean);
    v("content_mean", content_mean), v("content_sd", content_sd);
    v("positional_mean", positional_mean), v("positional_sd", positional_sd);
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
  int64_t near_begin = 0, near_end = 0, far_begin = 0, far_end = 0;
  int64_t texts = 0;
  int64_t pairs = 0;
  double mean = 0, sigma = 0, skewness = 0, share_positive = 0;
  NearFarIntervals intervals;
  std::vector<double> edges;
  std::vector<int64_t> counts;
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
    n.texts = j.value("texts", int64_t{0});
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
    n.counts = j.at("counts").get<std::vector<int64_t>>();
  }
  static void put(json& out, const char* name, const NearFar& n) { out[name] = write(n); }
};

}  // namespace detail

// One group of heads: the whole model (layer and head empty), a layer, or a head.
struct DistanceGroup {
  std::optional<int64_t> layer, head;
  std::vector<DistancePoint> profile;
  std::optional<NearFar> histogram;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("profile", profile), v("histogram", histogram);
  }
};

// Gamma(lambda) of theory.md (TAPA Definition 2.1) and what it predicts, rope only.
struct IntrinsicBias {
  int64_t layer = 0, head = -1;
  double mu = 0, nu = 0;
  std::vector<double> distances, sqrt_d_gamma, per_plane;
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("mu", mu), v("nu", nu),
        v("distances", distances, About{.unit = "tokens"});
    v("sqrt_d_gamma", sqrt_d_gamma), v("per_plane", per_plane);
  }
};

struct DistanceModel {
  std::string model, encoding, note;
  std::string bands;                   // how the bands of the profiles were made, in words
  std::vector<DistanceGroup> layers;   // one a layer, all its heads pooled
  std::vector<DistanceGroup> heads;    // with per_head
  std::vector<DistancePoint> profile;  // all layers and heads pooled
  std::optional<NearFar> histogram;    // the same
  std::vector<IntrinsicBias> intrinsic;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("note", note), v("bands", bands);
    v("layers", layers), v("heads", heads), v("profile", profile), v("histogram", histogram);
    v("intrinsic", intrinsic), v("provenance", provenance);
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
