#pragma once
// Parts that requests share. What is said here of an option is said of it in every verb.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/field_types.h"

namespace phasescope::protocol {

inline constexpr double kMostTokens = 1LL << 40;

// What MODEL may be.
inline constexpr const char* kModelHelp =
    "bundled name, or a folder or .safetensors file; ./NAME is the folder where a bundled model "
    "has that name too";
inline constexpr const char* kModelsHelp =
    "one or more: bundled names, folders, .safetensors files; ./NAME is the folder where a bundled "
    "model has that name too";

// How a model is opened.
struct Opening {
  Assignments set;
  std::string dtype = "f32";
  std::string device;
  std::int64_t threads = 0;
  template <class V>
  void fields(V& v) {
    v("set", set, About{.help = "override, e.g. encoding.base=1e6 (may be repeated)"});
    v("dtype", dtype, About{.help = "computed in", .choices = "f32|f64|bf16|f16"});
    v("device", device, About{.help = "cpu or cuda[:i] (default: the worker's)"});
    v("threads", threads,
      About{.help = "threads of the worker that is started for it", .low = 1, .high = 1024});
  }
};

// The same of a model that is run.
struct Running : Opening {
  std::string backend = "fused";
  template <class V>
  void fields(V& v) {
    Opening::fields(v);
    v("backend", backend,
      About{.help = "what runs attention: cuda-unverified are the CUDA kernels, which have never "
                    "run on a device",
            .choices = "fused|plain|cuda-unverified|auto"});
  }
};

// What is read: of nothing given, the text of a first session, or the bundled validation texts. A
// model without a tokenizer then reads ids drawn by the seed.
struct Reading {
  Input input;
  std::int64_t length = 0;
  std::int64_t seed = 0;
  template <class V>
  void fields(V& v) {
    v("input", input, About{.help = "what is read"});
    v("length", length,
      About{.help = "tokens read of a text (default: the model's trained context)",
            .low = 1,
            .high = kMostTokens});
    v("seed", seed, About{.help = "seed of everything drawn"});
  }
};

// The same where many texts can be read.
struct ReadingMany : Reading {
  Corpus corpus;
  template <class V>
  void fields(V& v) {
    Reading::fields(v);
    v("corpus", corpus,
      About{.help =
                "over many texts: the bundled validation texts, or those of a file, a folder or "
                "a .jsonl file"});
  }
};

}  // namespace phasescope::protocol
