#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hf_config.h"
#include "formats/quantised/stored_tensor.h"
#include "formats/tensors/packed_tensor.h"

// One way to keep weights in fewer bits, as `quantization_config` of a config.json names it.

namespace phasescope::formats {

// Decoding costs least with about so many elements at a time where columns are gathered.
inline constexpr std::uint64_t kElementsGathered = std::uint64_t{1} << 22;

// A tensor of the plain checkpoint, and what stands for it in the file.
struct PackedPlace {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string label;  // "GPTQ int4"
  std::unique_ptr<PackedTensor> tensor;
  std::vector<std::string> used;  // names in the file that are no tensors of their own
};

// The tensors of a checkpoint by name; none, of a configuration by itself.
class StoredTensors {
 public:
  StoredTensors() = default;
  explicit StoredTensors(const TensorArchive& archive) : archive_(&archive) {}

  const std::vector<TensorEntry>& all() const;
  std::optional<StoredTensor> find(const std::string& name) const;
  // Throws Error "bad_input" that says which tensor cannot be decoded without it.
  StoredTensor get(const std::string& name, const std::string& for_name) const;

 private:
  const TensorArchive* archive_ = nullptr;
};

struct Quantiser {
  std::string_view method;  // quant_method
  // Finds every tensor kept so, and checks types, shapes and sizes; reads scales only where a shape
  // depends on them. Problems of the configuration go to `config`.
  std::vector<PackedPlace> (*find)(const StoredTensors& tensors, const ConfigReader& config);
};

Quantiser fp8_quantiser();
Quantiser mxfp4_quantiser();
Quantiser gptq_quantiser();
Quantiser awq_quantiser();
Quantiser compressed_tensors_quantiser();
Quantiser bitsandbytes_quantiser();

// A weight in 8-bit floats (F8_E4M3 or F8_E5M2) times its scale: one for all (shape [] or [1]), one
// a row ([o, 1]), or one for each block of rows and columns ([ceil(o / rows), ceil(i / columns)]).
// Dimensions before the last two are matrices of their own, in both.
struct ScaleBlocks {
  std::int64_t rows = 0, columns = 0;  // 0: the scale's shape must say it
};
PackedPlace scaled_fp8(const StoredTensor& weight, const StoredTensor& scale, ScaleBlocks blocks);

// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.qweight" and ".qweight"; nullopt
// where the name does not end so.
std::optional<std::string> without_ending(const std::string& name, std::string_view ending);

}  // namespace phasescope::formats
