#pragma once
// Which of two models predicts better: the same texts through both, in random order, until an
// interval that is valid at every n decides (analysis/intervals/anytime.h).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/eval_log.h"
#include "analysis/intervals/intervals.h"
#include "analysis/text_pass.h"
#include "protocol/messages/duel.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

inline constexpr std::int64_t kFewestDuelled = 8;  // texts before anything is decided
inline constexpr double kSkewed = 1, kTooSkewed = 2;

// The order in which n units are read: Fisher-Yates from the end, by CounterRandom(seed, 0). A
// corpus is sorted by its sources, and differences in that order decide too early.
std::vector<std::size_t> duel_order(std::size_t n, std::uint64_t seed);

// Differences as they come, and what they say. Fed in random order.
class Duel {
 public:
  Duel(double effects, std::int64_t fewest, double margin)
      : effects_(effects), fewest_(fewest), margin_(margin) {}

  // Returns whether it is decided.
  bool add(double difference);

  // All but the units, the models and the texts.
  void tell(protocol::DuelResult& result) const;

 private:
  enum class Verdict { undecided, a_better, b_better, equal };
  Verdict verdict_of(const Interval& interval) const;
  std::string why(Verdict would) const;

  double effects_;
  std::int64_t fewest_;
  double margin_;
  std::vector<double> values_;
  std::vector<protocol::DuelStep> path_;
  Verdict verdict_ = Verdict::undecided;
};

// How many units would decide at this mean and standard deviation; none where none do below 10^9.
std::optional<std::int64_t> units_to_decide(double mean, double deviation, double effects,
                                            std::int64_t fewest);

// Bits of a text by two models: per token where both read the same ids, otherwise per byte of what
// both have read whole tokens of.
struct BitsOfText {
  double a = 0, b = 0;
  bool per_byte = false;
};
// Losses in nats of the N - 1 predicted tokens of each. Throws Error "bad_input" where the ids
// differ and say no bytes, or no stretch of the text is made of whole tokens of both.
BitsOfText bits_of_text(const Text& a, const std::vector<double>& losses_a, const Text& b,
                        const std::vector<double>& losses_b);

struct DuelOptions {
  model::Backend backend = model::Backend::fused;
  double margin = 0;
  std::uint64_t seed = 0;
  bool all_texts = false;  // read all of them, decided or not
  EvalLog* log = nullptr;  // texts found there are not read again
};

// `texts_a` and `texts_b` are the same texts, each by its model's tokenizer. One forward pass a
// text and side. Throws Error "not_applicable" for models without a loss of the next token.
protocol::DuelResult analyse_duel(const std::shared_ptr<const model::Model>& a,
                                  const Texts& texts_a,
                                  const std::shared_ptr<const model::Model>& b,
                                  const Texts& texts_b, const DuelOptions& options,
                                  protocol::Progress& progress);

}  // namespace phasescope::analysis
