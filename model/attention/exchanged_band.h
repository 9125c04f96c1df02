#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "model/attention/moved_scores.h"
#include "model/decoder.h"

namespace phasescope::model {

// Whose distances are exchanged; -1: of all layers, of all heads.
struct ExchangePlace {
  std::int64_t layer = -1, head = -1;
};

// Reads the keys of a band of distances, low <= lambda < high, at other distances (move_pairs()),
// and leaves all other pairs of a row to the kernel: it runs with the band hidden, and the band's
// own weights, from rows at a time, are joined to its result by their log-sum-exps. So neither
// N x N scores nor N x (high - low) are held. What it gives is move_pairs()'s to the kernel's
// rounding; rows that see one key of the band at most keep the kernel's bits.
class ExchangedBand final : public AttentionHook {
 public:
  // `pairs`: those of the band alone, each once. low > 0: a row always sees a key outside the band.
  ExchangedBand(std::int64_t low, std::int64_t high, PairsOfRows pairs, ExchangePlace place);

  void before(const LayerInput& input, AttentionProgram& program) override;
  void after(std::int64_t layer, const AttentionProgram& program, const at::Tensor& v,
             AttentionResult& result) override;
  bool wants_lse() const override { return true; }

 private:
  void join(const at::Tensor& v, std::int64_t first, std::int64_t count,
            AttentionResult& result) const;
  void keep_rows_before(const at::Tensor& v, AttentionResult& result) const;

  std::int64_t low_, high_;
  PairsOfRows pairs_;
  ExchangePlace place_;
  // The input of the layer that runs, where something is exchanged in it.
  std::optional<LayerInput> input_;
  AttentionProgram given_;
};

// Rows whose band is joined at a time: their scores, of all heads and of the keys that any of them
// has in a band of so many distances, are kExchangedScores at most (one row's may be more).
inline constexpr std::int64_t kExchangedScores = std::int64_t{1} << 21;
std::int64_t rows_of_exchange(std::int64_t heads, std::int64_t width);

// Whether all layers' programs for texts of so many tokens can be run so: scores of q and k alone
// or with a table's entries, of consecutive tokens that see all before them.
bool exchanges_stay_fused(const Decoder& decoder, std::int64_t tokens);

}  // namespace phasescope::model
