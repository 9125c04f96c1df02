#pragma once
// What makes a result repeatable, and a number with its interval.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::protocol {

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

// Those of a result: its own, one of each model, or those of its models' parts; none where it has
// none.
template <class Result>
std::vector<Provenance> provenances(const Result& result) {
  if constexpr (requires { result.provenance.command; }) {
    return {result.provenance};
  } else if constexpr (requires { result.provenance; }) {
    return result.provenance;
  } else if constexpr (requires { result.models.front().provenance; }) {
    std::vector<Provenance> all;
    for (const auto& model : result.models) all.push_back(model.provenance);
    return all;
  } else {
    return {};
  }
}

// A number measured on samples: mean and its 95 % interval, n samples (texts unless said).
struct Interval {
  double mean = 0, low = 0, high = 0;
  int64_t n = 0;
  template <class V>
  void fields(V& v) {
    v("mean", mean), v("low", low), v("high", high), v("n", n);
  }
};

}  // namespace phasescope::protocol
