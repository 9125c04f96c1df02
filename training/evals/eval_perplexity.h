#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/evals/eval_task.h"

namespace phasescope::training {

// Which tokens of which windows count. Four meanings of "perplexity at length n" circulate, so the
// rule is part of every row.
struct WindowRule {
  enum class Kind {
    disjoint,     // windows of n tokens one after the other, every token counts
    sliding,      // windows of n tokens every `stride`, each token counts once (TAPA)
    last_k,       // windows of n tokens, their last `stride` tokens count (CAPE)
    per_position  // of windows of the largest n, the tokens just before position n count
  };
  Kind kind = Kind::disjoint;
  int64_t stride = 256;

  // "disjoint", "sliding:256", "last_k:256", "per_position". Throws Error "bad_usage".
  static WindowRule read(const std::string& text);
  std::string name() const;
};

// One window: tokens [begin, begin + length) of a text are predicted, those from `count_from` (an
// index into the window) on count.
struct EvalWindow {
  int64_t begin = 0, length = 0, count_from = 0;
  bool operator==(const EvalWindow&) const = default;
};

// The windows of a text of `tokens` tokens; none when it is shorter than n.
std::vector<EvalWindow> windows_of(const WindowRule& rule, int64_t tokens, int64_t n);

// Bits a byte (or perplexity) of text against the length read, and the loss by position in the
// windows of the largest length.
EvalTask perplexity_task();

}  // namespace phasescope::training
