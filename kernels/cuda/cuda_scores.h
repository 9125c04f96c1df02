#pragma once
// What the CUDA kernels are compiled for (kernels/variants/scores.inc), for programs that link no
// CUDA too.

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// A line of that list: a score's name, and between spaces what there is of it on CUDA.
struct CudaScore {
  std::string_view name, has;
};
inline constexpr auto kCudaScores = std::to_array<CudaScore>({
#define PHASESCOPE_SCORE(name, score, headers, on_cpu, on_cuda) {#name, " " on_cuda " "},
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE
});

/// The name of a problem's score in that list.
inline std::string_view cuda_score_name(const AttentionInputs& inputs) {
  struct Name {
    bool tokens;

    std::string_view operator()(const PlainVariant&) const {
      return tokens ? "plain_tokens" : "plain";
    }
    std::string_view operator()(const TableVariant& table) const {
      return table.multiplies ? "table_multiplied" : tokens ? "table_tokens" : "table";
    }
    std::string_view operator()(const TapaVariant&) const { return "tapa"; }
    std::string_view operator()(const TapeVariant&) const { return "tape"; }
    std::string_view operator()(const FireVariant&) const { return "fire"; }
    std::string_view operator()(const QueryTableVariant&) const { return "query_table"; }
    std::string_view operator()(const ClampVariant&) const { return "clamp"; }
    std::string_view operator()(const CapeVariant&) const { return "cape"; }
  };
  return std::visit(Name{inputs.tokens.any()}, inputs.variant);
}

/// Whether a problem's score has what that list calls " wide ", " hopper " or " hopper_backward ".
/// Throws std::logic_error where the list has no score of that name.
inline bool cuda_score_has(const AttentionInputs& inputs, std::string_view what) {
  const std::string_view name = cuda_score_name(inputs);
  for (const CudaScore& score : kCudaScores) {
    if (score.name == name) return score.has.find(what) != std::string_view::npos;
  }
  throw std::logic_error("scores.inc has no score " + std::string(name));
}

}  // namespace phasescope::kernels
