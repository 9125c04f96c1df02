#pragma once
// Models: the list of them and the load report.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"

namespace phasescope::protocol {

// The bundled models: a ModelsResult.
struct ModelsRequest {
  static constexpr const char* method = "models.list";
  static constexpr const char* verb = "models";
  template <class V>
  void fields(V&) {}
};

// Whether all of these are there, asked before the first is measured: a FoundResult.
struct FindRequest {
  static constexpr const char* method = "models.find";
  static constexpr const char* verb = "";
  std::vector<std::string> models;
  template <class V>
  void fields(V& v) {
    v("models", models, kModelsAbout);
  }
};

struct FoundResult {
  std::vector<std::string> models;
  template <class V>
  void fields(V& v) {
    v("models", models);
  }
};

// The load report of a model: a LoadReport.
struct InfoRequest {
  static constexpr const char* method = "model.info";
  static constexpr const char* verb = "info";
  std::string model;
  Opening opening;
  std::int64_t length = 0;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    opening.fields(v);
    v("length", length,
      About{.help = "tokens whose memory is told (default: the trained context)",
            .low = 1,
            .high = kMostTokens});
  }
};

struct ModelSummary {
  std::string name, path, encoding, title, note;  // note: a departure from a paper, shown always
  bool bundled = false;
  std::int64_t layers = 0, heads = 0, width = 0, context = 0, parameters = 0;
  std::int64_t encoder_layers = 0;  // of an encoder-decoder, whose `layers` are the decoder's
  template <class V>
  void fields(V& v) {
    v("name", name), v("path", path), v("encoding", encoding), v("title", title), v("note", note);
    v("bundled", bundled), v("layers", layers), v("encoder_layers", encoder_layers),
        v("heads", heads);
    v("width", width);
    v("context", context, About{.unit = "tokens"}), v("parameters", parameters);
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
  std::vector<std::int64_t> shape;
  std::string flag;  // "", "nan", "inf", "all zero", "unsupported"
  template <class V>
  void fields(V& v) {
    v("name", name), v("dtype", dtype), v("shape", shape), v("flag", flag);
  }
};

// How some layers place their tokens.
struct RopePlanRow {
  std::string layers;    // "0, 2-5"
  std::string sees;      // "all", "43 tokens", "its run of 43 tokens", "a state, no pairs"
  std::string encoding;  // "rope, half", "none", "linear"
  // Of a head that turn: "first 8 of 16", "4 of the first 8 of 16"; empty without planes.
  std::string channels;
  std::vector<double> frequencies;  // of each plane, as applied
  double magnitude = 1;             // q and k are multiplied by it
  std::string axes;               // the position that each plane turns by, where there are several
  std::string norm, temperature;  // of q and k; of queries by position i
  std::optional<double>
      stored_difference;  // of the file's own frequencies, largest |s / applied - 1|
  // The difference from those of the file's configuration: 0 unless a setting has changed the rope.
  std::optional<double> library_difference;
  template <class V>
  void fields(V& v) {
    v("layers", layers), v("sees", sees), v("encoding", encoding), v("channels", channels);
    v("frequencies", frequencies, About{.unit = "radians a token"}), v("magnitude", magnitude);
    v("axes", axes), v("norm", norm, About{.title = "norm of q and k"});
    v("temperature", temperature, About{.title = "queries times"});
    v("stored_difference", stored_difference, About{.title = "difference of the file's own"});
    v("library_difference", library_difference,
      About{.title = "difference of the configuration's"});
  }
};

// A number among the options of an encoding that changes something as the others are, and where it
// may lie; no end where there is none.
struct EncodingNumber {
  std::string key, help;
  double value = 0;
  bool whole = false;
  std::optional<double> low, high;
  template <class V>
  void fields(V& v) {
    v("key", key), v("help", help), v("value", value), v("whole", whole);
    v("low", low), v("high", high);
  }
};

struct LoadReport {
  ModelSummary model;
  std::string family, encoding, encoding_why, encoding_title, encoding_source;
  std::string scaling;  // in force: "yarn x2 over 256 tokens"; empty where there is none
  json encoding_options = json::object();
  std::vector<EncodingNumber> encoding_numbers;
  std::map<std::string, std::int64_t> dtypes;  // tensors of each stored dtype
  std::vector<std::string> missing, unexpected, tied, quirks, warnings;
  std::vector<TensorInfo> flagged;     // NaN, Inf, all-zero or unsupported tensors
  std::vector<RopePlanRow> rope_plan;  // by layers; empty where none turns planes
  std::int64_t vocab_size = 0, kv_heads = 0, head_dim = 0, ffn_width = 0;
  std::int64_t weight_bytes = 0, memory_bytes_at_context = 0;
  std::int64_t length = 0, memory_bytes = 0;  // memory of a text as long as was asked for
  std::string dtype;                          // computed in
  std::string tokenizer, hash;
  template <class V>
  void fields(V& v) {
    v("model", model), v("family", family), v("encoding", encoding), v("scaling", scaling);
    v("length", length, About{.unit = "tokens"});
    v("memory_bytes", memory_bytes, About{.title = "memory", .unit = "bytes"}), v("dtype", dtype);
    v("encoding_why", encoding_why), v("encoding_title", encoding_title);
    v("encoding_source", encoding_source), v("encoding_options", encoding_options);
    v("encoding_numbers", encoding_numbers);
    v("dtypes", dtypes), v("missing", missing), v("unexpected", unexpected), v("tied", tied);
    v("quirks", quirks), v("warnings", warnings), v("flagged", flagged);
    v("rope_plan", rope_plan, About{.title = "rope plan"});
    v("vocab_size", vocab_size), v("kv_heads", kv_heads), v("head_dim", head_dim);
    v("ffn_width", ffn_width);
    v("weight_bytes", weight_bytes, About{.title = "weights", .unit = "bytes"});
    v("memory_bytes_at_context", memory_bytes_at_context,
      About{.title = "memory at the trained length", .unit = "bytes"});
    v("tokenizer", tokenizer);
    v("hash", hash);
  }
};

}  // namespace phasescope::protocol
