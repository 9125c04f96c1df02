#include "app/figures/mean_map.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "formats/error.h"

namespace phasescope::app {
namespace {

using protocol::MapResult;
using protocol::TensorRef;

bool of_the_same_cells(const MapResult& a, const MapResult& b) {
  const auto cells = [](const MapResult& map) {
    return std::vector<std::int64_t>{map.row_begin,  map.row_end, map.column_begin,
                                     map.column_end, map.height,  map.width};
  };
  return cells(a) == cells(b) && a.of == b.of && a.pool == b.pool;
}

std::vector<double> doubles_of(const TensorRef& tensor) {
  const auto copied = [](auto values) { return std::vector<double>(values.begin(), values.end()); };
  return tensor.dtype == "F64" ? copied(tensor.values<double>()) : copied(tensor.values<float>());
}

// The mean of the tensor with this name, which all maps must have.
TensorRef mean_tensor(const std::vector<AnsweredMap>& maps, const char* name) {
  std::vector<double> sum;
  std::vector<std::int64_t> shape;
  for (const AnsweredMap& map : maps) {
    const TensorRef* tensor = protocol::find_tensor(map.tensors, name);
    if (!tensor) throw formats::internal_error("a map has no tensor", name);
    const std::vector<double> values = doubles_of(*tensor);
    if (sum.empty()) sum.assign(values.size(), 0), shape = tensor->shape;
    if (values.size() != sum.size()) throw formats::internal_error("maps differ in size", name);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  std::vector<float> mean(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    mean[i] = static_cast<float>(sum[i] / static_cast<double>(maps.size()));
  return TensorRef::own<float>(name, std::move(shape), std::move(mean));
}

// What learned sinks take, of heads that all have one.
void add_mean_of_sinks(const std::vector<AnsweredMap>& maps, AnsweredMap& mean) {
  double sum = 0;
  bool all = true;
  for (const AnsweredMap& map : maps) {
    sum += map.result.learned_sink;
    all = all && protocol::find_tensor(map.tensors, "sink_profile");
  }
  mean.result.learned_sink = sum / static_cast<double>(maps.size());
  if (all) mean.tensors.push_back(mean_tensor(maps, "sink_profile"));
}

}  // namespace

std::string difference_obstacle(const MapResult& a, const MapResult& b) {
  if (a.provenance.text_hash != b.provenance.text_hash)
    return "A - B is not drawn: the two models read the text as different tokens.";
  if (!of_the_same_cells(a, b))
    return "A - B is not drawn: the two maps are not of the same queries and keys.";
  return "";
}

AnsweredMap mean_map(const std::vector<AnsweredMap>& maps) {
  if (maps.empty()) throw formats::internal_error("there is no map to take a mean of");
  AnsweredMap mean{maps.front().result, {}};
  for (const AnsweredMap& map : maps)
    if (!of_the_same_cells(map.result, mean.result))
      throw formats::internal_error("maps of different queries and keys have no mean");
  mean.result.head = -1;
  mean.result.top.clear();
  for (const char* name : {"map", "row_profile", "column_profile"})
    mean.tensors.push_back(mean_tensor(maps, name));
  add_mean_of_sinks(maps, mean);
  bool any = false;
  for (const float value : mean.tensors.front().values<float>()) {
    if (!std::isfinite(value)) continue;
    mean.result.low = any ? std::min(mean.result.low, double{value}) : value;
    mean.result.high = any ? std::max(mean.result.high, double{value}) : value;
    any = true;
  }
  return mean;
}

}  // namespace phasescope::app
