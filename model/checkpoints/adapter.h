#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/hf_config.h"
#include "formats/tensors/safetensors.h"
#include "formats/tokenizers/pattern.h"

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
  // `tensor` of the base file with this name, in the file's dtype, with what belongs to it added:
  // the product and the sum in float32 at least, rounded once to `dtype`.
  at::Tensor merged(const std::string& name, const at::Tensor& tensor, at::ScalarType dtype) const;
  // For the load report: remarks, and what the file's tensors hold (names as in the adapter's file;
  // flag as in LoadReport::Flagged, empty for nothing to tell).
  const std::vector<std::string>& notes() const { return notes_; }
  struct Stored {
    std::string name, dtype, flag;
    std::vector<std::int64_t> shape;
  };
  const std::vector<Stored>& stored() const { return stored_; }

 private:
  struct Change {
    at::Tensor a, b;   // (r, in), (out, r)
    at::Tensor whole;  // in place of the base's
    bool embedding = false;
    double scale = 1;
  };

  // Numbers that the configuration states for modules of certain names (alpha_pattern). PEFT
  // (get_pattern_key) takes the file's first key K whose regular expression (.*\.)?(K) is the whole
  // name of the module.
  class Rules {
   public:
    Rules() = default;
    // Throws Error "bad_input" for expressions that cannot be read; other problems go to `reader`.
    Rules(const formats::ConfigReader& reader, const std::string& key,
          const std::filesystem::path& file);
    // Nullopt where the file has none for the module. Throws Error "bad_input" where matching takes
    // longer than any sensible expressions do.
    std::optional<double> find(const std::string& module);

   private:
    std::vector<std::pair<formats::Pattern, double>> list_;
    std::string where_;
    std::chrono::steady_clock::duration spent_{};
  };

  void read_tensors(const formats::TensorArchive& archive, bool by_root,
                    std::map<std::string, std::int64_t>& ranks);
  // Throws Error "bad_input" where matrices have another rank than the configuration says.
  void check_ranks(const std::map<std::string, std::int64_t>& by_module, const std::string& where);
  at::Tensor delta(const Change& change, at::ScalarType dtype) const;

  std::map<std::string, Change>
      changes_;  // by the adapter's name of the base tensor, then the base's
  std::vector<std::string> notes_;
  bool transposed_ = false;  // the base's matrices are (in, out)
  double alpha_ = 8;
  std::optional<std::int64_t> rank_;  // r, where the file says one
  Rules alphas_, ranks_;
  std::vector<Stored> stored_;
};

}  // namespace phasescope::model
