#include "analysis/questions/acuity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
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
    progress_.progress(static_cast<double>(passes_) / left_, "showing other distances");
    ++passes_;
    const model::Backend backend = fused_[text] ? model::Backend::fused : model::Backend::plain;
    return losses_under(*model_, texts_.items[text].ids, hook, {backend, &kernels_, &progress_});
  }

  std::vector<double> treated(std::size_t text, const DistanceBand& band, std::uint64_t seed,
                              const Place& place) {
    const model::PairsOfRows pairs = [&](std::int64_t first, std::int64_t count) {
      return permuted_pairs(band, seed, static_cast<std::int64_t>(text), first, count);
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
                                 std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> row, column, distance;
  for (std::int64_t i = first; i < first + count; ++i) {
    const formats::CounterRandom random(
        seed, (static_cast<std::uint64_t>(text) << 32) | static_cast<std::uint64_t>(i));
    std::vector<std::pair<std::uint64_t, std::int64_t>> order;
    for (std::int64_t d = band.low; d < std::min(band.high, i + 1); ++d) {
      order.emplace_back(random.bits(static_cast<std::uint64_t>(d)), d);
    }
    std::ranges::sort(order);
    for (std::size_t n = 0; n < order.size(); ++n) {
      row.push_back(i), column.push_back(i - order[n].second);
      distance.push_back(band.low + static_cast<std::int64_t>(n));
    }
  }
  return {at::tensor(row, at::kLong), at::tensor(column, at::kLong),
          at::tensor(distance, at::kLong)};
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
