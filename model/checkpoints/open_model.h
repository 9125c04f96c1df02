#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/file_system.h"
#include "formats/tokenizer.h"
#include "model/decoder.h"
#include "model/rope_plan.h"

namespace phasescope::model {

// What opening found; worker/ turns it into the protocol's LoadReport.
struct LoadReport {
  std::string name, path;  // as asked for; the folder or file it was found in
  bool bundled = false;
  std::string family;        // "llama", "tape_public", "phasescope"
  std::string encoding_why;  // "rpe_type is \"adape\"", ...; with the scaling in force
  std::map<std::string, std::int64_t> dtypes;  // tensors of each stored dtype
  // What weights were dequantised from: "from Q4_K (5 tensors) and Q6_K (2 tensors)"; empty where
  // none was.
  std::string weights_from;
  std::vector<std::string> missing, unexpected, tied, quirks, warnings;
  struct Flagged {
    std::string name, dtype, flag;  // flag: "nan", "inf", "all zero", "unsupported"
    std::vector<std::int64_t> shape;
  };
  std::vector<Flagged> flagged;
  std::int64_t parameters = 0;
  std::int64_t weight_bytes = 0;             // in the dtype computed in
  std::int64_t mapped_bytes = 0;             // of those, what is no copy: it stays in the file
  std::string mapped_words;                  // says so; one of the quirks
  std::int64_t memory_bytes_at_context = 0;  // memory_bytes() of the trained length
  StoredFrequencies stored_frequencies;      // what the file has of its rope beside its settings
  // The configuration as its family reads it, before any setting; null where there is no family's
  // library.
  std::shared_ptr<const ModelConfig> as_library;
  std::string tokenizer;        // its name(); empty where there is none
  std::string tokenizer_fault;  // why the one beside the model cannot be read
  std::string sha256;           // of the weights file(s)
};

// Shared by everybody who reads the same weights.
struct Model {
  LoadReport report;
  std::shared_ptr<const formats::Tokenizer> tokenizer;  // null where there is none
  Decoder decoder;

  const ModelConfig& config() const { return decoder.config(); }
  const Encoding& encoding() const { return decoder.encoding(); }
};

// How far the reading of weights is. Bytes are those of the tensors, as they are decoded, and of
// the files, which are hashed beside it.
struct LoadProgress {
  std::uint64_t done = 0, total = 0;
  double seconds = 0;  // since it began

  double fraction() const;  // 0..1
  // "1.2 of 13.5 GB, 20 s left"; no time before it can be told.
  std::string words() const;
};

// How weights come into memory. As it stands: as copies, whatever they take.
struct WeightsMemory {
  // Where a checkpoint's files have at least so many bytes together, tensors of a megabyte and more
  // that are computed with as they are stored are views of the mapped file (Weights::files): the
  // system reads their pages when they are first looked at, and may drop them again. Nobody may
  // write to the weights of such a model.
  std::uint64_t mapped_from = UINT64_MAX;
  // What copies may take, in bytes; 0: no limit. Where they would take nearly all of it, the large
  // tensors of layers stay in the mapped file as they are stored, and each layer is converted when
  // it runs. Where even that is too much, nothing is loaded.
  std::int64_t free_bytes = 0;
};

// What a model is computed in: the dtype of this name, or where that is "auto" float32, but on a
// device the 16-bit type that most numbers in its files have, if they do. Reads no weights.
at::ScalarType dtype_to_compute_in(const std::string& asked, const at::Device& device,
                                   const std::string& path_or_name);

struct OpenModelOptions {
  at::ScalarType dtype = at::kFloat;
  WeightsMemory memory = {};
  // `--set` pairs: see set_field in config.h.
  std::vector<std::pair<std::string, std::string>> overrides;
  std::function<bool()> cancelled;  // true ends the opening with Error "cancelled"
  std::function<void(const LoadProgress&)> progress;  // while weights are read
};

// Opens a folder in Hugging Face layout, a folder of a LoRA adapter (merged into the base model
// that lies beside it), a job's folder (its newest verified checkpoint), a checkpoint folder, a
// file of weights beside a config.json, a GGUF file, or a bundled model by its name. Quantised
// weights are decoded once, as they are read. Everything is checked
// against the configuration before weights are read. Throws Error "bad_input", and "out_of_memory"
// where the weights cannot fit.
std::shared_ptr<const Model> open_model(const std::string& path_or_name,
                                        const OpenModelOptions& options = {});

// A model of the same weights with fields of the configuration changed (`--set`); `name` is what
// the report calls it, the model's own where empty.
std::shared_ptr<const Model> with_overrides(
    const std::shared_ptr<const Model>& model,
    const std::vector<std::pair<std::string, std::string>>& overrides,
    const std::string& name = {});

// The model in another dtype.
std::shared_ptr<const Model> in_dtype(const std::shared_ptr<const Model>& model,
                                      at::ScalarType dtype);

// The model with its weights on a device, where its forward passes run.
std::shared_ptr<const Model> on_device(const std::shared_ptr<const Model>& model,
                                       const at::Device& device);

// A model of random weights, for tests and for sizes nobody has trained.
std::shared_ptr<const Model> random_model(const ModelConfig& config, std::uint64_t seed,
                                          at::ScalarType dtype = at::kFloat);

// A model around weights that are there, a trainer's for instance.
std::shared_ptr<const Model> model_of(ModelConfig config, Weights weights, const std::string& name);

// About what reading a text of `length` tokens takes: `weight_bytes`, one layer's activations, and
// a block of logits, of `item_bytes` a number.
std::int64_t memory_bytes(const ModelConfig& config, std::int64_t weight_bytes,
                          std::int64_t item_bytes, std::int64_t length);

struct BundledModel {
  std::string name;
  std::filesystem::path folder;
  ModelConfig config;
};
// The folders of assets/models, by name; those that cannot be read are left out.
std::vector<BundledModel> bundled_models();
// Where assets are: $PHASESCOPE_ASSETS, else share/phasescope beside the program's folder, else the
// source tree's assets.
std::filesystem::path assets_folder();

// Writes FOLDER/model.safetensors and FOLDER/config.json (the folder must be there). Tensors are
// stored in `dtype`.
void save_model(formats::FileSystem& fs, const std::filesystem::path& folder,
                const ModelConfig& config, const Encoding& encoding, const Weights& weights,
                at::ScalarType dtype = at::kFloat);

}  // namespace phasescope::model
