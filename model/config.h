#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/hf_config.h"
#include "formats/json.h"

namespace phasescope::model {

using formats::Json;

// Which encoding, and its options by name. Options that are left out take the encoding's defaults
// (encoding.h); in files both stand in one object: {"key": "rope", "base": 10000}.
struct EncodingConfig {
  std::string key = "rope";
  Json options = Json::object();
};

// What every checkpoint is translated to before anything runs: a pre-norm decoder with RMSNorm,
// gated MLP and one positional encoding.
struct ModelConfig {
  std::string family = "phasescope";  // where the checkpoint came from; nothing depends on it
  std::int64_t vocab_size = 256;
  std::int64_t width = 192;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;  // divides heads
  std::int64_t head_dim = 48;
  std::int64_t ffn_width = 512;
  std::int64_t context = 256;        // the length it was trained for
  std::string activation = "silu";   // of the MLP's gate: silu, gelu, gelu_tanh, relu
  double norm_eps = 1e-5;
  bool tie_embeddings = false;       // the head is the embedding's transpose
  bool attention_bias = false;       // on q, k, v and o
  bool mlp_bias = false;
  double init_std = 0.05;            // of init_weights
  EncodingConfig encoding;
  Json tokenizer;                    // {"type": "bytes", ...}; null where none is known
  std::string note;                  // a departure from the papers, shown wherever the model is
};

// Reads our own form. Every field may have its usual name in Hugging Face's files ("hidden_size")
// or ours ("width"); unknown keys are problems that name the near ones. All problems are listed in
// one Error "bad_input". `where` names the file.
ModelConfig read_model_config(const Json& object, const std::string& where);

// Our own form with Hugging Face's field names and "model_type": "phasescope".
Json write_model_config(const ModelConfig& config);

// Sizes that cannot be: zero, not dividing, too many layers, an odd head size where the encoding
// needs pairs, options the encoding does not know. Allocates nothing.
void check_model_config(const ModelConfig& config, formats::ConfigProblems& problems);

// Changes one field by its dotted name, as `--set` does: "encoding.base", the encoding's own key for
// "encoding" ("rope.base"), or a field of ModelConfig. `value` is JSON, or text where it is not.
// Throws Error "bad_usage" for a name that is not there.
void set_field(ModelConfig& config, const std::string& name, const std::string& value);

}  // namespace phasescope::model
