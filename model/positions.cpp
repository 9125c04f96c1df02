#include "model/positions.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <string>
#include <tuple>

#include "formats/error.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 24;

}  // namespace

PositionExtent extent_of(const at::Tensor& ids) {
  if (ids.numel() == 0) return {};
  const at::Tensor greatest = ids.amax(-1), least = ids.amin(-1);
  // In doubles first: the difference of two ids may be too large for an integer.
  const double apart = (greatest.to(at::kDouble) - least.to(at::kDouble)).max().item<double>();
  return {least.min().item<std::int64_t>(), greatest.max().item<std::int64_t>(),
          apart > static_cast<double>(kFarthest) ? kFarthest + 1
                                                 : (greatest - least).max().item<std::int64_t>()};
}

PositionExtent Positions::measured() const {
  if (length == 0) return {};
  if (consecutive()) return {shift, shift + length - 1, length - 1};
  return extent ? *extent : extent_of(ids);
}

at::Tensor Positions::ids_on_host() const { return kept.defined() ? kept : on_host(ids); }

std::int64_t Positions::largest_distance() const {
  const std::int64_t reach = measured().reach;
  if (reach > kFarthest) {
    throw formats::bad_input("positions of one text lie more than " + std::to_string(kFarthest) +
                                 " apart, too far for a table of distances",
                             "position_ids");
  }
  return reach;
}

at::Tensor drawn_positions(std::int64_t length, std::int64_t range, std::uint64_t seed) {
  const at::Tensor all =
      at::randperm(range, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
  return std::get<0>(all.slice(0, 0, length).sort());
}

at::ScalarType table_dtype(at::ScalarType dtype) { return at::promote_types(dtype, at::kFloat); }

at::Tensor tensor_of(const std::vector<double>& values, const at::TensorOptions& options) {
  if (options.device().is_cpu()) return at::tensor(values, options);
  at::Tensor result = at::empty({static_cast<std::int64_t>(values.size())}, options);
  for (std::size_t n = 0; n < values.size(); ++n) {
    result.select(0, static_cast<std::int64_t>(n)).fill_(values[n]);
  }
  return result;
}

at::TensorOptions table_options(const at::TensorOptions& options) {
  return options.dtype(table_dtype(options.dtype().toScalarType()));
}

at::Tensor whole_places(const at::Tensor& tokens, double step) {
  return step == 1.0 ? tokens : (tokens.to(at::kDouble) * step).trunc().to(at::kLong);
}

at::Tensor running_sums(const at::Tensor& steps, PositionState& state) {
  at::Tensor sums = steps.cumsum(1);
  if (state.sums.defined()) sums = sums + state.sums;
  state.sums = sums.narrow(1, sums.size(1) - 1, 1);
  return sums;
}

}  // namespace phasescope::model
