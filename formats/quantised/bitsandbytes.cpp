// bitsandbytes' 4 bits (QLoRA, arXiv 2305.14314): codes of a table of 16 numbers, blocks of the
// flat weight with a largest magnitude each, which may itself be kept in 8 bits (double
// quantisation).
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/json.h"
#include "formats/quantised/quantiser.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";

// What the JSON beside a weight says.
struct QuantState {
  std::vector<std::int64_t> shape;
  std::uint64_t block = 64, nested_block = 0;  // 0: the magnitudes are float32
  float nested_offset = 0;
};

struct Parts {
  StoredTensor codes, table, magnitudes;
  std::optional<StoredTensor> nested_table, nested_magnitudes;
};

class TableOf16 : public PackedTensor {
 public:
  TableOf16(Parts parts, QuantState state) : p_(std::move(parts)), state_(std::move(state)) {}

  std::uint64_t step() const override { return state_.block; }

  void decode(std::uint64_t first, std::span<float> out) const override {
    const std::uint64_t blocks = (out.size() + state_.block - 1) / state_.block;
    const std::vector<float> magnitudes = magnitudes_of(first / state_.block, blocks);
    const std::vector<float> table = p_.table.floats(0, 16);
    const std::vector<std::byte> codes = p_.codes.bytes(first / 2, (out.size() + 1) / 2);
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      const unsigned byte = std::to_integer<unsigned>(codes[i / 2]);
      const unsigned code = i % 2 == 0 ? byte >> 4 : byte & 15;  // the high nibble first
      out[i] = table[code] * magnitudes[i / state_.block];
    }
  }

 private:
  std::vector<float> magnitudes_of(std::uint64_t begin, std::uint64_t count) const {
    if (state_.nested_block == 0) return p_.magnitudes.floats(begin, count);
    const std::vector<std::byte> codes = p_.magnitudes.bytes(begin, count);
    const std::vector<float> table = p_.nested_table->floats(0, 256);
    const std::uint64_t from = begin / state_.nested_block;
    const std::uint64_t to = (begin + count + state_.nested_block - 1) / state_.nested_block;
    const std::vector<float> sizes = p_.nested_magnitudes->floats(from, to - from);
    std::vector<float> out(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const float scaled = table[std::to_integer<std::size_t>(codes[i])] *
                           sizes[(begin + i) / state_.nested_block - from];
      out[i] = scaled + state_.nested_offset;
    }
    return out;
  }

  Parts p_;
  QuantState state_;
};

QuantState read_state(const StoredTensor& tensor) {
  constexpr std::uint64_t kMostBytes = 1 << 16;
  tensor.require_type({"U8"});
  if (tensor.entry().size > kMostBytes) tensor.fail("is longer than 65536 bytes");
  const auto bytes = tensor.bytes(0, tensor.entry().size);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string where = "tensor " + in_quotes(tensor.entry().name);
  const Json object = parse_json(text, where);
  ConfigProblems problems;
  const ConfigReader reader(object, problems);
  QuantState state;
  for (const double size :
       reader.numbers({"shape"}, {1, 1u << 31}).value_or(std::vector<double>())) {
    if (std::floor(size) != size) problems.add("shape", "has a part of a dimension");
    state.shape.push_back(static_cast<std::int64_t>(size));
  }
  if (state.shape.empty() || state.shape.size() > 8) problems.add("shape", "is no shape");
  // Blocks end with a byte.
  state.block = static_cast<std::uint64_t>(reader.integer_or({"blocksize"}, 64, {2, 1 << 24}));
  if (state.block % 2 != 0) problems.add("blocksize", "is odd");
  if (reader.has("nested_blocksize")) {
    state.nested_block =
        static_cast<std::uint64_t>(reader.integer_or({"nested_blocksize"}, 256, {1, 1 << 24}));
    state.nested_offset = static_cast<float>(reader.number_or({"nested_offset"}, 0));
  }
  problems.throw_if_any(where);
  return state;
}

void check_count(const StoredTensor& tensor, std::uint64_t count) {
  if (static_cast<std::uint64_t>(tensor.entry().element_count()) == count) return;
  tensor.fail("has " + std::to_string(tensor.entry().element_count()) +
              " elements, and must have " + std::to_string(count));
}

PackedPlace place_of(const StoredTensors& tensors, const std::string& weight,
                     const StoredTensor& state_tensor) {
  const QuantState state = read_state(state_tensor);
  const std::string& name = state_tensor.entry().name;
  const bool nested = state.nested_block > 0;
  Parts parts = {tensors.get(weight, name),
                 tensors.get(weight + ".quant_map", name),
                 tensors.get(weight + ".absmax", name),
                 {},
                 {}};
  const auto elements = checked_element_count(state.shape);
  if (!elements || *elements > std::uint64_t{1} << 48) state_tensor.fail("says too large a shape");
  const std::uint64_t blocks = (*elements + state.block - 1) / state.block;
  parts.codes.require_type({"U8"});
  check_count(parts.codes, (*elements + 1) / 2);
  parts.table.require_type({"F32"});
  check_count(parts.table, 16);
  parts.magnitudes.require_type({nested ? "U8" : "F32"});
  check_count(parts.magnitudes, blocks);
  PackedPlace place{weight,
                    state.shape,
                    "bitsandbytes NF4",
                    nullptr,
                    {weight, weight + ".quant_map", weight + ".absmax", name}};
  if (name.ends_with("fp4")) place.label = "bitsandbytes FP4";
  if (nested) {
    place.label += ", quantised twice";
    parts.nested_table = tensors.get(weight + ".nested_quant_map", name);
    parts.nested_magnitudes = tensors.get(weight + ".nested_absmax", name);
    for (const auto& part : {parts.nested_table, parts.nested_magnitudes}) {
      part->require_type({"F32"});
      place.used.push_back(part->entry().name);
    }
    check_count(*parts.nested_table, 256);
    check_count(*parts.nested_magnitudes, (blocks + state.nested_block - 1) / state.nested_block);
  }
  place.tensor = std::make_unique<TableOf16>(std::move(parts), state);
  return place;
}

std::vector<PackedPlace> find_bitsandbytes(const StoredTensors& tensors,
                                           const ConfigReader& config) {
  std::vector<PackedPlace> places;
  const bool four =
      config.boolean_or({"load_in_4bit"}, config.boolean_or({"_load_in_4bit"}, false));
  if (!four) {
    config.problem("load_in_4bit", "is not on: 4 bits (nf4, fp4) can be read, 8 bits cannot");
    return places;
  }
  for (const TensorEntry& entry : tensors.all()) {
    const std::size_t at = entry.name.rfind(kState);
    if (at == std::string::npos) continue;
    const std::string kind = entry.name.substr(at + kState.size());
    const StoredTensor state = *tensors.find(entry.name);
    if (kind != "nf4" && kind != "fp4") {
      state.fail("is of the type " + in_quotes(kind) + "; known: nf4, fp4");
    }
    places.push_back(place_of(tensors, entry.name.substr(0, at), state));
  }
  return places;
}

}  // namespace

Quantiser bitsandbytes_quantiser() { return {"bitsandbytes", find_bitsandbytes}; }

}  // namespace phasescope::formats
