// Weights in 8-bit floats with scales (quant_method fp8: DeepSeek-V3 and others; OFP8
// revision 1.0).
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "formats/error.h"
#include "formats/quantised/quantiser.h"
#include "formats/tensors/small_floats.h"

namespace phasescope::formats {
namespace {

using ByteValues = std::array<float, 256>;

const ByteValues& fp8_values(bool e5m2) {
  static const auto tables = [] {
    std::pair<ByteValues, ByteValues> both;
    for (unsigned code = 0; code < 256; ++code) {
      both.first[code] = e4m3_value(static_cast<std::uint8_t>(code));
      both.second[code] = e5m2_value(static_cast<std::uint8_t>(code));
    }
    return both;
  }();
  return e5m2 ? tables.second : tables.first;
}

// Where the scale of an element lies: matrices of `rows` x `columns` elements, each with a grid.
struct ScaleGrid {
  std::uint64_t rows = 1, columns = 1;              // of a matrix
  std::uint64_t block_rows = 1, block_columns = 1;  // elements that share a scale
  std::uint64_t grid_rows = 1, grid_columns = 1;    // scales of a matrix
  bool one = false;                                 // one scale for all matrices
};

class ScaledFp8 : public PackedTensor {
 public:
  ScaledFp8(StoredTensor weight, StoredTensor scale, const ScaleGrid& grid)
      : weight_(std::move(weight)), scale_(std::move(scale)), grid_(grid) {}

  std::uint64_t step() const override { return grid_.columns; }

  void decode(std::uint64_t first, std::span<float> out) const override {
    const std::vector<std::byte> codes = weight_.bytes(first, out.size());
    const ByteValues& values = fp8_values(weight_.entry().dtype_name == "F8_E5M2");
    std::vector<float> scales;
    std::uint64_t read = ~std::uint64_t{0};  // the row of scales in `scales`
    for (std::uint64_t at = 0; at < out.size(); at += grid_.columns) {
      const std::uint64_t row = (first + at) / grid_.columns;
      const std::uint64_t in_matrix = row % grid_.rows / grid_.block_rows;
      const std::uint64_t wanted = grid_.one ? 0 : row / grid_.rows * grid_.grid_rows + in_matrix;
      if (std::exchange(read, wanted) != wanted) {
        scales = scale_.floats(wanted * grid_.grid_columns, grid_.grid_columns);
      }
      for (std::uint64_t c = 0; c < grid_.columns; ++c) {
        const float value = values[std::to_integer<std::size_t>(codes[at + c])];
        out[at + c] = value * scales[c / grid_.block_columns];
      }
    }
  }

 private:
  StoredTensor weight_, scale_;
  ScaleGrid grid_;
};

std::uint64_t parts_of(std::uint64_t size, std::uint64_t part) { return (size + part - 1) / part; }

ScaleGrid grid_of(const StoredTensor& weight, const StoredTensor& scale, ScaleBlocks blocks) {
  const std::vector<std::int64_t>& shape = weight.shape();
  if (shape.size() < 2) weight.fail("is no matrix, and is kept in 8 bits");
  ScaleGrid grid;
  grid.rows = static_cast<std::uint64_t>(shape[shape.size() - 2]);
  grid.columns = static_cast<std::uint64_t>(shape.back());
  grid.block_rows = std::max<std::uint64_t>(grid.rows, 1);
  grid.block_columns = std::max<std::uint64_t>(grid.columns, 1);
  if (grid.columns == 0 || grid.rows == 0) weight.fail("has no elements");
  if (scale.entry().element_count() == 1) {
    grid.one = true;
    return grid;
  }
  std::vector<std::int64_t> wanted(shape.begin(), shape.end() - 2);
  const bool row_scales = scale.shape().size() == shape.size() && scale.shape().back() == 1 &&
                          scale.size(shape.size() - 2) == shape[shape.size() - 2];
  if (row_scales && blocks.rows == 0) {
    grid.block_rows = 1;
  } else if (blocks.rows > 0) {
    grid.block_rows = static_cast<std::uint64_t>(blocks.rows);
    grid.block_columns = static_cast<std::uint64_t>(blocks.columns);
  }
  grid.grid_rows = parts_of(grid.rows, grid.block_rows);
  grid.grid_columns = parts_of(grid.columns, grid.block_columns);
  wanted.push_back(static_cast<std::int64_t>(grid.grid_rows));
  wanted.push_back(static_cast<std::int64_t>(grid.grid_columns));
  scale.require_shape(wanted);
  return grid;
}

bool is_fp8(const TensorEntry& entry) {
  return entry.dtype_name == "F8_E4M3" || entry.dtype_name == "F8_E5M2";
}

ScaleBlocks blocks_of(const ConfigReader& config, const char* key) {
  const auto sizes = config.numbers({key}, {1, 1 << 20});
  if (!sizes) return {};
  if (sizes->size() != 2 || (*sizes)[0] != std::floor((*sizes)[0]) ||
      (*sizes)[1] != std::floor((*sizes)[1])) {
    config.problem(key, "must be two whole numbers, the rows and columns of a block");
    return {};
  }
  return {static_cast<std::int64_t>((*sizes)[0]), static_cast<std::int64_t>((*sizes)[1])};
}

std::vector<PackedPlace> find_fp8(const StoredTensors& tensors, const ConfigReader& config) {
  const ScaleBlocks blocks = blocks_of(config, "weight_block_size");
  std::vector<PackedPlace> places;
  for (const TensorEntry& entry : tensors.all()) {
    if (!is_fp8(entry)) continue;
    const StoredTensor weight = *tensors.find(entry.name);
    const StoredTensor scale = tensors.get(entry.name + "_scale_inv", entry.name);
    places.push_back(scaled_fp8(weight, scale, blocks));
    const auto module = without_ending(entry.name, ".weight");
    // The scale of a layer's inputs is for computing in 8 bits.
    for (const char* other : {".activation_scale", ".input_scale"}) {
      if (module && tensors.find(*module + other)) places.back().used.push_back(*module + other);
    }
  }
  return places;
}

}  // namespace

PackedPlace scaled_fp8(const StoredTensor& weight, const StoredTensor& scale, ScaleBlocks blocks) {
  weight.require_type({"F8_E4M3", "F8_E5M2"});
  scale.require_type({"F32", "BF16", "F16", "F8_E8M0"});
  PackedPlace place;
  place.name = weight.entry().name;
  place.shape = weight.shape();
  place.label = weight.entry().dtype_name == "F8_E5M2" ? "FP8 E5M2" : "FP8 E4M3";
  const ScaleGrid grid = grid_of(weight, scale, blocks);
  // Types that are not known otherwise are as long as the file says.
  if (weight.entry().size != static_cast<std::uint64_t>(weight.entry().element_count())) {
    weight.fail("has " + std::to_string(weight.entry().size) + " bytes, and must have one each");
  }
  if (scale.entry().dtype == DType::unsupported &&
      scale.entry().size != static_cast<std::uint64_t>(scale.entry().element_count())) {
    scale.fail("has " + std::to_string(scale.entry().size) + " bytes, and must have one each");
  }
  if (blocks.rows > 0 && !grid.one) {
    place.label +=
        " in blocks of " + std::to_string(blocks.rows) + "x" + std::to_string(blocks.columns);
  }
  place.tensor = std::make_unique<ScaledFp8>(weight, scale, grid);
  place.used = {weight.entry().name, scale.entry().name};
  return place;
}

Quantiser fp8_quantiser() { return {"fp8", find_fp8}; }

}  // namespace phasescope::formats
