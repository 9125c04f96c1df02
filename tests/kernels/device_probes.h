#pragma once
// All probes of a case on the device, and what they should be.

#include <cstdint>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/top_keys.h"

namespace phasescope::kernels::testing {

class DeviceProbes {
 public:
  DeviceProbes(const CudaAttention& attention, std::int64_t top_count);

  /// For as long as this lives.
  void put(CudaForwardOutputs& outputs) const;
  /// After the forward pass.
  void expect_right(const Problem& problem, const Reference<double>& truth) const;
  TopKeys top_keys() const;
  /// Of every array.
  std::vector<char> bytes() const;

 private:
  RowProbes row_probes() const;
  BucketProbes bucket_probes() const;
  void expect_rows(double bound, const Reference<double>& truth) const;
  void expect_buckets(double bound, const Reference<double>& truth) const;

  static constexpr std::size_t kBuckets = 7;  // of unlike widths: some empty, one beyond all
  const std::vector<std::int64_t> steps_{0, 1, 2, 17, 64, 100, 3000, 4000};

  std::size_t heads_, rows_;  // batch included
  std::int64_t top_count_;
  DeviceArray<float> entropy_, score_, top1_, first_, distance_, sink_, top_weight_;
  DeviceArray<std::int32_t> key_, top_key_;
  std::vector<DeviceArray<float>> windows_;
  DeviceArray<std::int64_t> edges_{steps_}, bucket_pairs_;
  DeviceArray<double> bucket_weight_, bucket_score_, bucket_square_, bucket_content_,
      bucket_content_square_, bucket_term_, bucket_term_square_;
  DeviceArray<char> workspace_;
};

}  // namespace phasescope::kernels::testing
