#include "model/attention/relative_keys.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace phasescope::model {
namespace {

constexpr std::int64_t kKeptDistances = 1024;  // a table of no more than a few heads' numbers

// Where a relative key of a distance is in its table, and which distances have none there.
struct KeyPlaces {
  at::Tensor index, outside;
};
KeyPlaces places_of_keys(const RelativeKeysProgram& relative, const at::Tensor& distance) {
  const at::Tensor place = distance - relative.first_distance;
  const std::int64_t last = relative.keys.size(2) - 1;
  if (relative.clips) return {place.clamp(0, last), at::zeros_like(place, at::kBool)};
  return {place.clamp(0, last), (place < 0) | (place > last)};
}

}  // namespace

at::Tensor relative_scores(const RelativeKeysProgram& relative, Range heads, Range rows,
                           const at::Tensor& distance, at::ScalarType dtype) {
  const at::Tensor& keys = relative.keys;
  const at::Tensor of_heads = keys.size(0) == 1 ? keys : keys.slice(0, heads.begin, heads.end);
  const at::Tensor r =
      relative.r.slice(1, heads.begin, heads.end).slice(2, rows.begin, rows.end).to(dtype);
  const at::Tensor products = at::matmul(r, of_heads.to(dtype));  // (B or 1, heads, rows, L)
  const KeyPlaces places = places_of_keys(relative, distance.unsqueeze(1));
  const std::int64_t batch = std::max(products.size(0), distance.size(0));
  const at::Tensor index = places.index.expand({batch, products.size(1), -1, -1});
  return products.expand({batch, -1, -1, -1}).gather(-1, index).masked_fill(places.outside, 0.0);
}

at::Tensor relative_scores_of_pairs(const RelativeKeysProgram& relative, const at::Tensor& batch,
                                    const at::Tensor& head, const at::Tensor& row,
                                    const at::Tensor& distance, at::ScalarType dtype) {
  const KeyPlaces places = places_of_keys(relative, distance);
  const at::Tensor none = at::zeros_like(head);
  const at::Tensor text = relative.r.size(0) == 1 ? none : batch;
  const at::Tensor table = relative.keys.size(0) == 1 ? none : head;
  const at::Tensor r = relative.r.index({text, head, row}).to(dtype);
  const at::Tensor keys =
      relative.keys.transpose(1, 2).index({table, places.index}).to(dtype);  // (P, rank)
  return (r * keys).sum(-1).masked_fill(places.outside, 0.0);
}

AttentionProgram in_device_form(const AttentionProgram& program) {
  const auto* relative = program.as<RelativeKeysProgram>();
  if (relative == nullptr) return program;
  const at::ScalarType dtype = table_dtype(program.q.scalar_type());
  AttentionProgram result = program;
  result.variant = QueryTableProgram{at::matmul(relative->r.to(dtype), relative->keys.to(dtype))};
  return result;
}

std::string device_form_obstacle(const AttentionProgram& program) {
  const auto* relative = program.as<RelativeKeysProgram>();
  if (relative == nullptr) return {};
  if (relative->clips || relative->first_distance != 0) {
    return "relative keys of either side have no form in the CUDA kernels";
  }
  if (program.tokens.defined()) {
    return "numbers of tokens beside relative keys have no form in the CUDA kernels";
  }
  if (relative->keys.size(2) <= kKeptDistances) return {};
  return "relative keys of more than " + std::to_string(kKeptDistances) +
         " distances have no form in the CUDA kernels";
}

}  // namespace phasescope::model
