#pragma once
// How finely must the model know distance: the change of loss where, in every row, the keys of a
// band of distances are shown at each other's distances. Each row keeps its keys, its mask and its
// distances; which key stands where is uniform.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/questions/treated.h"
#include "protocol/messages/acuity.h"

namespace phasescope::analysis {

// Distances low <= lambda < high.
struct DistanceBand {
  std::int64_t low = 0, high = 0;
};
// [1,3) [2,5) [4,9) .. as far as the trained length, which the last one ends at.
std::vector<DistanceBand> default_bands(std::int64_t trained);
// "4:9". Throws Error "bad_usage".
DistanceBand band_named(const std::string& words);

// The visible pairs of rows [first, first + count) whose distance lies in the band, each at the
// distance it is to be shown at; the same for every layer and head of a text. They are drawn on
// the device, which nothing is copied to.
model::MovedPairs permuted_pairs(const DistanceBand& band, std::uint64_t seed, std::int64_t text,
                                 std::int64_t first, std::int64_t count,
                                 const at::Device& device = at::kCPU);

struct AcuityOptions {
  std::vector<DistanceBand> bands;  // empty: default_bands()
  std::vector<std::uint64_t> seeds{1, 2, 3};
  std::string by = "model";  // layer, head: each alone too
  std::vector<std::int64_t> layers, heads;
  std::uint64_t seed = 0;  // of bootstraps
};

// 1 + bands x seeds passes a text, times 1 + layers or 1 + layers x heads with `by`; plain ones, so
// that what costs nothing is 0 exactly. Texts of more than 4096 tokens leave the pairs outside a
// band to the kernel where the encoding allows it (exchanged_band.h), to its rounding. Throws Error
// "not_applicable" where the model cannot be shown another distance.
protocol::AcuityResult analyse_acuity(const std::shared_ptr<const model::Model>& model,
                                      const Texts& texts, const AcuityOptions& options,
                                      protocol::Progress& progress);

}  // namespace phasescope::analysis
