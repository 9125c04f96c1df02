#pragma once
// The one run-configuration schema: {model, encoding, positions, data, train, eval}. Every key is a
// member of a struct below, so that reading, writing, checking and `--set` share one list. Unknown
// keys are errors that name the near ones. No LibTorch here.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::training {

// A decoder with RMS norms and a SwiGLU. Sizes in channels and tokens.
struct ModelSection {
  int64_t vocab_size = 256;
  int64_t context = 256;  // trained length, tokens
  int64_t layers = 4;
  int64_t width = 192;
  int64_t heads = 4;
  int64_t kv_heads = 4;
  int64_t ffn_width = 512;
  double norm_eps = 1e-5;
  double init_std = 0.05;  // residual outputs get init_std / sqrt(2 layers)
  std::string note;        // a departure from a paper, shown wherever the model is
  template <class V>
  void fields(V& v) {
    v("vocab_size", vocab_size), v("context", context), v("layers", layers), v("width", width);
    v("heads", heads), v("kv_heads", kv_heads), v("ffn_width", ffn_width);
    v("norm_eps", norm_eps), v("init_std", init_std), v("note", note);
  }
};

// What stands between a token's place in a window and its position, for any encoding; the members
// of model::PositionsConfig.
struct PositionsSection {
  std::string map = "identity";  // shift, interpolate, random, random_by_layer
  int64_t shift = 0;
  double factor = 1;
  int64_t range = 0;              // of the draws; 0: twice the context
  std::string draw = "training";  // always: outside training too
  int64_t seed = 1;               // of the draw outside training
  template <class V>
  void fields(V& v) {
    v("map", map), v("shift", shift), v("factor", factor), v("range", range);
    v("draw", draw), v("seed", seed);
  }
};

struct DataSection {
  // "desk": the English texts that tools/make_corpus.py puts together; else a text file's path.
  std::string corpus = "desk";
  std::string validation = "desk";  // "desk": the bundled validation texts; else a .jsonl or text
  int64_t bos = 0;                  // the id at every window's start
  std::string corpus_sha256;        // filled in when a job starts; a resume refuses another corpus
  template <class V>
  void fields(V& v) {
    v("corpus", corpus), v("validation", validation), v("bos", bos);
    v("corpus_sha256", corpus_sha256);
  }
};

// Windows of `length` tokens for the share `share` of all steps; stages follow each other in the
// order listed, what is left of the steps has windows of the full context.
struct CurriculumStage {
  int64_t length = 0;
  double share = 0;
  template <class V>
  void fields(V& v) {
    v("length", length), v("share", share);
  }
  bool operator==(const CurriculumStage&) const = default;
};

struct TrainSection {
  int64_t steps = 2442;
  int64_t batch_tokens = 2048;  // a step, whatever the windows' length
  int64_t checkpoint_every = 200;
  int64_t keep_checkpoints = 2;
  std::vector<int64_t> keep_steps;  // checkpoints of these steps are never deleted
  int64_t seed = 1;
  int64_t threads = 1;
  std::string dtype = "bf16";    // of the matrix products; weights and sums stay f32
  std::string backend = "auto";  // auto, fused, plain, cuda-unverified
  double learning_rate = 2e-3;
  double final_share = 0.05;  // of the learning rate, at the last step
  int64_t warmup_steps = 100;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  // of matrices alone
  double clip = 1.0;          // global gradient norm; 0 is off
  std::vector<CurriculumStage> curriculum;
  template <class V>
  void fields(V& v) {
    v("steps", steps), v("batch_tokens", batch_tokens), v("checkpoint_every", checkpoint_every);
    v("keep_checkpoints", keep_checkpoints), v("keep_steps", keep_steps), v("seed", seed);
    v("threads", threads), v("dtype", dtype), v("backend", backend);
    v("learning_rate", learning_rate), v("final_share", final_share);
    v("warmup_steps", warmup_steps), v("beta1", beta1), v("beta2", beta2), v("epsilon", epsilon);
    v("weight_decay", weight_decay), v("clip", clip), v("curriculum", curriculum);
  }
};

// Validation while training.
struct EvalSection {
  int64_t every = 100;   // steps; 0: at the end alone
  int64_t windows = 64;  // of the context's length, spread over the validation texts
  template <class V>
  void fields(V& v) {
    v("every", every), v("windows", windows);
  }
};

struct RunConfig {
  ModelSection model;
  // {"key": ..., options of the encoding}; the encoding's own list checks the options.
  nlohmann::json encoding = {{"key", "rope"}};
  PositionsSection positions;
  DataSection data;
  TrainSection train;
  EvalSection eval;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("positions", positions);
    v("data", data), v("train", train), v("eval", eval);
  }
};

// Reads and checks a configuration; `where` names its file in errors. Throws Error "bad_input" with
// all problems in one message: unknown keys (with the near ones), wrong types, values out of range.
RunConfig run_config_from_json(const nlohmann::json& json, const std::string& where);
nlohmann::json to_json(const RunConfig& config);
RunConfig run_config_from_file(const std::filesystem::path& path);

// Applies "a.b=c" to a configuration's JSON. The value is read as JSON where it is JSON, as text
// otherwise. Throws Error "bad_usage" for an address that the schema does not have (with the near
// ones) or an assignment without "=". Options of `encoding` are taken as they come.
void apply_setting(nlohmann::json& json, std::string_view assignment);

// Every dotted key of the schema, "train.steps" and so on; `encoding` is there as "encoding.key".
std::vector<std::string> known_keys();

// The dotted keys whose values differ, for messages.
std::vector<std::string> differing_keys(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace phasescope::training
