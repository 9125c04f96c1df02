#pragma once
// The scores of scores.inc by name, and what its lines say of them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace phasescope::kernels {

enum class ScoreName : std::uint8_t {
#define PHASESCOPE_SCORE(name, ...) name,
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE
};

struct ScoreLine {
  std::string_view name, on_cpu, on_cuda;
};
/// In the order of ScoreName.
inline constexpr auto kScores = std::to_array<ScoreLine>({
#define PHASESCOPE_SCORE(name, score, headers, on_cpu, on_cuda) {#name, on_cpu, on_cuda},
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE
});

constexpr const ScoreLine& line_of(ScoreName score) {
  return kScores[static_cast<std::size_t>(score)];
}
constexpr std::optional<ScoreName> find_score(std::string_view name) {
  for (std::size_t n = 0; n < kScores.size(); ++n) {
    if (kScores[n].name == name) return static_cast<ScoreName>(n);
  }
  return std::nullopt;
}

/// Calls call(word) for each of a line's words until one call is true; whether one was.
template <class Call>
constexpr bool any_word(std::string_view words, const Call& call) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (call(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}
constexpr bool has_word(std::string_view words, std::string_view word) {
  return any_word(words, [word](std::string_view one) { return one == word; });
}
/// Whether they name a pass, made of the line or written by hand.
constexpr bool has_pass(std::string_view words, std::string_view pass) {
  return any_word(words, [pass](std::string_view one) {
    return one == pass || (one.starts_with("own_") && one.substr(4) == pass);
  });
}

/// The score whose pass on a processor (&ScoreLine::on_cpu or on_cuda) is that of `score`: its own
/// or, where it has none, that of the score that stands in for it. None if there is no such pass.
constexpr std::optional<ScoreName> with_pass(ScoreName score, std::string_view ScoreLine::*on,
                                             std::string_view pass) {
  std::optional<ScoreName> found = score;
  while (found && !has_pass(line_of(*found).*on, pass)) {
    std::optional<ScoreName> other;
    any_word(line_of(*found).*on, [&other](std::string_view one) {
      if (one.starts_with("as_")) other = find_score(one.substr(3));
      return other.has_value();
    });
    found = other;
  }
  return found;
}

/// The same score with numbers of tokens around it, where the list has that.
constexpr std::optional<ScoreName> with_tokens(ScoreName score) {
  constexpr std::string_view kTokens = "_tokens";
  for (std::size_t n = 0; n < kScores.size(); ++n) {
    const std::string_view name = kScores[n].name;
    if (name.ends_with(kTokens) &&
        name.substr(0, name.size() - kTokens.size()) == line_of(score).name) {
      return static_cast<ScoreName>(n);
    }
  }
  return std::nullopt;
}

/// &function where `words` have that pass, and null elsewhere, where it need not be defined.
#define PHASESCOPE_PASS(words, pass, function)                    \
  []() -> decltype(&function) {                                   \
    if constexpr (::phasescope::kernels::has_pass(words, pass)) { \
      return &function;                                           \
    } else {                                                      \
      return nullptr;                                             \
    }                                                             \
  }()

}  // namespace phasescope::kernels
