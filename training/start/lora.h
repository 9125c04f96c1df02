#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "model/decoder.h"
#include "training/adamw.h"
#include "training/run_config.h"

namespace phasescope::training {

// Products of two matrices of low rank that are trained beside chosen ones: W + alpha / r B A
// (LoRA, arXiv 2106.09685, Section 4.1), A (r, in) even in +-1/sqrt(in) as PEFT draws it, B (out,
// r) 0, so that the first step begins with the model itself.
class Lora {
 public:
  static constexpr const char* kAdapterFile = "adapter_model.safetensors";

  // Nothing where start.lora_rank is 0. Throws Error "bad_input" for patterns that name no matrix.
  Lora(const StartSection& start, const model::Decoder& decoder, std::uint64_t seed);

  bool there() const { return !changes_.empty(); }
  bool changes(const std::string& name) const;
  // "NAME.lora_A", "NAME.lora_B", both with weight decay.
  std::vector<AdamW::Parameter> parameters() const;
  // Puts W + alpha / r B A in the place of every W; differentiable where gradients are wanted.
  void apply(model::Weights& weights) const;
  model::NamedTensors tensors() const;

  // adapter_model.safetensors and adapter_config.json in PEFT's layout, of the model in `base`;
  // `whole`: tensors in place of the base's.
  void write_adapter(formats::FileSystem& fs, const std::filesystem::path& folder,
                     const std::string& base, const model::NamedTensors& whole) const;
  // What such a file calls a tensor of the base.
  static std::string name_in_adapter(const std::string& name);

 private:
  struct Change {
    std::string name;
    at::Tensor w, a, b;
  };
  std::vector<Change> changes_;
  std::int64_t rank_ = 0;
  double alpha_ = 0;
};

}  // namespace phasescope::training
