#include "model/checkpoints/conversions/to_random.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "model/checkpoints/named_start.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kEntriesAtOnce = std::int64_t{1} << 22;

std::int64_t entries_of(const TensorSpec& spec) {
  std::int64_t count = 1;
  for (const std::int64_t size : spec.shape) count *= size;
  return count;
}

ConversionPlan plan_of_sizes(const ModelConfig& given, const ConvertOptions& options) {
  const auto config = std::make_shared<const ModelConfig>(given);
  const at::ScalarType dtype = options.dtype.value_or(at::kFloat);
  ConversionPlan plan;
  for (const TensorSpec& spec : tensor_specs(*config, *make_encoding(*config))) {
    if (spec.optional) continue;
    const auto produce = [config, spec, dtype,
                          seed = options.seed](const formats::TensorSource::Write& write) {
      const std::int64_t count = entries_of(spec);
      for (std::int64_t begin = 0; begin < count; begin += kEntriesAtOnce) {
        const std::int64_t size = std::min(kEntriesAtOnce, count - begin);
        const at::Tensor piece = entries_by_name(spec, *config, seed, begin, size).to(dtype);
        write({static_cast<const std::byte*>(piece.const_data_ptr()), piece.nbytes()});
      }
    };
    plan.tensors.push_back({spec.name, file_dtype(dtype), spec.shape, produce});
  }
  plan.config = write_model_config(*config);
  plan.notes.push_back("the weights are random, seed " + std::to_string(options.seed));
  return plan;
}

}  // namespace

Conversion to_random_conversion() {
  return {"random", "random weights of the sizes of any model or config.json, drawn by the seed",
          nullptr, &plan_of_sizes};
}

}  // namespace phasescope::model
