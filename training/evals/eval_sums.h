#pragma once
// Losses of windows, gathered by text and by position.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/intervals/intervals.h"
#include "training/evals/eval_texts.h"
#include "training/evals/eval_windows.h"

namespace phasescope::training {

// A text's part in a mean: the sum of the losses and what they are divided by.
using TextSum = analysis::Part;

// What a mean is divided by.
enum class Per { byte, token };

// Sums by text: of the tokens that count, and of every position of windows of n tokens.
class LossSums {
 public:
  LossSums(std::size_t texts, std::int64_t n, Per per);

  // Losses in nats of the window's tokens from the one at `first_known` on.
  void add(std::size_t text_index, const EvalText& text, const EvalWindow& window,
           const double* losses, std::int64_t first_known);

  // The sums of one text, kept by itself, in the place of that text.
  void put(std::size_t text_index, const LossSums& of_text);
  // The sums of one text as JSON: what the rule counts and, where they are wanted, positions.
  nlohmann::json written(bool positions) const;
  // Throws what nlohmann::json throws, or std::invalid_argument, for what is none.
  void read(const nlohmann::json& text);

  // Sums over the tokens that the window rule counts.
  const std::vector<TextSum>& counted() const { return counted_; }
  // Sums over positions [begin, end) in the windows, whatever the rule.
  std::vector<TextSum> between(std::int64_t begin, std::int64_t end) const;
  // Texts of which tokens count, and these tokens.
  std::int64_t texts_read() const;
  std::int64_t tokens_counted() const { return tokens_; }
  std::int64_t tokens_between(std::int64_t begin, std::int64_t end) const;

 private:
  Per per_;
  std::int64_t tokens_ = 0;
  std::vector<std::int64_t> tokens_at_;
  std::vector<TextSum> counted_;
  std::vector<std::vector<TextSum>> by_position_;
};

}  // namespace phasescope::training
