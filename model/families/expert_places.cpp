#include "model/families/expert_places.h"

#include <ATen/ATen.h>

#include <utility>

namespace phasescope::model {

TensorPlace of_experts(const NameParts& name, std::int64_t count, const std::string& module,
                       const std::function<at::Tensor(const at::Tensor&)>& convert,
                       const std::vector<std::int64_t>& stored, const char* ending) {
  TensorPlace place;
  for (std::int64_t n = 0; n < count; ++n) {
    place.parts.push_back(
        {.name = name.layer + "mlp.experts." + std::to_string(n) + "." + module + ending,
         .convert = [convert, n](const at::Tensor& x) { return convert(x.select(0, n)); },
         .stored = stored});
  }
  return place;
}

TensorPlace and_also(TensorPlace place, TensorPlace more) {
  for (TensorPlace& part : more.parts) place.parts.push_back(std::move(part));
  return place;
}

bool is_fused_experts(const NameParts& name) {
  return name.module.ends_with("experts") &&
         (name.ending == ".gate_up_proj" || name.ending == ".down_proj");
}

TensorPlace fused_experts(const NameParts& name, const ModelConfig& config, bool transposed) {
  const std::int64_t count = config.experts.count, width = config.experts.width;
  const auto shape = [&](std::int64_t out, std::int64_t in) {
    return transposed ? std::vector{count, in, out} : std::vector{count, out, in};
  };
  const auto plain = [transposed](const at::Tensor& x) { return transposed ? x.t() : x; };
  if (name.ending == ".down_proj") {
    return of_experts(name, count, "down_proj", plain, shape(config.width, width));
  }
  const auto rows = [plain, width](std::int64_t first) {
    return [plain, width, first](const at::Tensor& x) { return plain(x).narrow(0, first, width); };
  };
  const std::vector<std::int64_t> stored = shape(2 * width, config.width);
  return and_also(of_experts(name, count, "gate_proj", rows(0), stored),
                  of_experts(name, count, "up_proj", rows(width), stored));
}

}  // namespace phasescope::model
