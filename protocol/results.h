#pragma once
// Every result that a worker gives, as plain structs with one JSON form (json_form.h). The window,
// the command line, exports and tests share them. Fields may be added, never renamed.
//
// Sections: provenance | models | text | heads | map | patterns | distance | shift | theory |
//           compare | eval | cost | capture and check | convert |
//           generate | jobs | bench
//
// Bulk arrays travel beside the JSON as tensors of the reply; each struct names them.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::protocol {

// ---- provenance ---------------------------------------------------------------------------------

// What makes a result repeatable; part of every result and of every exported file's sidecar.
struct Provenance {
  std::string command;                    // the command line that makes it again
  std::vector<std::string> models;        // names as asked for
  std::vector<std::string> model_hashes;  // SHA-256 of the weights files
  std::string text_hash;                  // SHA-256 of the token ids
  std::string version;                    // of the program
  std::string device = "cpu";             // with "attention on cuda" where the CUDA kernels ran
  // What ran attention and the passes over its scores: "fused cpu avx3", "plain (why)", several
  // with commas. Weights and scores of chosen pairs and regions are plain tensor operations always.
  std::string kernel;
  std::string dtype = "f32";
  int64_t seed = 0;
  std::string note;  // e.g. "text cut to 256 of 914 tokens"
  template <class V>
  void fields(V& v) {
    v("command", command), v("models", models), v("model_hashes", model_hashes);
    v("text_hash", text_hash), v("version", version), v("device", device), v("kernel", kernel);
    v("dtype", dtype), v("seed", seed), v("note", note);
  }
};

// A number measured on samples: mean and its 95 % interval, n samples (texts unless said).
struct Interval {
  double mean = 0, low = 0, high = 0;
  int64_t n = 0;
  template <class V>
  void fields(V& v) {
    v("mean", mean), v("low", low), v("high", high), v("n", n);
  }
};

// ---- models -------------------------------------------------------------------------------------

struct ModelSummary {
  std::string name, path, encoding, title, note;  // note: a departure from a paper, shown always
  bool bundled = false;
  int64_t layers = 0, heads = 0, width = 0, context = 0, parameters = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("path", path), v("encoding", encoding), v("title", title), v("note", note);
    v("bundled", bundled), v("layers", layers), v("heads", heads), v("width", width);
    v("context", context), v("parameters", parameters);
  }
};

struct ModelsResult {
  std::vector<ModelSummary> models;
  template <class V>
  void fields(V& v) {
    v("models", models);
  }
};

struct TensorInfo {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string flag;  // "", "nan", "inf", "all zero", "unsupported"
  template <class V>
  void fields(V& v) {
    v("name", name), v("dtype", dtype), v("shape", shape), v("flag", flag);
  }
};

struct LoadReport {
  ModelSummary model;
  std::string family, encoding, encoding_why, encoding_title, encoding_source;
  std::string scaling;  // in force: "yarn x2 over 256 tokens"; empty where there is none
  json encoding_options = json::object();
  std::map<std::string, int64_t> dtypes;  // tensors of each stored dtype
  std::vector<std::string> missing, unexpected, tied, quirks, warnings;
  std::vector<TensorInfo> flagged;  // NaN, Inf, all-zero or unsupported tensors
  int64_t vocab_size = 0, kv_heads = 0, head_dim = 0, ffn_width = 0;
  int64_t weight_bytes = 0, memory_bytes_at_context = 0;
  int64_t length = 0, memory_bytes = 0;  // memory of a text as long as was asked for
  std::string dtype;                     // computed in
  std::string tokenizer, hash;
  template <class V>
  void fields(V& v) {
    v("model", model), v("family", family), v("encoding", encoding), v("scaling", scaling);
    v("length", length), v("memory_bytes", memory_bytes), v("dtype", dtype);
    v("encoding_why", encoding_why), v("encoding_title", encoding_title);
    v("encoding_source", encoding_source), v("encoding_options", encoding_options);
    v("dtypes", dtypes), v("missing", missing), v("unexpected", unexpected), v("tied", tied);
    v("quirks", quirks), v("warnings", warnings), v("flagged", flagged);
    v("vocab_size", vocab_size), v("kv_heads", kv_heads), v("head_dim", head_dim);
    v("ffn_width", ffn_width), v("weight_bytes", weight_bytes);
    v("memory_bytes_at_context", memory_bytes_at_context), v("tokenizer", tokenizer);
    v("hash", hash);
  }
};

// ---- text ---------------------------------------------------------------------------------------

struct Guess {
  int64_t id = 0;
  std::string text;
  double probability = 0;
  template <class V>
  void fields(V& v) {
    v("id", id), v("text", text), v("probability", probability);
  }
};

struct TokenReading {
  int64_t id = 0;
  std::string text;            // visible whitespace
  int64_t begin = 0, end = 0;  // byte offsets in the text
  std::optional<double> loss;  // nats, of predicting this token; none for the first
  std::vector<Guess> guesses;  // what the model expected here, best first
  template <class V>
  void fields(V& v) {
    v("id", id), v("text", text), v("begin", begin), v("end", end), v("loss", loss);
    v("guesses", guesses);
  }
};

struct TextResult {
  std::string model;
  std::vector<TokenReading> tokens;
  double loss = 0;           // nats a token
  double bits_per_byte = 0;  // nan where the tokenizer is not by bytes and there is no text
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("tokens", tokens), v("loss", loss), v("bits_per_byte", bits_per_byte);
    v("provenance", provenance);
  }
};

// ---- heads --------------------------------------------------------------------------------------

// P(d), the mean weight over the valid rows at each distance, with the number of rows.
struct DistanceProfile {
  std::vector<int64_t> distance, count;
  std::vector<double> weight;
  template <class V>
  void fields(V& v) {
    v("distance", distance), v("count", count), v("weight", weight);
  }
};

// `values` holds one entry for each metric that was asked for. Its JSON form is flat:
// {"layer", "head", "entropy", ...}; over a corpus each metric is an Interval.
struct HeadRow {
  int64_t layer = 0, head = 0;
  std::map<std::string, Interval> values;
  std::optional<DistanceProfile> distance_profile;
};

struct MetricInfo {
  std::string key, title, formula, note;
  template <class V>
  void fields(V& v) {
    v("key", key), v("title", title), v("formula", formula), v("note", note);
  }
};

// Tensor `thumbnails` (L, H, S, S) f32, on request: max-pooled weights, -inf in cells that the
// mask hides wholly (a NaN cell is a NaN weight).
struct HeadsResult {
  std::string model;
  // Of an encoder-decoder: whose heads, by the prefixes of `capture`: "enc", "dec" or "cross" (the
  // decoder's attention to the encoder). Empty for a model of one stack.
  std::string stack;
  bool corpus = false;  // values carry intervals over texts
  int64_t layers = 0, heads = 0;
  std::vector<MetricInfo> metrics;
  std::vector<HeadRow> rows;
  double sink_rate = 0;  // share of heads whose sink is above 0.3 (arXiv 2410.10781)
  std::map<std::string, Interval> model_values;  // of the model, not of a head: "induction_loss"
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
        } else if (value.is_object()) {
          Form<Interval>::read(value, row.values[key]);
        } else {
          const double x = read_double(value);
          row.values[key] = {x, x, x, 1};
        }
      }
      r.rows.push_back(std::move(row));
    }
  }
  static void put(json& out, const char* name, const HeadsResult& v) { out[name] = write(v); }
};

}  // namespace detail

// ---- map ----------------------------------------------------------------------------------------

// The keys a query gives most weight to, largest first, of equal scores the lower key first; fewer
// than asked for where it sees fewer.
struct TopKeys {
  int64_t query = 0;
  std::vector<int64_t> keys;
  std::vector<double> weights;
  template <class V>
  void fields(V& v) {
    v("query", query), v("keys", keys), v("weights", weights);
  }
};

// Tensor `map` (h, w), f64 where the model was computed in it and f32 otherwise: rows are queries
// from the top, columns keys from the left, -inf where the mask hides every pair of a cell (a NaN
// cell holds a NaN). Tensors `row_profile` (h) and `column_profile` (w): means over the unmasked
// pairs of each row and column of cells.
struct MapResult {
  std::string model;
  std::string stack;            // as in HeadsResult
  int64_t layer = 0, head = 0;  // head -1: the mean of all heads of the layer
  int64_t tokens = 0;           // queries
  int64_t keys = 0;             // as many but in cross attention
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  int64_t height = 0, width = 0;
  std::string of = "weight";  // weight, score, content, positional
  std::string pool = "mean";  // mean, max
  double low = 0, high = 0;   // of the cells
  std::vector<TopKeys> top;   // of each query shown, among all keys; on request
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("stack", stack), v("layer", layer), v("head", head);
    v("tokens", tokens), v("keys", keys);
    v("row_begin", row_begin), v("row_end", row_end), v("column_begin", column_begin);
    v("column_end", column_end), v("height", height), v("width", width), v("of", of);
    v("pool", pool), v("low", low), v("high", high), v("top", top), v("provenance", provenance);
  }
};

// ---- patterns -----------------------------------------------------------------------------------

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

// ---- distance -----------------------------------------------------------------------------------

// A distance, or the distances [distance, distance_end) of long texts; count: pairs. sd: standard
// deviation over the pairs, of the positional term where content score and score were seen
// together.
struct DistancePoint {
  int64_t distance = 0, distance_end = 0, count = 0;
  double score_mean = 0, score_sd = 0, weight_mean = 0;
  double content_mean = 0, content_sd = 0, positional_mean = 0;
  std::optional<double> positional_sd;
  double score_low = 0, score_high = 0;  // 95 % band of the mean
  template <class V>
  void fields(V& v) {
    v("distance", distance), v("distance_end", distance_end), v("count", count);
    v("score_mean", score_mean);
    v("score_sd", score_sd), v("weight_mean", weight_mean);
    v("content_mean", content_mean), v("content_sd", content_sd);
    v("positional_mean", positional_mean), v("positional_sd", positional_sd);
    v("score_low", score_low), v("score_high", score_high);
  }
};

// Delta = score(near key) - score(far key) of one query (TAPA Appendix I).
struct NearFar {
  int64_t near_begin = 0, near_end = 0, far_begin = 0, far_end = 0;
  int64_t texts = 0;
  int64_t pairs = 0;
  double mean = 0, sigma = 0, skewness = 0, share_positive = 0;
  double mean_low = 0, mean_high = 0;
  std::string interval;  // how the interval was made: "clustered by text (64 texts)", ...
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
            {"mean_low", write_double(n.mean_low)},
            {"mean_high", write_double(n.mean_high)},
            {"interval", n.interval},
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
    n.mean_low = read_double(j.at("mean_low"));
    n.mean_high = read_double(j.at("mean_high"));
    n.interval = j.value("interval", std::string{});
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
    v("layer", layer), v("head", head), v("mu", mu), v("nu", nu), v("distances", distances);
    v("sqrt_d_gamma", sqrt_d_gamma), v("per_plane", per_plane);
  }
};

struct DistanceModel {
  std::string model, encoding, note;
  std::vector<DistanceGroup> layers;   // one a layer, all its heads pooled
  std::vector<DistanceGroup> heads;    // with per_head
  std::vector<DistancePoint> profile;  // all layers and heads pooled
  std::optional<NearFar> histogram;    // the same
  std::vector<IntrinsicBias> intrinsic;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("note", note), v("layers", layers);
    v("heads", heads), v("profile", profile), v("histogram", histogram);
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

// ---- shift --------------------------------------------------------------------------------------

struct ShiftRow {
  std::string model, method;  // method: ids, tokens
  int64_t by = 0, layer = 0;
  double attention_difference = 0;            // in 1e-2 units (TAPE Table 8)
  std::optional<double> position_difference;  // 100 ||G - G'||_F / ||G||_F; none without a state
  double logits_difference = 0;               // largest absolute difference over largest logit
  std::string dtype = "f32";
  template <class V>
  void fields(V& v) {
    v("model", model), v("method", method), v("by", by), v("layer", layer);
    v("attention_difference", attention_difference);
    v("position_difference", position_difference), v("logits_difference", logits_difference);
    v("dtype", dtype);
  }
};

struct ShiftResult {
  std::vector<ShiftRow> rows;
  std::string formula;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("formula", formula), v("provenance", provenance);
  }
};

// ---- theory -------------------------------------------------------------------------------------

enum class Verdict { holds, fails, premise_not_met, undecided };

inline const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::fails:
      return "fails";
    case Verdict::premise_not_met:
      return "premise_not_met";
    case Verdict::undecided:
      return "undecided";
  }
  return "";
}

// Points of the plot that shows a check: `bound` and `noise` may be empty.
struct CheckCurve {
  std::string label, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<double> x, y, bound;
  template <class V>
  void fields(V& v) {
    v("label", label), v("x_label", x_label), v("y_label", y_label), v("log_x", log_x);
    v("log_y", log_y), v("x", x), v("y", y), v("bound", bound);
  }
};

struct CheckResult {
  std::string id, model;
  std::string verdict = "undecided";  // name_of(Verdict)
  double value = 0, bound = 0, noise = 0;
  int64_t samples = 0, seed = 0;
  std::string detail, source, statement;
  std::vector<CheckCurve> curves;
  template <class V>
  void fields(V& v) {
    v("id", id), v("model", model), v("verdict", verdict), v("value", value), v("bound", bound);
    v("noise", noise), v("samples", samples), v("seed", seed), v("detail", detail);
    v("source", source), v("statement", statement), v("curves", curves);
  }
};

struct TheoryResult {
  std::vector<CheckResult> checks;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("checks", checks), v("provenance", provenance);
  }
};

struct CheckInfo {
  std::string id, statement, source;
  template <class V>
  void fields(V& v) {
    v("id", id), v("statement", statement), v("source", source);
  }
};

// ---- compare ------------------------------------------------------------------------------------

struct HeadDivergence {
  int64_t layer = 0, head = 0;
  double js_divergence = 0;  // nats, mean over rows
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("js_divergence", js_divergence);
  }
};

struct CompareResult {
  std::string a, b;
  std::map<std::string, double> loss;  // "a", "b", "difference": nats a token
  std::vector<HeadDivergence> heads;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("a", a), v("b", b), v("loss", loss), v("heads", heads), v("provenance", provenance);
  }
};

// ---- eval ---------------------------------------------------------------------------------------

struct EvalRow {
  std::string model;
  std::string metric;  // of `value`: "bits_per_byte", "bits_per_token" or "perplexity" (a token)
  int64_t length = 0;
  double value = 0, low = 0, high = 0;
  int64_t n = 0, seed = 0;
  std::string window;
  template <class V>
  void fields(V& v) {
    v("model", model), v("metric", metric), v("length", length), v("value", value);
    v("low", low), v("high", high), v("n", n), v("seed", seed), v("window", window);
  }
};

// Loss against position past the trained length: mean over texts by position bucket.
struct PositionCurve {
  std::string model;
  std::string metric;  // of `bits`: "bits_per_byte" or "bits_per_token"
  std::string source;  // what was read: "validation texts", "texts of seeded random ids", ...
  int64_t trained_length = 0, texts = 0;
  std::vector<double> position, bits, low, high;  // centre of the bucket, bits a byte or token
  template <class V>
  void fields(V& v) {
    v("model", model), v("metric", metric), v("source", source);
    v("trained_length", trained_length), v("texts", texts);
    v("position", position), v("bits", bits), v("low", low), v("high", high);
  }
};

// `metric` and `chance` (the value of ids drawn evenly) are those of every row; where models have
// different ones the metric is "bits" and the chance NaN, and each row says which it has.
struct EvalResult {
  std::string task, metric;
  double chance = 0;
  std::vector<EvalRow> rows;
  std::vector<PositionCurve> positions;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("task", task), v("metric", metric), v("chance", chance), v("rows", rows);
    v("positions", positions), v("provenance", provenance);
  }
};

// ---- cost ---------------------------------------------------------------------------------------

// parameters_mi: the same in units of 2^20, as the paper prints them.
struct Count {
  double flops = 0, macs = 0, parameters = 0, parameters_mi = 0;
  template <class V>
  void fields(V& v) {
    v("flops", flops), v("macs", macs), v("parameters", parameters);
    v("parameters_mi", parameters_mi);
  }
};

struct CostPart {
  std::string name;
  double macs = 0, parameters = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("macs", macs), v("parameters", parameters);
  }
};

// flops, macs, parameters are those of `executed`. `published` follows the conventions of TAPE's
// Table 3 (full N x N, head not tied), `executed` counts what the kernels do (causal, half width).
struct CostResult {
  std::string model;
  int64_t length = 0;
  double flops = 0, macs = 0, parameters = 0, memory_bytes = 0;
  std::vector<CostPart> parts;
  Count published, executed;
  std::vector<std::string> conventions;
  template <class V>
  void fields(V& v) {
    v("model", model), v("length", length), v("flops", flops), v("macs", macs);
    v("parameters", parameters), v("memory_bytes", memory_bytes), v("parts", parts);
    v("published", published), v("executed", executed), v("conventions", conventions);
  }
};

// ---- capture and check --------------------------------------------------------------------------

// The tensors themselves are those of the reply, under cli.md's names.
struct CaptureResult {
  std::string model;
  std::vector<std::string> names;
  int64_t bytes = 0;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("names", names), v("bytes", bytes), v("provenance", provenance);
  }
};

struct CheckedTensor {
  std::string name;
  double error = 0, tolerance = 0;  // relative to the tensor's largest magnitude
  bool ok = false;
  std::string dtype;
  template <class V>
  void fields(V& v) {
    v("name", name), v("error", error), v("tolerance", tolerance), v("ok", ok);
    v("dtype", dtype);
  }
};

struct ReferenceCheckResult {
  std::string model, reference, verdict;  // verdict: equal, differs, nothing compared
  std::vector<CheckedTensor> tensors;     // worst first
  std::vector<std::string> not_compared;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("reference", reference), v("verdict", verdict), v("tensors", tensors);
    v("not_compared", not_compared), v("provenance", provenance);
  }
};

// ---- convert ------------------------------------------------------------------------------------

// The files lie in the folder `out`.
struct ConvertResult {
  std::string model, to, out;
  std::vector<std::string> files;
  std::vector<std::string> notes;  // what was done to the tensors, and what to know
  int64_t tensors = 0, parameters_before = 0, parameters = 0, bytes = 0;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("to", to), v("out", out), v("files", files), v("notes", notes);
    v("tensors", tensors), v("parameters_before", parameters_before);
    v("parameters", parameters), v("bytes", bytes), v("provenance", provenance);
  }
};

// ---- generate -----------------------------------------------------------------------------------

struct GenerateResult {
  std::string model, prompt, text;
  std::vector<int64_t> ids;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("prompt", prompt), v("text", text), v("ids", ids);
    v("provenance", provenance);
  }
};

// ---- jobs ---------------------------------------------------------------------------------------

struct MetricPoint {
  int64_t step = 0, tokens = 0;
  double loss = 0, lr = 0, time = 0;
  std::optional<double> validation_bits, gradient_norm, length;
  template <class V>
  void fields(V& v) {
    v("step", step), v("tokens", tokens), v("loss", loss), v("lr", lr), v("time", time);
    v("validation_bits", validation_bits), v("gradient_norm", gradient_norm);
    v("length", length);
  }
};

// state: queued, running, paused, done, failed, cancelled; "died" is shown where a folder says
// running and nobody holds its lock.
struct JobStatus {
  std::string dir, name, kind, state, message;
  int64_t pid = 0, step = 0, steps = 0, tokens = 0;
  double seconds = 0, seconds_left = 0;
  std::string kernel;  // what has run a training's attention since it was last started or resumed
  std::optional<MetricPoint> last;
  std::vector<MetricPoint> curve;  // jobs.show, thinned to at most 1000 points
  std::vector<std::string> checkpoints;
  json config = json::object();
  template <class V>
  void fields(V& v) {
    v("dir", dir), v("name", name), v("kind", kind), v("state", state), v("message", message);
    v("pid", pid), v("step", step), v("steps", steps), v("tokens", tokens);
    v("seconds", seconds), v("seconds_left", seconds_left), v("kernel", kernel), v("last", last);
    v("curve", curve), v("checkpoints", checkpoints), v("config", config);
  }
};

struct JobsResult {
  std::vector<JobStatus> jobs;
  template <class V>
  void fields(V& v) {
    v("jobs", jobs);
  }
};

// ---- bench (of kernels: bench_results.h) --------------------------------------------------------

struct BenchRow {
  std::string name, unit;
  double value = 0, min = 0, max = 0;
  int64_t runs = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("value", value), v("unit", unit), v("runs", runs), v("min", min);
    v("max", max);
  }
};

struct BenchResult {
  std::string device;
  std::vector<BenchRow> rows;
  template <class V>
  void fields(V& v) {
    v("device", device), v("rows", rows);
  }
};

}  // namespace phasescope::protocol
