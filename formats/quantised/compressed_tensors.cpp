// What the package compressed-tensors writes (llm-compressor): whole numbers of 4 bits packed along
// the inputs, or 8-bit floats with scales.
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/quantised/int4.h"
#include "formats/quantised/quantiser.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// `weights` of the groups of layers in config_groups.
struct WeightsScheme {
  std::int64_t bits = 0, group_size = 0;
  ScaleBlocks blocks;
  std::string type;
  bool operator==(const WeightsScheme& other) const {
    return bits == other.bits && group_size == other.group_size && type == other.type &&
           blocks.rows == other.blocks.rows && blocks.columns == other.blocks.columns;
  }
};

WeightsScheme scheme_of(const ConfigReader& weights) {
  WeightsScheme scheme;
  scheme.bits = weights.integer_or({"num_bits"}, 8, {1, 64});
  scheme.type = weights.text_or({"type"}, "int");
  scheme.group_size = group_size_of(weights);
  const auto block = weights.numbers({"block_structure"}, {1, 1 << 20});
  if (block && block->size() == 2) {
    scheme.blocks = {static_cast<std::int64_t>((*block)[0]),
                     static_cast<std::int64_t>((*block)[1])};
  }
  return scheme;
}

// The one of all groups: which layers a group means is not looked at.
std::optional<WeightsScheme> scheme_of_all(const ConfigReader& config) {
  const Json* groups = config.raw("config_groups");
  const auto section = config.section("config_groups");
  std::optional<WeightsScheme> scheme;
  if (!section) return scheme;
  for (const auto& [name, group] : groups->items()) {
    const auto one = section->section(name);
    const auto weights = one ? one->section("weights") : std::nullopt;
    if (!weights) continue;
    const WeightsScheme read = scheme_of(*weights);
    if (scheme && !(*scheme == read)) {
      config.problem("config_groups", "keeps layers in different ways, which cannot be read");
    }
    scheme = read;
  }
  return scheme;
}

class PackedInputs : public PackedTensor {
 public:
  PackedInputs(StoredTensor weights, StoredTensor scales, std::optional<StoredTensor> zeros,
               Groups groups, std::uint64_t inputs)
      : weights_(std::move(weights)),
        scales_(std::move(scales)),
        zeros_(std::move(zeros)),
        groups_(std::move(groups)),
        inputs_(inputs),
        words_(static_cast<std::uint64_t>(weights_.size(1))),
        scales_of_row_(static_cast<std::uint64_t>(scales_.size(1))) {}

  std::uint64_t step() const override { return inputs_; }

  void decode(std::uint64_t first, std::span<float> out) const override {
    const std::uint64_t begin = first / inputs_, count = out.size() / inputs_;
    const auto weights = weights_.words(begin * words_, count * words_);
    const auto scales = scales_.floats(begin * scales_of_row_, count * scales_of_row_);
    // Zero points are packed along the outputs.
    const std::uint64_t zero_row = begin / 8, zero_end = (begin + count + 7) / 8;
    const auto zeros =
        zeros_ ? zeros_->words(zero_row * scales_of_row_, (zero_end - zero_row) * scales_of_row_)
               : std::vector<std::uint32_t>();
    const auto groups = groups_.of_inputs();
    for (std::uint64_t o = 0; o < count; ++o) {
      const std::uint64_t zero_at = ((begin + o) / 8 - zero_row) * scales_of_row_;
      for (std::uint64_t i = 0; i < inputs_; ++i) {
        const unsigned zero = zeros_ ? nibble(zeros[zero_at + groups[i]], begin + o) : 8;
        const unsigned code = nibble(weights[o * words_ + i / 8], i);
        out[o * inputs_ + i] = scales[o * scales_of_row_ + groups[i]] *
                               (static_cast<float>(code) - static_cast<float>(zero));
      }
    }
  }

 private:
  StoredTensor weights_, scales_;
  std::optional<StoredTensor> zeros_;
  Groups groups_;
  std::uint64_t inputs_, words_, scales_of_row_;
};

// weight_shape, checked against the words.
std::vector<std::int64_t> plain_shape(const StoredTensor& shape, const StoredTensor& weights) {
  shape.require_shape({2});
  const std::vector<std::int64_t> sizes = shape.integers();
  const bool fits = sizes[0] > 0 && sizes[1] > 0 && sizes[0] == weights.size(0) &&
                    sizes[1] <= 8 * weights.size(1) && sizes[1] > 8 * (weights.size(1) - 1);
  if (!fits) {
    shape.fail("says " + shape_text(sizes) + ", and the packed weight has the shape " +
               shape_text(weights.shape()));
  }
  return sizes;
}

PackedPlace packed_place(const StoredTensors& tensors, const std::string& module,
                         const WeightsScheme& scheme) {
  const StoredTensor weights = *tensors.find(module + ".weight_packed");
  const std::string& name = weights.entry().name;
  const StoredTensor scales = tensors.get(module + ".weight_scale", name);
  const StoredTensor shape = tensors.get(module + ".weight_shape", name);
  const std::optional<StoredTensor> zeros = tensors.find(module + ".weight_zero_point");
  std::optional<StoredTensor> index = tensors.find(module + ".weight_g_idx");
  weights.require_type({"I32"});
  weights.require_dimensions(2);
  const std::vector<std::int64_t> sizes = plain_shape(shape, weights);
  scales.require_type({"F16", "BF16", "F32"});
  scales.require_dimensions(2);
  scales.require_shape({sizes[0], scales.size(1)});
  PackedPlace place{module + ".weight",
                    sizes,
                    "compressed-tensors int4",
                    nullptr,
                    {name, scales.entry().name, shape.entry().name}};
  if (zeros) {
    zeros->require_type({"I32"});
    zeros->require_shape({(sizes[0] + 7) / 8, scales.size(1)});
    place.used.push_back(zeros->entry().name);
  }
  if (index) place.used.push_back(index->entry().name);
  const auto inputs = static_cast<std::uint64_t>(sizes[1]);
  Groups groups(scales, static_cast<std::uint64_t>(scales.size(1)), inputs, scheme.group_size,
                std::move(index));
  place.tensor = std::make_unique<PackedInputs>(weights, scales, zeros, std::move(groups), inputs);
  return place;
}

std::vector<PackedPlace> find_packed(const StoredTensors& tensors, const ConfigReader& config,
                                     const WeightsScheme& scheme) {
  std::vector<PackedPlace> places;
  if (scheme.bits != 4 || scheme.type != "int") {
    config.problem("config_groups", "packs " + shortened(scheme.type) + " of " +
                                        std::to_string(scheme.bits) +
                                        " bits, and int of 4 bits alone can be read");
    return places;
  }
  for (const TensorEntry& entry : tensors.all()) {
    const auto module = without_ending(entry.name, ".weight_packed");
    if (module) places.push_back(packed_place(tensors, *module, scheme));
  }
  return places;
}

std::vector<PackedPlace> find_floats(const StoredTensors& tensors, const WeightsScheme& scheme) {
  std::vector<PackedPlace> places;
  for (const TensorEntry& entry : tensors.all()) {
    if (entry.dtype_name != "F8_E4M3") continue;
    const StoredTensor scale = tensors.get(entry.name + "_scale", entry.name);
    places.push_back(scaled_fp8(*tensors.find(entry.name), scale, scheme.blocks));
    places.back().label = "compressed-tensors " + places.back().label;
    const auto module = without_ending(entry.name, ".weight");
    // The scale of a layer's inputs is for computing in 8 bits.
    if (module && tensors.find(*module + ".input_scale")) {
      places.back().used.push_back(*module + ".input_scale");
    }
  }
  return places;
}

std::vector<PackedPlace> find_compressed(const StoredTensors& tensors, const ConfigReader& config) {
  // Rotations that are carried out as the model runs, so that its weights alone are another one's.
  const Json* rotations = config.raw("transform_config");
  if (rotations != nullptr && !rotations->empty()) {
    config.problem("transform_config", "rotations between the layers cannot be read");
  }
  const std::string format = config.text_or({"format"}, "");
  const auto scheme = scheme_of_all(config);
  if (!config.problems().empty()) return {};
  const bool floats = scheme && scheme->type == "float" && scheme->bits == 8;
  if (scheme && format == "pack-quantized") return find_packed(tensors, config, *scheme);
  if (floats && (format == "float-quantized" || format == "naive-quantized")) {
    return find_floats(tensors, *scheme);
  }
  if (!scheme) config.problem("config_groups", "does not say how weights are kept");
  config.problem("format", "is " + in_quotes(format) +
                               ", which cannot be read; known: pack-quantized (4 bits), "
                               "float-quantized (8 bits)");
  return {};
}

}  // namespace

Quantiser compressed_tensors_quantiser() { return {"compressed-tensors", find_compressed}; }

}  // namespace phasescope::formats
