#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/safetensors.h"

namespace phasescope::model {

// A LoRA adapter in PEFT's layout (adapter_config.json, adapter_model.safetensors or .bin): W + s B
// A for chosen matrices (arXiv 2106.09685; s = alpha / r, or alpha / sqrt(r) where the file says
// rslora), and whole tensors that were trained along.
class Adapter {
 public:
  // Throws Error "bad_input" for anything but LoRA, and for what it cannot do of LoRA.
  static Adapter open(const std::filesystem::path& folder);

  // Finds the base tensor of every tensor here. Throws Error "bad_input" that lists those that have
  // none or do not fit.
  void check(const formats::TensorArchive& base, const std::string& where);
  // `tensor` of the base file with this name, with what belongs to it added.
  at::Tensor merged(const std::string& name, const at::Tensor& tensor) const;
  // For the load report.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Change {
    at::Tensor a, b;   // (r, in), (out, r)
    at::Tensor whole;  // in place of the base's
    bool embedding = false;
    double scale = 1;
  };

  double alpha_of(const std::string& module) const;
  // Throws Error "bad_input" where matrices have another rank than the configuration says.
  void check_ranks(const std::map<std::string, std::int64_t>& by_module,
                   const std::string& where) const;
  at::Tensor delta(const Change& change, at::ScalarType dtype) const;

  std::map<std::string, Change>
      changes_;  // by the adapter's name of the base tensor, then the base's
  std::vector<std::string> notes_;
  bool transposed_ = false;  // the base's matrices are (in, out)
  double alpha_ = 8;
  std::optional<std::int64_t> rank_;  // r, where the file says one
  formats::Json alpha_pattern_, rank_pattern_;
};

}  // namespace phasescope::model
