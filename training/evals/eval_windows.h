#pragma once
// Which tokens of a text are read together, and which of them count.
#include <cstdint>
#include <string>
#include <vector>

namespace phasescope::training {

// Four meanings of "perplexity at length n" circulate, so the rule is part of every row.
struct WindowRule {
  enum class Kind {
    disjoint,     // windows of n tokens one after the other, every token counts
    sliding,      // windows of n tokens every `stride`, each token counts once (TAPA)
    last_k,       // windows of n tokens, their last `stride` tokens count (CAPE)
    per_position  // of windows of the largest n, the tokens just before position n count
  };
  Kind kind = Kind::disjoint;
  std::int64_t stride = 256;

  // "disjoint", "sliding:256", "last_k:256", "per_position". Throws Error "bad_usage".
  static WindowRule read(const std::string& text);
  // With windows of n tokens, in which no more than n can be the stride or the K.
  std::string name(std::int64_t n) const;
  std::int64_t stride_of(std::int64_t n) const;
};

// One window: tokens [begin, begin + length) of a text are predicted, those from `count_from` (an
// index into the window) on count.
struct EvalWindow {
  std::int64_t begin = 0, length = 0, count_from = 0;
  bool operator==(const EvalWindow&) const = default;
};

// The windows of a text of `tokens` tokens; none when it is shorter than n. `sliding` reads the
// tail, which is no whole stride, in one more window that ends at the text's end and counts what no
// window before it has counted; the other rules leave the tail out.
std::vector<EvalWindow> windows_of(const WindowRule& rule, std::int64_t tokens, std::int64_t n);

// Tokens that count in them.
std::int64_t scored_tokens(const std::vector<EvalWindow>& windows);

}  // namespace phasescope::training
