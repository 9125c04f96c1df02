#include "model/attention/probe_buffers.h"

#include <ATen/ATen.h>

#include <utility>

namespace phasescope::model {

ProbeBuffers::ProbeBuffers(const ProbeRequest& request, const kernels::AttentionShape& shape,
                           at::Device device)
    : device_(device), rows_({shape.batch, shape.heads, shape.queries}) {
  add_row(request.entropy, result_.entropy, outputs_.rows.entropy);
  add_row(request.max_score, result_.max_score, outputs_.rows.max_score);
  add_row(request.top1_mass, result_.top1_mass, outputs_.rows.top1_mass);
  add_row(request.first_key_weight, result_.first_key_weight, outputs_.rows.first_key_weight);
  add_row(request.mean_distance, result_.mean_distance, outputs_.rows.mean_distance);
  add_row(request.sink_weight, result_.sink_weight, outputs_.rows.sink_weight);
  if (request.max_key) {
    result_.max_key = at::empty(rows_, options(at::kInt));
    outputs_.rows.max_key = static_cast<std::int32_t*>(result_.max_key.mutable_data_ptr());
  }
  add_windows(request.windows);
  if (request.top_keys > 0) add_top_keys(request.top_keys);
  if (request.bucket_edges.size() > 1) add_buckets(request, shape);
}

ProbeResult ProbeBuffers::take(Ran ran) {
  if (result_.max_key.defined()) result_.max_key = result_.max_key.to(at::kLong);
  result_.ran = std::move(ran);
  return std::move(result_);
}

void ProbeBuffers::add_row(bool wanted, at::Tensor& tensor, float*& pointer) {
  if (!wanted) return;
  tensor = at::empty(rows_, options(at::kFloat));
  pointer = static_cast<float*>(tensor.mutable_data_ptr());
}

void ProbeBuffers::add_windows(const std::vector<std::int64_t>& windows) {
  result_.window_mass.resize(windows.size());
  for (std::size_t n = 0; n < windows.size(); ++n) {
    outputs_.rows.windows[n] = windows[n];
    add_row(true, result_.window_mass[n], outputs_.rows.window_mass[n]);
  }
}

void ProbeBuffers::add_buckets(const ProbeRequest& request, const kernels::AttentionShape& shape) {
  kernels::BucketProbes& buckets = outputs_.buckets;
  buckets.edges = request.bucket_edges.data();
  buckets.count = static_cast<std::int64_t>(request.bucket_edges.size()) - 1;
  const std::vector<std::int64_t> sizes = {shape.batch, shape.heads, buckets.count};
  result_.bucket_pairs = at::zeros(sizes, options(at::kLong));
  buckets.pairs = static_cast<std::int64_t*>(result_.bucket_pairs.mutable_data_ptr());
  const auto sums = [this, &sizes](at::Tensor& tensor) {
    tensor = at::zeros(sizes, options(at::kDouble));
    return static_cast<double*>(tensor.mutable_data_ptr());
  };
  buckets.weight = sums(result_.bucket_weight);
  buckets.score = sums(result_.bucket_score);
  buckets.score_square = sums(result_.bucket_score_square);
  if (request.content) {
    buckets.content = sums(result_.bucket_content);
    buckets.content_square = sums(result_.bucket_content_square);
  }
  if (request.term) {
    buckets.term = sums(result_.bucket_term);
    buckets.term_square = sums(result_.bucket_term_square);
  }
}

void ProbeBuffers::add_top_keys(std::int64_t count) {
  std::vector<std::int64_t> sizes = rows_;
  sizes.push_back(count);
  result_.top_key = at::empty(sizes, options(at::kInt));
  result_.top_weight = at::empty(sizes, options(at::kFloat));
  outputs_.rows.top_count = count;
  outputs_.rows.top_key = static_cast<std::int32_t*>(result_.top_key.mutable_data_ptr());
  outputs_.rows.top_weight = static_cast<float*>(result_.top_weight.mutable_data_ptr());
}

}  // namespace phasescope::model
