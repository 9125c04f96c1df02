#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "formats/file_system.h"
#include "formats/json.h"
#include "model/checkpoints/tensor_io.h"

// Checkpoints of one encoder layer as APE's public classes name their tensors.

namespace phasescope::model {

constexpr std::int64_t kApeFfn = 20;

inline Json ape_config(const Json& encoding, std::int64_t vocab, std::int64_t heads,
                       std::int64_t width) {
  return {{"model_type", "phasescope"},   {"vocab_size", vocab},
          {"hidden_size", width},         {"num_hidden_layers", 1},
          {"num_attention_heads", heads}, {"intermediate_size", kApeFfn},
          {"encoding", encoding},         {"attention", {{"causal", true}}}};
}

// Random tensors of one encoder layer and an embedding, by name.
inline std::map<std::string, at::Tensor> ape_tensors(std::int64_t vocab, std::int64_t width) {
  std::map<std::string, at::Tensor> tensors;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const auto add = [&](const std::string& name, at::IntArrayRef shape) {
    tensors[name] = at::empty(shape).normal_(0, 0.5, generator);
  };
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  };
  const std::string at = "encoder.encoder_layers.0.";
  linear(at + "mha.linear", 3 * width, width);
  linear(at + "mha.out", width, width);
  linear(at + "ffn.0", kApeFfn, width);
  linear(at + "ffn.2", width, kApeFfn);
  for (const char* norm : {"mha_ln", "ffn_ln"}) {
    add(at + norm + ".weight", {width});
    add(at + norm + ".bias", {width});
  }
  add("embedding.weight", {vocab, width});
  return tensors;
}

inline void write_ape(const std::filesystem::path& folder, const Json& config,
                      const std::map<std::string, at::Tensor>& tensors) {
  write_tensors(formats::real_file_system(), folder / "model.safetensors",
                NamedTensors(tensors.begin(), tensors.end()));
  std::ofstream(folder / "config.json") << config;
}

}  // namespace phasescope::model
