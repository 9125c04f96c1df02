// MXFP4 as gpt-oss keeps its experts (OCP microscaling formats, revision 1.0): blocks of 32 numbers
// of 4 bits with a power of two.
#include <algorithm>

#include "formats/quantised/quantiser.h"
#include "formats/tensors/small_floats.h"

namespace phasescope::formats {
namespace {

// In the file (E, out, in / 32, 16), the low nibble first; plainly (E, in, out).
class Mxfp4Experts : public PackedTensor {
 public:
  Mxfp4Experts(StoredTensor blocks, StoredTensor scales)
      : blocks_(std::move(blocks)),
        scales_(std::move(scales)),
        outputs_(static_cast<std::uint64_t>(blocks_.size(1))),
        groups_(static_cast<std::uint64_t>(blocks_.size(2))) {
    const std::uint64_t most = std::max<std::uint64_t>(1, kElementsGathered / (32 * outputs_));
    for (together_ = std::min(most, groups_); groups_ % together_ != 0;) --together_;
  }

  // Groups of one expert.
  std::uint64_t step() const override { return 32 * together_ * outputs_; }

  void decode(std::uint64_t first, std::span<float> out) const override {
    for (std::uint64_t done = 0; done < out.size(); done += step()) {
      const std::uint64_t group = (first + done) / (32 * outputs_);
      decode_groups(group / groups_, group % groups_, out.subspan(done, step()));
    }
  }

 private:
  void decode_groups(std::uint64_t expert, std::uint64_t group, std::span<float> out) const {
    for (std::uint64_t o = 0; o < outputs_; ++o) {
      const std::uint64_t at = (expert * outputs_ + o) * groups_ + group;
      const std::vector<std::byte> codes = blocks_.bytes(at * 16, together_ * 16);
      const std::vector<std::byte> powers = scales_.bytes(at, together_);
      for (std::uint64_t i = 0; i < 32 * together_; ++i) {
        const unsigned byte = std::to_integer<unsigned>(codes[i / 2]);
        const float value = kE2m1Values[i % 2 == 0 ? byte & 15 : byte >> 4];
        out[i * outputs_ + o] = value * e8m0_value(std::to_integer<std::uint8_t>(powers[i / 32]));
      }
    }
  }

  StoredTensor blocks_, scales_;
  std::uint64_t outputs_, groups_, together_ = 1;
};

std::vector<PackedPlace> find_mxfp4(const StoredTensors& tensors, const ConfigReader&) {
  std::vector<PackedPlace> places;
  for (const TensorEntry& entry : tensors.all()) {
    const auto name = without_ending(entry.name, "_blocks");
    if (!name) continue;
    const StoredTensor blocks = *tensors.find(entry.name);
    const StoredTensor scales = tensors.get(*name + "_scales", entry.name);
    blocks.require_type({"U8"});
    scales.require_type({"U8"});
    blocks.require_dimensions(4);
    if (blocks.entry().element_count() == 0) blocks.fail("has no elements");
    blocks.require_shape({blocks.size(0), blocks.size(1), blocks.size(2), 16});
    scales.require_shape({blocks.size(0), blocks.size(1), blocks.size(2)});
    places.push_back({*name,
                      {blocks.size(0), blocks.size(2) * 32, blocks.size(1)},
                      "MXFP4",
                      std::make_unique<Mxfp4Experts>(blocks, scales),
                      {entry.name, scales.entry().name}});
  }
  return places;
}

}  // namespace

Quantiser mxfp4_quantiser() { return {"mxfp4", find_mxfp4}; }

}  // namespace phasescope::formats
