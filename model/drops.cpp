#include "model/drops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <utility>

#include "formats/counter_random.h"

namespace phasescope::model {
namespace {

using formats::CounterRandom;

// What the numbers of one place are for.
enum class Of : std::uint64_t { numbers, samples, scores };

// Each place has its own, for models of 2^32 layers at most.
CounterRandom random_of(const Drops& drops, const DropPlace& place, Of what) {
  const std::uint64_t number = (static_cast<std::uint64_t>(place.layer) << 8) |
                               (static_cast<std::uint64_t>(place.part) << 4) |
                               (static_cast<std::uint64_t>(what) << 1) | (place.encoder ? 1u : 0u);
  return {drops.seed, number};
}

std::uint64_t number_of(const Drops& drops, std::int64_t row) {
  return static_cast<std::uint64_t>(drops.first_sample + row);
}

// Whether a draw is one of the share, which is below 1.
class Chance {
 public:
  explicit Chance(double share) : below_(static_cast<std::uint64_t>(std::ldexp(share, 64))) {}
  bool of(std::uint64_t bits) const { return bits < below_; }

 private:
  std::uint64_t below_;
};

// True for what is left out, of these sizes (B, ...): fill(random, out) says it of one sample,
// whose own numbers `random` has.
template <class Fill>
at::Tensor mask_of_samples(const Drops& drops, const CounterRandom& random, at::IntArrayRef sizes,
                           const Fill& fill) {
  const at::Tensor mask = at::empty(sizes, at::kBool);
  const std::int64_t samples = sizes[0];
  if (mask.numel() == 0) return mask;
  const std::int64_t entries = mask.numel() / samples;
  bool* out = mask.mutable_data_ptr<bool>();
  at::parallel_for(0, samples, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      fill(CounterRandom(random.bits(number_of(drops, row)), 0), out + row * entries);
    }
  });
  return mask;
}

// A head's, a query's and a key's number in one: 2^21 heads and 2^21 tokens at most.
constexpr int kBitsOfToken = 21;

// Of a region of the scores (B, heads, rows, columns).
at::Tensor mask_of_scores(const Drops& drops, const CounterRandom& random, at::IntArrayRef sizes,
                          const ScoreCorner& corner) {
  const Chance chance(drops.score);
  return mask_of_samples(drops, random, sizes, [&](const CounterRandom& own, bool* out) {
    for (std::int64_t head = 0; head < sizes[1]; ++head) {
      for (std::int64_t row = 0; row < sizes[2]; ++row) {
        const auto of_head = static_cast<std::uint64_t>(corner.head + head) << kBitsOfToken;
        const auto of_row = (of_head | static_cast<std::uint64_t>(corner.row + row))
                            << kBitsOfToken;
        for (std::int64_t column = 0; column < sizes[3]; ++column) {
          *out++ = chance.of(own.bits(of_row | static_cast<std::uint64_t>(corner.column + column)));
        }
      }
    }
  });
}

}  // namespace

at::Tensor without_numbers(const Drops& drops, const DropPlace& place, double share,
                           const at::Tensor& x) {
  if (share == 0) return x;
  const auto entries = static_cast<std::uint64_t>(x.size(1) * x.size(2));
  const Chance chance(share);
  const at::Tensor out = mask_of_samples(drops, random_of(drops, place, Of::numbers), x.sizes(),
                                         [&](const CounterRandom& own, bool* left_out) {
                                           for (std::uint64_t n = 0; n < entries; ++n) {
                                             left_out[n] = chance.of(own.bits(n));
                                           }
                                         });
  return x.masked_fill(out.to(x.device()), 0) / (1 - share);
}

at::Tensor without_samples(const Drops& drops, const DropPlace& place, const at::Tensor& x) {
  const double share = drops.path * static_cast<double>(place.layer);
  if (share == 0) return x;
  const Chance chance(share);
  const at::Tensor out = mask_of_samples(
      drops, random_of(drops, place, Of::samples), {x.size(0), 1, 1},
      [&](const CounterRandom& own, bool* left_out) { *left_out = chance.of(own.bits(0)); });
  return x.masked_fill(out.to(x.device()), 0);
}

void leave_scores_out(const Drops& drops, const DropPlace& place, AttentionProgram& program) {
  if (drops.score == 0) return;
  program.edit = [first = std::move(program.edit), drops,
                  random = random_of(drops, place, Of::scores)](const at::Tensor& given,
                                                                const ScoreCorner& corner) {
    const at::Tensor scores = first ? first(given, corner) : given;
    const at::Tensor out = mask_of_scores(drops, random, scores.sizes(), corner);
    return scores.masked_fill(out.to(scores.device()), kLeftOut);
  };
}

}  // namespace phasescope::model
