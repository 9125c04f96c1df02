#pragma once
// Parts that requests share. What is said here of an option is said of it in every verb.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/field_types.h"

namespace phasescope::protocol {

inline constexpr double kMostTokens = 1LL << 40;

// What is said of arguments and options that more than one request has. A test sees that no help is
// written twice.
inline constexpr About kModelAbout{
    .help =
        "bundled name, or a folder, .safetensors or .gguf file; ./NAME is the folder where a "
        "bundled model has that name too",
    .argument = "MODEL"};
inline constexpr About kModelsAbout{
    .help =
        "one or more: bundled names, folders, .safetensors or .gguf files; ./NAME is the folder "
        "where a bundled model has that name too",
    .argument = "MODEL",
    .alias = "model"};
inline constexpr About kStackAbout{
    .help = "which stack of an encoder-decoder: dec (default), enc or cross"};
inline constexpr About kSetAbout{
    .help = "a setting of the model to override, e.g. encoding.base=1e6 (may be repeated)"};
inline constexpr About kDeviceAbout{
    .help = "where models are run: cpu or cuda[:i] (default: the worker's)"};
inline constexpr About kThreadsAbout{
    .help = "threads of the worker that is started for the command", .low = 1, .high = 1024};
inline constexpr About kBackendAbout{
    .help =
        "what runs attention (cuda-unverified: the CUDA kernels, which have never run on a device)",
    .title = "Attention runs",
    .choices = "fused|plain|cuda-unverified|auto"};
inline constexpr About kInputAbout{.help = "what is read"};
inline constexpr About kSeedAbout{.help = "seed of everything drawn", .low = 0};
inline constexpr About kFolderAbout{.help = "folder to write", .wire_only = true};
inline constexpr About kCorpusAbout{
    .help =
        "read many texts: the bundled validation texts, or those of a file, a folder (with the "
        "folders in it) or a .jsonl file",
    .excludes = "input"};
inline constexpr const char* kDtypes = "f32|f64|bf16|f16";
inline constexpr About kComputedInAbout{
    .help =
        "number format that the model computes in (auto: f32 on the cpu; on a device the one "
        "of its file where that is bf16 or f16, which its attention kernels take, and f32 "
        "otherwise)",
    .title = "Computed in",
    .choices = "auto|f32|f64|bf16|f16"};

// Where a worker that is started computes.
struct Place {
  std::string device;
  std::int64_t threads = 0;
  template <class V>
  void fields(V& v) {
    v("device", device, kDeviceAbout), v("threads", threads, kThreadsAbout);
  }
};

// Settings of the models that a command names.
struct ModelSettings {
  Assignments set;
  template <class V>
  void fields(V& v) {
    v("set", set, kSetAbout);
  }
};

// How a model is opened, where nobody chooses what runs its attention.
struct Opening {
  Assignments set;
  std::string dtype = "auto";
  std::string device;
  std::int64_t threads = 0;
  template <class V>
  void fields(V& v) {
    v("set", set, kSetAbout);
    v("dtype", dtype, kComputedInAbout);
    v("device", device, kDeviceAbout), v("threads", threads, kThreadsAbout);
  }
};

// How a model is opened and run.
struct Running : Opening {
  std::string backend = "fused";
  template <class V>
  void fields(V& v) {
    Opening::fields(v);
    v("backend", backend, kBackendAbout);
  }
};

// How a model is opened that is run in float32 and in float64 both.
struct RunningInBoth : Running {
  RunningInBoth() { dtype = "f32"; }
  template <class V>
  void fields(V& v) {
    v("set", set, kSetAbout);
    v("device", device, kDeviceAbout), v("threads", threads, kThreadsAbout);
    v("backend", backend, kBackendAbout);
  }
};

// What is read. Where nothing is given, a request has a default of its own: the text of a first
// session or the bundled validation texts, and of a model without a tokenizer ids drawn by the
// seed.
struct Reading {
  Input input;
  std::int64_t length = 0;
  std::int64_t seed = 0;
  template <class V>
  void fields(V& v) {
    v("input", input, kInputAbout);
    v("length", length,
      About{.help = "tokens read of a text (default: the model's trained context)",
            .unit = "tokens",
            .low = 1,
            .high = kMostTokens});
    v("seed", seed, kSeedAbout);
  }
};

// What is read where many texts can be.
struct ReadingMany : Reading {
  Corpus corpus;
  template <class V>
  void fields(V& v) {
    Reading::fields(v);
    v("corpus", corpus, kCorpusAbout);
  }
};

}  // namespace phasescope::protocol
