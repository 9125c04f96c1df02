#include "analysis/questions/duel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <set>
#include <utility>

#include "analysis/intervals/anytime.h"
#include "analysis/questions/common.h"
#include "analysis/statistics.h"
#include "analysis/tensors.h"
#include "formats/counter_random.h"
#include "formats/error.h"
#include "model/checkpoints/tensor_io.h"
#include "protocol/json_form.h"

namespace phasescope::analysis {
namespace {

using protocol::detail::read_double;
using protocol::detail::write_double;

// Offsets in bytes at which a predicted token begins or ends: whoever reads from one of them to
// another has read whole tokens.
std::set<std::size_t> ends_of_tokens(const Text& text) {
  std::set<std::size_t> ends;
  for (std::size_t n = 1; n < text.spans.size(); ++n) {
    if (text.spans[n].begin == text.spans[n].end) continue;  // put in by the template
    ends.insert(text.spans[n].begin);
    ends.insert(text.spans[n].end);
  }
  return ends;
}

// Bits of the predicted tokens that lie within a stretch of the text.
double bits_between(const Text& text, const std::vector<double>& losses, std::size_t begin,
                    std::size_t end) {
  double nats = 0;
  for (std::size_t n = 0; n < losses.size(); ++n) {
    const formats::TextSpan& span = text.spans[n + 1];
    const bool of_the_text = span.begin < span.end;  // and not put in by the template
    if (of_the_text && span.begin >= begin && span.end <= end) nats += losses[n];
  }
  return nats / std::numbers::ln2;
}

double mean_bits(const std::vector<double>& losses) {
  double nats = 0;
  for (const double loss : losses) nats += loss;
  return nats / static_cast<double>(losses.size()) / std::numbers::ln2;
}

std::vector<double> losses_of(const std::shared_ptr<const model::Model>& model, const Text& text,
                              const DuelOptions& options, model::AllRan& kernels) {
  model::ForwardOptions forward;
  forward.backend = options.backend;
  TextPass pass(model, ids_tensor(text.ids), with_inputs_of(text, forward), 0);
  std::vector<double> losses = to_vector<double>(pass.losses()[0].to(at::kDouble));
  kernels.insert(pass.kernels().begin(), pass.kernels().end());
  return losses;
}

// Who reads which ids, so that nothing else is taken for it.
std::string side_words(const model::Model& model, const Text& text) {
  Texts alone;
  alone.items = {text};
  return model.report.name + " " + model.report.sha256 + " " +
         model::name_of_dtype(model.decoder.dtype()) + ", ids " + alone.hash();
}

// Two models on the same texts, each measured once.
class TextDuel {
 public:
  TextDuel(const std::shared_ptr<const model::Model>& a,
           const std::shared_ptr<const model::Model>& b, const DuelOptions& options)
      : a_(a), b_(b), options_(options) {}

  BitsOfText read(const Text& one, const Text& other) {
    if (options_.log == nullptr) return measured(one, other);
    const std::string key =
        "text " + one.name + ": " + side_words(*a_, one) + "; " + side_words(*b_, other);
    if (const nlohmann::json* known = options_.log->found(key)) {
      return {read_double(known->at(0)), read_double(known->at(1)), known->at(2).get<bool>()};
    }
    const BitsOfText bits = measured(one, other);
    options_.log->add(key, {write_double(bits.a), write_double(bits.b), bits.per_byte});
    return bits;
  }

  const model::AllRan& kernels(std::size_t side) const { return kernels_[side]; }

 private:
  BitsOfText measured(const Text& one, const Text& other) {
    return bits_of_text(one, losses_of(a_, one, options_, kernels_[0]), other,
                        losses_of(b_, other, options_, kernels_[1]));
  }

  std::shared_ptr<const model::Model> a_, b_;
  const DuelOptions& options_;
  model::AllRan kernels_[2];
};

void require_same_texts(const Texts& a, const Texts& b) {
  bool same = a.items.size() == b.items.size();
  for (std::size_t n = 0; same && n < a.items.size(); ++n) {
    same = a.items[n].name == b.items[n].name;
  }
  if (!same) throw formats::bad_input("the models read different texts", "corpus");
}

}  // namespace

std::vector<std::size_t> duel_order(std::size_t n, std::uint64_t seed) {
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  const formats::CounterRandom random(seed, 0);
  for (std::size_t i = n; i-- > 1;) {
    std::swap(order[i], order[static_cast<std::size_t>(random.below(i + 1, i))]);
  }
  return order;
}

bool Duel::add(double difference) {
  values_.push_back(difference);
  const Interval interval = anytime_interval(values_, effects_);
  path_.push_back({interval.n, interval.mean, interval.low, interval.high});
  const Verdict would = verdict_of(interval);
  const bool skewed = std::abs(moments_of(values_).skewness) > kTooSkewed;
  verdict_ = skewed ? Verdict::undecided : would;
  return verdict_ != Verdict::undecided;
}

Duel::Verdict Duel::verdict_of(const Interval& interval) const {
  if (interval.n < fewest_ || !interval.low || !interval.high) return Verdict::undecided;
  if (*interval.high < 0) return Verdict::a_better;
  if (*interval.low > 0) return Verdict::b_better;
  const bool within = margin_ > 0 && *interval.low >= -margin_ && *interval.high <= margin_;
  return within ? Verdict::equal : Verdict::undecided;
}

std::string Duel::why(Verdict would) const {
  const double skewness = std::abs(moments_of(values_).skewness);
  if (skewness > kTooSkewed) return "differences too skewed for this interval";
  if (skewness > kSkewed) return "skewed: false alarms up to 13 % were simulated";
  if (would != Verdict::undecided) return "";
  if (std::ranges::all_of(values_, [](double value) { return value == 0; })) {
    return "no difference at all";
  }
  if (static_cast<std::int64_t>(values_.size()) < fewest_) {
    return "nothing is decided of fewer than " + std::to_string(fewest_);
  }
  if (!anytime_interval(values_, effects_).low) {
    return std::to_string(values_.size()) + " differences have no interval";
  }
  return "the interval at the end holds 0";
}

void Duel::tell(protocol::DuelResult& result) const {
  const Interval interval = anytime_interval(values_, effects_);
  constexpr const char* kWords[] = {"undecided", "A better", "B better", "equal within"};
  result.n = interval.n, result.mean = interval.mean;
  result.low = interval.low, result.high = interval.high;
  result.method = interval.method;
  result.verdict = kWords[static_cast<int>(verdict_)];
  result.why = why(verdict_);
  if (values_.size() > 1) result.skewness = moments_of(values_).skewness;
  result.margin = margin_;
  result.path = path_;
  if (verdict_ == Verdict::undecided && values_.size() > 1) {
    result.n_to_decide =
        units_to_decide(interval.mean, sample_deviation(values_), effects_, fewest_);
  }
}

std::optional<std::int64_t> units_to_decide(double mean, double deviation, double effects,
                                            std::int64_t fewest) {
  constexpr std::int64_t kMost = 1'000'000'000;
  const auto decides = [&](std::int64_t n) {
    const auto half = anytime_half_width(n, effects);
    return half && *half * deviation < std::abs(mean);
  };
  if (mean == 0 || !std::isfinite(mean)) return std::nullopt;
  std::int64_t high = fewest;
  while (!decides(high)) {
    if (high > kMost / 2) return std::nullopt;
    high *= 2;
  }
  std::int64_t low = std::max(fewest - 1, high / 2);  // does not decide, or is too few
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (decides(middle) ? high : low) = middle;
  }
  return high;
}

BitsOfText bits_of_text(const Text& a, const std::vector<double>& losses_a, const Text& b,
                        const std::vector<double>& losses_b) {
  if (a.ids == b.ids) return {mean_bits(losses_a), mean_bits(losses_b), false};
  if (a.spans.empty() || b.spans.empty() || a.text != b.text) {
    throw formats::bad_input("the models read different ids, which say no bytes of a text", a.name,
                             "compare models of one vocabulary, or give texts");
  }
  std::vector<std::size_t> common;
  std::ranges::set_intersection(ends_of_tokens(a), ends_of_tokens(b), std::back_inserter(common));
  if (common.size() < 2) {
    throw formats::bad_input("no stretch of the text is made of whole tokens of both models",
                             a.name, "read more tokens");
  }
  const std::size_t begin = common.front(), end = common.back();
  const auto bytes = static_cast<double>(end - begin);
  return {bits_between(a, losses_a, begin, end) / bytes,
          bits_between(b, losses_b, begin, end) / bytes, true};
}

protocol::DuelResult analyse_duel(const std::shared_ptr<const model::Model>& a,
                                  const Texts& texts_a,
                                  const std::shared_ptr<const model::Model>& b,
                                  const Texts& texts_b, const DuelOptions& options,
                                  protocol::Progress& progress) {
  require_losses(*a, texts_a), require_losses(*b, texts_b);
  require_same_texts(texts_a, texts_b);
  protocol::DuelResult result;
  result.a = a->report.name, result.b = b->report.name;
  result.texts = static_cast<std::int64_t>(texts_a.items.size());
  TextDuel texts(a, b, options);
  Duel duel(kTextEffects, kFewestDuelled, options.margin);
  const auto order = duel_order(texts_a.items.size(), options.seed);
  for (std::size_t n = 0; n < order.size(); ++n) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(n) / static_cast<double>(order.size()), "duelling");
    const Text &one = texts_a.items[order[n]], &other = texts_b.items[order[n]];
    const BitsOfText bits = texts.read(one, other);
    if (bits.per_byte) result.per = "byte";
    result.units.push_back({one.name, bits.a, bits.b, bits.a - bits.b});
    if (duel.add(bits.a - bits.b) && !options.all_texts) break;
  }
  duel.tell(result);
  for (const std::size_t side : {0, 1}) {
    result.provenance.emplace_back().ran = protocol::listed(texts.kernels(side));
  }
  return result;
}

}  // namespace phasescope::analysis
