#include "analysis/questions/acuity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/questions/common.h"
#include "formats/counter_random.h"
#include "formats/error.h"
#include "model/attention/exchanged_band.h"

namespace phasescope::analysis {
namespace {

using Place = model::ExchangePlace;

// Plain operations take the square of the length: longer texts leave what is not exchanged to the
// kernel, where it can be left, and have its rounding.
constexpr std::size_t kPlainTokens = 4096;

// What one text gives: the change of loss in bits, mean over seeds and of each.
struct TextChange {
  double all = 0, seen = 0;
  std::vector<double> seen_by_seed;
  double rows = 0, rows_seen = 0;
};

std::size_t first_row_that_sees_half(const DistanceBand& band) {
  return static_cast<std::size_t>((band.low + band.high) / 2);
}

// The pairs of a band at other distances, by plain operations.
class MovingHook final : public model::AttentionHook {
 public:
  MovingHook(model::PairsOfRows pairs, Place place) : pairs_(std::move(pairs)), place_(place) {}

  void before(const model::LayerInput& input, model::AttentionProgram& program) override {
    if (place_.layer >= 0 && place_.layer != input.layer) return;
    std::vector<std::int64_t> heads;
    if (place_.head >= 0) heads.push_back(place_.head);
    model::move_pairs(input, pairs_, heads, program);
  }

 private:
  model::PairsOfRows pairs_;
  Place place_;
};

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// CounterRandom's mixed(): products of whole numbers leave their upper halves out with a sign too.
at::Tensor mixed(at::Tensor x) {
  const auto shifted = [](const at::Tensor& from, std::int64_t bits) {
    return at::bitwise_and(at::bitwise_right_shift(from, bits), kMost >> (bits - 1));
  };
  x = (x ^ shifted(x, 30)) * static_cast<std::int64_t>(formats::CounterRandom::kFirst);
  x = (x ^ shifted(x, 27)) * static_cast<std::int64_t>(formats::CounterRandom::kSecond);
  return x ^ shifted(x, 31);
}

// CounterRandom(seed, stream).bits(index) of streams (S) and indices (K), (S, K).
at::Tensor random_bits(std::uint64_t seed, const at::Tensor& streams, const at::Tensor& indices) {
  constexpr auto kStep = static_cast<std::int64_t>(formats::CounterRandom::kStep);
  const auto begin = static_cast<std::int64_t>(
      formats::CounterRandom::mixed(seed + formats::CounterRandom::kStep));
  const at::Tensor keys = mixed((streams * kStep + 1) ^ begin);
  return mixed(keys.unsqueeze(1) + (indices + 1) * kStep);
}

class Acuity {
 public:
  Acuity(const std::shared_ptr<const model::Model>& model, const Texts& texts,
         const AcuityOptions& options, protocol::Progress& progress)
      : model_(model),
        texts_(texts),
        options_(options),
        progress_(progress),
        draws_(options.seed),
        bands_(options.bands.empty() ? default_bands(model->config().context) : options.bands) {}

  protocol::AcuityResult run() {
    protocol::AcuityResult result;
    result.model = model_->report.name;
    result.trained = model_->config().context;
    result.formula =
        "in every row the keys at distances a <= lambda < b are shown at each other's distances, "
        "by a permutation drawn for row, text and seed; change of loss in bits a token, treated - "
        "plain; change_seen: over rows from (a + b) / 2 on, which see half of the band";
    for (const std::uint64_t seed : options_.seeds) {
      result.seeds.push_back(static_cast<std::int64_t>(seed));
    }
    const std::vector<Place> places = places_asked();
    const auto bands = static_cast<std::size_t>(
        std::ranges::count_if(bands_, [this](const auto& band) { return is_seen(band); }));
    left_ = static_cast<double>(places.size() * bands * options_.seeds.size() + 1) *
            static_cast<double>(texts_.items.size());
    for (const Text& text : texts_.items) {
      const auto tokens = static_cast<std::int64_t>(text.ids.size()) - 1;
      fused_.push_back(text.ids.size() > kPlainTokens &&
                       model::exchanges_stay_fused(model_->decoder, tokens));
    }
    for (std::size_t text = 0; text < texts_.items.size(); ++text) {
      plain_.push_back(losses(text, nullptr));
    }
    for (const Place& place : places) add(place, result);
    result.passes = passes_;
    result.provenance.ran = protocol::listed(kernels_);
    result.provenance.note = note_of_missing_heads(*model_);
    return result;
  }

 private:
  std::vector<Place> places_asked() const {
    std::vector<Place> places{{}};
    const ChosenHeads chosen(model_->config(), options_.layers, options_.heads);
    if (options_.by == "model") return places;
    for (const std::int64_t layer : chosen.layers()) {
      if (options_.by == "layer") places.push_back({layer, -1});
      if (options_.by != "head") continue;
      for (const std::int64_t head : chosen.heads_of(layer)) places.push_back({layer, head});
    }
    return places;
  }

  void add(const Place& place, protocol::AcuityResult& result) {
    std::vector<protocol::AcuityBand> bands;
    for (const DistanceBand& band : bands_) bands.push_back(measured(band, place));
    if (place.layer < 0) {
      result.bands = std::move(bands);
    } else {
      result.rows.push_back({place.layer, place.head, std::move(bands)});
    }
  }

  std::vector<double> losses(std::size_t text, model::AttentionHook* hook) {
    progress_.throw_if_cancelled();
    protocol::PartOfProgress part = part_of_pass(progress_, passes_++, left_);
    const model::Backend backend = fused_[text] ? model::Backend::fused : model::Backend::plain;
    const TreatedPass pass{backend, &kernels_, &part, "showing other distances"};
    part.progress(0, pass.doing);
    return losses_under(*model_, texts_.items[text].ids, hook, pass);
  }

  std::vector<double> treated(std::size_t text, const DistanceBand& band, std::uint64_t seed,
                              const Place& place) {
    const model::PairsOfRows pairs = [&](std::int64_t first, std::int64_t count) {
      return permuted_pairs(band, seed, static_cast<std::int64_t>(text), first, count,
                            model_->decoder.device());
    };
    if (fused_[text] && band.low > 0) {
      model::ExchangedBand hook(band.low, band.high, pairs, place);
      return losses(text, &hook);
    }
    MovingHook hook(pairs, place);
    return losses(text, &hook);
  }

  TextChange change_of(std::size_t text, const DistanceBand& band, const Place& place) {
    const std::vector<double>& plain = plain_[text];
    const auto half = std::min(first_row_that_sees_half(band), plain.size());
    TextChange change;
    change.rows = static_cast<double>(plain.size());
    change.rows_seen = static_cast<double>(plain.size() - half);
    for (const std::uint64_t seed : options_.seeds) {
      const std::vector<double> moved = treated(text, band, seed, place);
      double seen = 0;
      for (std::size_t row = 0; row < plain.size(); ++row) {
        const double off = moved[row] - plain[row];
        change.all += off / static_cast<double>(options_.seeds.size());
        if (row >= half) seen += off;
      }
      change.seen += seen / static_cast<double>(options_.seeds.size());
      change.seen_by_seed.push_back(seen);
    }
    return change;
  }

  // Whether a text has a row that sees two keys of a band.
  bool is_seen(const DistanceBand& band) const { return band.low < texts_.longest() - 2; }

  protocol::AcuityBand measured(const DistanceBand& band, const Place& place) {
    protocol::AcuityBand out;
    out.low = band.low, out.high = band.high;
    if (!is_seen(band)) {
      out.why = "no row sees it";
      return out;
    }
    std::vector<Part> all, seen;
    std::vector<double> by_seed(options_.seeds.size());
    double rows_seen = 0;
    for (std::size_t text = 0; text < texts_.items.size(); ++text) {
      const TextChange change = change_of(text, band, place);
      all.push_back({change.all, change.rows});
      seen.push_back({change.seen, change.rows_seen});
      rows_seen += change.rows_seen;
      for (std::size_t n = 0; n < by_seed.size(); ++n) by_seed[n] += change.seen_by_seed[n];
    }
    out.change = ratio_interval(all, draws_);
    out.rows_seen = static_cast<std::int64_t>(rows_seen);
    if (out.rows_seen == 0) {
      out.why = "no row sees half of it";
      return out;
    }
    out.change_seen = ratio_interval(seen, draws_);
    for (const double sum : by_seed) out.by_seed.push_back(sum / rows_seen);
    return out;
  }

  std::shared_ptr<const model::Model> model_;
  const Texts& texts_;
  const AcuityOptions& options_;
  protocol::Progress& progress_;
  Draws draws_;
  std::vector<DistanceBand> bands_;
  std::vector<char> fused_;  // of each text: whether the kernel computes what is not exchanged
  std::vector<std::vector<double>> plain_;
  model::AllRan kernels_;
  std::int64_t passes_ = 0;
  double left_ = 1;
};

}  // namespace

std::vector<DistanceBand> default_bands(std::int64_t trained) {
  std::vector<DistanceBand> bands;
  for (std::int64_t low = 1; low < trained; low *= 2) {
    const std::int64_t high = std::min(2 * low + 1, trained);
    // From 128 on one band holds all the rest.
    const bool rest = low >= 128;
    if (high > low) bands.push_back({low, rest ? trained : high});
    if (rest) break;
  }
  return bands;
}

DistanceBand band_named(const std::string& words) {
  DistanceBand band;
  const char* end = words.data() + words.size();
  const auto low = std::from_chars(words.data(), end, band.low);
  const bool between = low.ec == std::errc() && low.ptr < end && *low.ptr == ':';
  const auto high = between ? std::from_chars(low.ptr + 1, end, band.high) : low;
  if (between && high.ec == std::errc() && high.ptr == end && band.low >= 0 &&
      band.high > band.low) {
    return band;
  }
  throw formats::bad_usage("'" + words + "' is no band of distances", "bands",
                           "write it as a:b with 0 <= a < b");
}

model::MovedPairs permuted_pairs(const DistanceBand& band, std::uint64_t seed, std::int64_t text,
                                 std::int64_t first, std::int64_t count, const at::Device& device) {
  // The distances that the last row sees; row i sees those up to i.
  const std::int64_t width =
      std::max<std::int64_t>(0, std::min(band.high, first + count) - band.low);
  const auto whole = at::TensorOptions(at::kLong).device(device);
  const at::Tensor rows = at::arange(first, first + count, whole);
  const at::Tensor distances = at::arange(band.low, band.low + width, whole);
  // Numbers without a sign in their order; what a row does not see stands behind all that it does.
  const at::Tensor keys = (random_bits(seed, rows + (text << 32), distances) ^ kLeast)
                              .masked_fill(distances > rows.unsqueeze(1), kMost);
  const at::Tensor order = std::get<1>(at::sort(keys, /*stable=*/true, 1, /*descending=*/false));
  // Which entries are seen follows from the shape, which is a triangle's.
  const at::Tensor places = at::tril_indices(count, width, first - band.low, whole);
  const at::Tensor row = places[0] + first;
  return {row, row - band.low - order.index({places[0], places[1]}), places[1] + band.low,
          model::DistanceRange{band.low, band.low + std::max<std::int64_t>(width - 1, 0)}};
}

protocol::AcuityResult analyse_acuity(const std::shared_ptr<const model::Model>& model,
                                      const Texts& texts, const AcuityOptions& options,
                                      protocol::Progress& progress) {
  require_causal(*model, "acuity");
  require_losses(*model, texts);
  require_other_distances(*model);
  return Acuity(model, texts, options, progress).run();
}

}  // namespace phasescope::analysis
