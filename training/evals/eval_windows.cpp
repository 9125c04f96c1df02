#include "training/evals/eval_windows.h"

#include <algorithm>
#include <charconv>

#include "formats/error.h"

namespace phasescope::training {
namespace {

std::int64_t number_after(const std::string& text, std::size_t colon, const char* rule) {
  std::int64_t value = 0;
  const char* begin = text.data() + colon + 1;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw formats::bad_usage(
        std::string("expected ") + rule + ":N with N above 0 but got \"" + text + "\"", "window");
  }
  return value;
}

bool overlapping(WindowRule::Kind kind) {
  return kind == WindowRule::Kind::sliding || kind == WindowRule::Kind::last_k;
}

}  // namespace

WindowRule WindowRule::read(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  WindowRule rule;
  if (kind == "disjoint" && colon == text.npos) return rule;
  if (kind == "per_position" && colon == text.npos) return {Kind::per_position, 0};
  if (kind == "sliding") rule.kind = Kind::sliding;
  if (kind == "last_k") rule.kind = Kind::last_k;
  if (rule.kind == Kind::disjoint) {
    throw formats::bad_usage("no such window rule: \"" + text + "\"", "window",
                             "disjoint, sliding:STRIDE, last_k:K or per_position");
  }
  if (colon != text.npos) rule.stride = number_after(text, colon, kind.c_str());
  return rule;
}

std::int64_t WindowRule::stride_of(std::int64_t n) const {
  return overlapping(kind) ? std::min(stride, n) : n;
}

std::string WindowRule::name(std::int64_t n) const {
  switch (kind) {
    case Kind::disjoint:
      return "disjoint";
    case Kind::sliding:
      return "sliding, stride " + std::to_string(stride_of(n));
    case Kind::last_k:
      return "last_k, k " + std::to_string(stride_of(n));
    case Kind::per_position:
      break;
  }
  return "per_position";
}

std::vector<EvalWindow> windows_of(const WindowRule& rule, std::int64_t tokens, std::int64_t n) {
  std::vector<EvalWindow> windows;
  const bool sliding = rule.kind == WindowRule::Kind::sliding;
  const std::int64_t stride = rule.stride_of(n);
  for (std::int64_t begin = 0; begin + n <= tokens; begin += stride) {
    const bool whole = sliding && begin == 0;
    windows.push_back({begin, n, whole ? 0 : n - stride});
  }
  if (!sliding || windows.empty()) return windows;
  const std::int64_t tail = tokens - (windows.back().begin + n);
  if (tail > 0) windows.push_back({tokens - n, n, n - tail});
  return windows;
}

std::int64_t scored_tokens(const std::vector<EvalWindow>& windows) {
  std::int64_t tokens = 0;
  for (const EvalWindow& window : windows) tokens += window.length - window.count_from;
  return tokens;
}

}  // namespace phasescope::training
