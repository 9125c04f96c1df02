#include "analysis/plane_coefficients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analysis/tensors.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kPlanesAtOnce = 8;  // ten spectra of each are held

void add_to(std::vector<double>& sum, const std::vector<double>& more) {
  if (sum.empty()) sum.assign(more.size(), 0.0);
  for (std::size_t n = 0; n < more.size(); ++n) sum[n] += more[n];
}

// (planes, N) to its spectrum, with room for lags up to N.
at::Tensor spectrum_of(const at::Tensor& x) { return at::fft_rfft(x, 2 * x.size(-1)); }

// Pairs of queries [begin, end) and keys `lag` before them.
double pairs_at(std::int64_t lag, const HeadQueries& queries) {
  return static_cast<double>(std::max<std::int64_t>(0, queries.end - std::max(queries.begin, lag)));
}

// The two channels of some planes, (planes, N), and the spectra of what pairs multiply.
struct Channels {
  at::Tensor first, second, first_square, second_square, product;

  Channels(const at::Tensor& x, const at::Tensor& y)
      : first(spectrum_of(x)),
        second(spectrum_of(y)),
        first_square(spectrum_of(x * x)),
        second_square(spectrum_of(y * y)),
        product(spectrum_of(x * y)) {}
};

// Sums over pairs at lags 0..N-1 of what `spectrum` is the cross spectrum of, by bucket.
std::vector<double> by_bucket(const at::Tensor& spectrum, std::int64_t tokens,
                              const at::Tensor& bucket, std::int64_t buckets) {
  const at::Tensor lags = at::fft_irfft(spectrum, 2 * tokens).slice(1, 0, tokens);
  return to_vector<double>(
      at::zeros({lags.size(0), buckets}, at::kDouble).index_add(1, bucket, lags));
}

at::Tensor bucket_of_lags(const std::vector<std::int64_t>& edges, std::int64_t tokens) {
  at::Tensor out = at::empty({tokens}, at::kLong);
  std::int64_t at = 0;
  for (std::int64_t lag = 0; lag < tokens; ++lag) {
    while (edges[static_cast<std::size_t>(at + 1)] <= lag) ++at;
    out.data_ptr<std::int64_t>()[lag] = at;
  }
  return out;
}

void append_values(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

void CoefficientSums::add(const CoefficientSums& other) {
  if (edges.empty()) edges = other.edges;
  add_to(pairs, other.pairs);
  add_to(a, other.a), add_to(a_square, other.a_square);
  add_to(b, other.b), add_to(b_square, other.b_square);
}

CoefficientSums coefficient_sums(const model::LayerAttention& attention, PlaneLayout layout,
                                 const HeadQueries& queries,
                                 const std::vector<std::int64_t>& edges) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = attention.length();
  const std::int64_t group = attention.heads() / attention.kv_heads();
  const at::Tensor own = model::on_host(attention.q()[0][queries.head]);
  at::Tensor q = at::zeros_like(own, at::kDouble);
  const std::int64_t rows = queries.end - queries.begin;
  q.narrow(0, queries.begin, rows).copy_(own.narrow(0, queries.begin, rows));
  const at::Tensor k = model::on_host(attention.k()[0][queries.head / group]).to(at::kDouble);
  const PlaneChannels x = plane_channels(q.t().contiguous(), layout);
  const PlaneChannels y = plane_channels(k.t().contiguous(), layout);
  const at::Tensor bucket = bucket_of_lags(edges, tokens);
  CoefficientSums out;
  out.edges = edges;
  const auto buckets = static_cast<std::int64_t>(edges.size()) - 1;
  out.pairs.assign(static_cast<std::size_t>(buckets), 0.0);
  for (std::int64_t lag = 0; lag < tokens; ++lag) {
    out.pairs[static_cast<std::size_t>(bucket.const_data_ptr<std::int64_t>()[lag])] +=
        pairs_at(lag, queries);
  }
  for (std::int64_t begin = 0; begin < x.first.size(0); begin += kPlanesAtOnce) {
    const std::int64_t count = std::min(kPlanesAtOnce, x.first.size(0) - begin);
    const auto some = [&](const at::Tensor& t) { return t.narrow(0, begin, count); };
    const Channels f(some(x.first), some(x.second)), g(some(y.first), some(y.second));
    const auto sums = [&](const at::Tensor& spectrum) {
      return by_bucket(spectrum, tokens, bucket, buckets);
    };
    const at::Tensor both = 2 * f.product * g.product.conj();
    append_values(out.a, sums(f.first * g.first.conj() + f.second * g.second.conj()));
    append_values(out.b, sums(f.first * g.second.conj() - f.second * g.first.conj()));
    append_values(out.a_square, sums(f.first_square * g.first_square.conj() +
                                     f.second_square * g.second_square.conj() + both));
    append_values(out.b_square, sums(f.first_square * g.second_square.conj() +
                                     f.second_square * g.first_square.conj() - both));
  }
  return out;
}

}  // namespace phasescope::analysis
