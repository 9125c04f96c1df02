#include "kernels/variants/tapa_linear.h"

#include <algorithm>
#include <cstdlib>

namespace phasescope::kernels {
namespace {

OutputTensor pairs_tensor(float* data, std::int64_t heads, std::int64_t rows) {
  return {data, heads * rows * 2, rows * 2, 2};
}

InputTensor pairs_tensor(const float* data, std::int64_t heads, std::int64_t rows) {
  return {data, heads * rows * 2, rows * 2, 2};
}

/// (sum, 1) or (1, sum) for every row; `place` is where the sum goes.
FloatBuffer channel_sums(const InputTensor& from, std::int64_t batch, std::int64_t heads,
                         std::int64_t rows, std::int64_t begin, std::int64_t end, int place) {
  FloatBuffer sums(batch * heads * rows * 2);
  float* to = sums.data();
  float channels[kMaxChannels];
  const InputTensor summed = skip_channels(from, begin);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t n = 0; n < rows; ++n, to += 2) {
        read_numbers(from.storage, row_pointer(summed, b, h, n), end - begin, channels);
        double sum = 0;
        for (std::int64_t d = 0; d < end - begin; ++d) sum += static_cast<double>(channels[d]);
        to[place] = static_cast<float>(sum);
        to[1 - place] = 1;
      }
    }
  }
  return sums;
}

/// Every channel of a sum has the sum's gradient.
void spread(const float* d_pairs, int place, const OutputTensor& to, std::int64_t batch,
            std::int64_t heads, std::int64_t rows, std::int64_t begin, std::int64_t end) {
  if (!to.data) return;
  float channels[kMaxChannels];
  const OutputTensor summed = skip_channels(to, begin);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t n = 0; n < rows; ++n, d_pairs += 2) {
        std::fill_n(channels, end - begin, d_pairs[place]);
        write_numbers(to.storage, channels, end - begin, row_pointer(summed, b, h, n));
      }
    }
  }
}

}  // namespace

FloatBuffer padded_power(const TapaVariant& tapa, const DistanceRange& range) {
  FloatBuffer copy(range.size());
  for (std::int64_t n = 0; n < range.size(); ++n) {
    const std::int64_t distance = std::abs(range.first + n);
    copy.data()[n] = distance < tapa.power_length ? tapa.power[distance] : 0;
  }
  return copy;
}

TapaLinearPhase::TapaLinearPhase(const AttentionInputs& inputs)
    : inputs_(inputs), tapa_(std::get<TapaVariant>(inputs.variant)) {
  const AttentionShape& s = inputs.shape;
  q_ = channel_sums(inputs.q, s.batch, s.heads, s.queries, tapa_.content_dim, s.head_dim, 0);
  k_ = channel_sums(inputs.k, s.batch, s.kv_heads, s.keys, tapa_.content_dim, s.head_dim, 1);
}

DotStream TapaLinearPhase::dot() const {
  const AttentionShape& s = inputs_.shape;
  return {pairs_tensor(q_.data(), s.heads, s.queries), pairs_tensor(k_.data(), s.kv_heads, s.keys),
          2, tapa_.scale_phase};
}

void TapaLinearPhase::begin_gradients() {
  const AttentionShape& s = inputs_.shape;
  dq_ = FloatBuffer(s.batch * s.heads * s.queries * 2);
  dk_ = FloatBuffer(s.batch * s.kv_heads * s.keys * 2);
}

OutputTensor TapaLinearPhase::dq() const {
  return pairs_tensor(dq_.data(), inputs_.shape.heads, inputs_.shape.queries);
}

OutputTensor TapaLinearPhase::dk() const {
  return pairs_tensor(dk_.data(), inputs_.shape.kv_heads, inputs_.shape.keys);
}

void TapaLinearPhase::finish_gradients(const Gradients& gradients) const {
  const AttentionShape& s = inputs_.shape;
  spread(dq_.data(), 0, gradients.dq, s.batch, s.heads, s.queries, tapa_.content_dim, s.head_dim);
  spread(dk_.data(), 1, gradients.dk, s.batch, s.kv_heads, s.keys, tapa_.content_dim, s.head_dim);
}

}  // namespace phasescope::kernels
