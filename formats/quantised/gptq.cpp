// GPTQ (arXiv 2210.17323) and AWQ (arXiv 2306.00978) as their tools write checkpoints: whole
// numbers of 4 bits, packed along inputs or outputs; W[o, i] = scale[g, o] (q[i, o] - zero[g, o])
// with g the group of input i.
#include <algorithm>
#include <array>

#include "formats/quantised/int4.h"
#include "formats/quantised/quantiser.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// Which of eight outputs bits 4k .. 4k + 3 of a word hold.
using Order = std::array<std::uint8_t, 8>;
constexpr Order kInOrder = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr Order kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

struct Packing {
  bool along_inputs;   // of the weights: eight inputs of one output in a word
  Order order;         // of the outputs in a word
  unsigned zero_plus;  // a stored zero point is so much less than the real one, modulo 16
};

struct PackedLinear {
  StoredTensor weights, zeros, scales;
};

class GroupedInt4 : public PackedTensor {
 public:
  GroupedInt4(PackedLinear tensors, Groups groups, const Packing& packing)
      : t_(std::move(tensors)),
        groups_(std::move(groups)),
        packing_(packing),
        inputs_(static_cast<std::uint64_t>(t_.weights.size(0)) * (packing.along_inputs ? 8 : 1)),
        outputs_(static_cast<std::uint64_t>(t_.scales.size(1))) {
    for (std::uint64_t k = 0; k < 8; ++k) place_[packing.order[k]] = k;
  }

  // Whole words of outputs.
  std::uint64_t step() const override {
    return std::max<std::uint64_t>(kElementsGathered / inputs_ / 8, 1) * 8 * inputs_;
  }

  void decode(std::uint64_t first, std::span<float> out) const override {
    for (std::uint64_t done = 0; done < out.size(); done += step()) {
      const std::uint64_t count = std::min(step(), out.size() - done) / inputs_;
      decode_outputs((first + done) / inputs_, count, out.subspan(done, count * inputs_));
    }
  }

 private:
  // `begin` is a multiple of 8, and so is the number of all outputs.
  void decode_outputs(std::uint64_t begin, std::uint64_t count, std::span<float> out) const {
    const bool along_inputs = packing_.along_inputs;
    const std::uint64_t words = count / 8, width = along_inputs ? count : words;
    const auto weights = columns_of_words(t_.weights, along_inputs ? begin : begin / 8, width);
    const auto zeros = columns_of_words(t_.zeros, begin / 8, words);
    const auto scales = columns_of_floats(t_.scales, begin, count);
    const auto groups = groups_.of_inputs();
    for (std::uint64_t o = 0; o < count; ++o) {
      const std::uint64_t place = place_[o % 8];
      for (std::uint64_t i = 0; i < inputs_; ++i) {
        const unsigned code = along_inputs ? nibble(weights[i / 8 * width + o], i)
                                           : nibble(weights[i * width + o / 8], place);
        const unsigned stored = nibble(zeros[groups[i] * words + o / 8], place);
        const unsigned zero = (stored + packing_.zero_plus) & 15;
        out[o * inputs_ + i] =
            scales[groups[i] * count + o] * (static_cast<float>(code) - static_cast<float>(zero));
      }
    }
  }

  PackedLinear t_;
  Groups groups_;
  Packing packing_;
  std::uint64_t inputs_, outputs_;
  std::array<std::uint64_t, 8> place_ = {};
};

PackedPlace grouped_place(const StoredTensors& tensors, const std::string& module,
                          const Packing& packing, std::int64_t group_size,
                          const std::string& label) {
  const std::string weight = module + ".qweight";
  const PackedLinear t = {*tensors.find(weight), tensors.get(module + ".qzeros", weight),
                          tensors.get(module + ".scales", weight)};
  t.weights.require_type({"I32"});
  t.zeros.require_type({"I32"});
  t.scales.require_type({"F16", "BF16", "F32"});
  for (const StoredTensor* tensor : {&t.weights, &t.zeros, &t.scales}) {
    tensor->require_dimensions(2);
    if (tensor->entry().element_count() == 0) tensor->fail("has no elements");
  }
  const std::int64_t groups = t.scales.size(0), outputs = t.scales.size(1);
  const std::int64_t inputs = t.weights.size(0) * (packing.along_inputs ? 8 : 1);
  if (outputs % 8 != 0) {
    t.scales.fail("has " + std::to_string(outputs) + " outputs, no whole words");
  }
  t.weights.require_shape({t.weights.size(0), packing.along_inputs ? outputs : outputs / 8});
  t.zeros.require_shape({groups, outputs / 8});
  PackedPlace place{module + ".weight",
                    {outputs, inputs},
                    label,
                    nullptr,
                    {weight, t.zeros.entry().name, t.scales.entry().name}};
  std::optional<StoredTensor> index = tensors.find(module + ".g_idx");
  if (index) place.used.push_back(index->entry().name);
  Groups by_input(t.scales, static_cast<std::uint64_t>(groups), static_cast<std::uint64_t>(inputs),
                  group_size, std::move(index));
  place.tensor = std::make_unique<GroupedInt4>(t, std::move(by_input), packing);
  return place;
}

std::vector<PackedPlace> find_all(const StoredTensors& tensors, const ConfigReader& config,
                                  const Packing& packing, const std::string& label) {
  require_four_bits(config, "bits");
  const std::int64_t group_size = group_size_of(config);
  std::vector<PackedPlace> places;
  if (!config.problems().empty()) return places;
  for (const TensorEntry& entry : tensors.all()) {
    const auto module = without_ending(entry.name, ".qweight");
    if (module) places.push_back(grouped_place(tensors, *module, packing, group_size, label));
  }
  return places;
}

// Inputs that were sorted before they were cut into groups; by their places they would have scales
// of others.
void require_order(const StoredTensors& tensors, const ConfigReader& config) {
  for (const TensorEntry& entry : tensors.all()) {
    const auto module = without_ending(entry.name, ".qweight");
    if (!module || tensors.find(*module + ".g_idx")) continue;
    return config.problem("desc_act", "is true, but the file has no " +
                                          in_quotes(*module + ".g_idx") +
                                          ", which says what group each input is of");
  }
}

std::vector<PackedPlace> find_gptq(const StoredTensors& tensors, const ConfigReader& config) {
  const std::string form = config.text_or({"checkpoint_format", "format"}, "gptq");
  if (form != "gptq" && form != "gptq_v2") {
    config.problem("checkpoint_format", "is " + in_quotes(form) + "; known: gptq, gptq_v2");
  }
  if (config.boolean_or({"desc_act"}, false)) require_order(tensors, config);
  return find_all(tensors, config, {true, kInOrder, form == "gptq" ? 1u : 0u}, "GPTQ int4");
}

std::vector<PackedPlace> find_awq(const StoredTensors& tensors, const ConfigReader& config) {
  const char* key = config.has("version") ? "version" : "format";  // of older and newer tools
  const std::string version = config.text_or({key}, "gemm");
  if (version != "gemm" && version != "GEMM") {
    config.problem(key, "is " + in_quotes(version) + "; known: gemm");
  }
  if (config.text_or({"backend"}, "") == "llm-awq") {
    config.problem("backend", "is \"llm-awq\", whose order of the weights cannot be read");
  }
  return find_all(tensors, config, {false, kAwqOrder, 0}, "AWQ int4");
}

}  // namespace

Quantiser gptq_quantiser() { return {"gptq", find_gptq}; }
Quantiser awq_quantiser() { return {"awq", find_awq}; }

}  // namespace phasescope::formats
