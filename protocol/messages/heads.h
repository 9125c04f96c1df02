#pragma once
// Statistics of every head.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Of random tokens that are written twice: texts of 131072 tokens, which many contexts end at.
inline constexpr double kLongestPeriod = 1 << 16;

// Every statistic of every head: a HeadsResult.
struct HeadsRequest {
  static constexpr const char* method = "heads";
  static constexpr const char* verb = "heads";
  std::string model;
  Running running;
  ReadingMany reading;
  std::string stack;
  std::optional<std::vector<std::int64_t>> layers;
  std::vector<std::string> metrics;
  std::int64_t thumbnails = 0;
  std::int64_t period = 0;
  std::int64_t draws = 32;
  std::vector<std::int64_t> windows;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("stack", stack, kStackAbout);
    v("layers", layers,
      About{.help = "layers whose heads are measured, e.g. 0,3 (default: all); layers after the "
                    "last of them do not run",
            .low = 0});
    v("metrics", metrics,
      About{.help =
                "metrics, comma separated (default: all but js_divergence and distance_profile)"});
    v("thumbnails", thumbnails,
      About{.help = "side of each head's picture; true is 64",
            .low = 0,
            .high = 512,
            .wire_only = true,
            .when_true = 64});
    v("period", period,
      About{.help = "length of the block of random tokens that is repeated, for induction, "
                    "induction_loss and duplicate_token (default: by the context)",
            .title = "Repeated after",
            .unit = "tokens",
            .low = 0,
            .high = kLongestPeriod});
    v("draws", draws,
      About{.help =
                "how many random texts are drawn for induction, induction_loss and duplicate_token",
            .title = "Draws of random tokens",
            .low = 1,
            .high = 10000});
    v("windows", windows,
      About{.help = "windows of window_mass, up to three (default: 16,64,256)",
            .title = "Weight on the last",
            .unit = "keys",
            .low = 1});
  }
};

// The mean weight at distances [begin, end), with its interval over texts.
struct ProfileBand {
  std::int64_t begin = 0, end = 0;
  Interval weight;
  template <class V>
  void fields(V& v) {
    v("begin", begin), v("end", end), v("weight", weight);
  }
};

// P(d), the mean weight over the valid rows at each distance, with the number of rows.
struct DistanceProfile {
  std::vector<std::int64_t> distance, count;
  std::vector<double> weight;
  std::vector<ProfileBand> bands = {};
  template <class V>
  void fields(V& v) {
    v("distance", distance), v("count", count), v("weight", weight), v("bands", bands);
  }
};

// `values` holds one entry for each metric that was asked for. Its JSON form is flat:
// {"layer", "head", "entropy", ...}; over a corpus each metric is an Interval, of one text a
// number, and those that have an interval all the same (over draws) stand in "intervals" too.
struct HeadRow {
  std::int64_t layer = 0, head = 0;
  std::map<std::string, Interval> values;
  std::optional<DistanceProfile> distance_profile;
};

struct MetricInfo {
  std::string key, title, formula, note;
  std::string unit = {};  // empty: a pure number
  template <class V>
  void fields(V& v) {
    v("key", key), v("title", title), v("formula", formula), v("note", note), v("unit", unit);
  }
};

// `rows` are of all heads, or of those of the layers that were asked for: then nothing is said of
// the whole model. Tensor `thumbnails` (L, H, S, S) f32, on request: max-pooled weights, -inf in
// cells that the mask hides wholly (a NaN cell is a NaN weight). Tensor `js_divergence` (L H, L H)
// f64 where that metric is asked for, and over texts the ends of its intervals,
// `js_divergence_low`, `.._high`.
struct HeadsResult {
  std::string model;
  // Whose heads of an encoder-decoder, by the prefixes of `capture`: "enc", "dec" or "cross" (the
  // decoder's attention to the encoder). Empty for a model of one stack.
  std::string stack;
  bool corpus = false;  // values carry intervals over texts
  std::int64_t layers = 0, heads = 0;
  std::vector<MetricInfo> metrics;
  std::vector<HeadRow> rows;
  // Share of heads whose sink is above 0.3 (arXiv 2410.10781), mean over texts.
  double sink_rate = 0;
  // Numbers of the model, not of a head: "induction_loss", and "sink_rate" with its interval.
  std::map<std::string, Interval> model_values;
  Provenance provenance;
};

namespace detail {

template <>
struct Form<HeadsResult> {
  static json write(const HeadsResult& r) {
    json out = {{"model", r.model},     {"stack", r.stack},
                {"corpus", r.corpus},   {"layers", r.layers},
                {"heads", r.heads},     {"sink_rate", write_double(r.sink_rate)},
                {"rows", json::array()}};
    out["metrics"] = Form<std::vector<MetricInfo>>::write(r.metrics);
    out["model_values"] = Form<std::map<std::string, Interval>>::write(r.model_values);
    out["provenance"] = Form<Provenance>::write(r.provenance);
    for (const HeadRow& row : r.rows) {
      json item = {{"layer", row.layer}, {"head", row.head}};
      for (const auto& [key, value] : row.values) {
        item[key] = r.corpus ? Form<Interval>::write(value) : write_double(value.mean);
        if (!r.corpus && value.known()) item["intervals"][key] = Form<Interval>::write(value);
      }
      Form<std::optional<DistanceProfile>>::put(item, "distance_profile", row.distance_profile);
      out["rows"].push_back(std::move(item));
    }
    return out;
  }
  static void read(const json& j, HeadsResult& r) {
    j.at("model").get_to(r.model);
    r.stack = j.value("stack", std::string{});
    j.at("corpus").get_to(r.corpus);
    j.at("layers").get_to(r.layers);
    j.at("heads").get_to(r.heads);
    r.sink_rate = read_double(j.at("sink_rate"));
    Form<std::vector<MetricInfo>>::read(j.at("metrics"), r.metrics);
    if (j.contains("provenance")) Form<Provenance>::read(j.at("provenance"), r.provenance);
    if (j.contains("model_values")) {
      Form<std::map<std::string, Interval>>::read(j.at("model_values"), r.model_values);
    }
    for (const json& item : j.at("rows")) {
      HeadRow row;
      for (const auto& [key, value] : item.items()) {
        if (key == "layer") {
          value.get_to(row.layer);
        } else if (key == "head") {
          value.get_to(row.head);
        } else if (key == "distance_profile") {
          Form<std::optional<DistanceProfile>>::read(value, row.distance_profile);
        } else if (key == "intervals") {
          continue;
        } else if (value.is_object()) {
          Form<Interval>::read(value, row.values[key]);
        } else {
          const double x = read_double(value);
          row.values[key] = {x, {}, {}, 1};  // one text
        }
      }
      if (item.contains("intervals")) {
        for (const auto& [key, value] : item["intervals"].items()) {
          Form<Interval>::read(value, row.values[key]);
        }
      }
      r.rows.push_back(std::move(row));
    }
  }
  static void put(json& out, const char* name, const HeadsResult& v) { out[name] = write(v); }
};

}  // namespace detail

}  // namespace phasescope::protocol
