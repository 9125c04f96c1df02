#pragma once
// Which heads, layers and planes fail past the trained length T: the loss over rows i >= T alone,
// with heads treated one by one. window W: keys at distances of W and more are not seen. clamp W:
// they are read as if they stood at W.
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/questions/treated.h"
#include "protocol/messages/xray.h"

namespace phasescope::analysis {

struct XrayOptions {
  model::Backend backend = model::Backend::fused;
  bool clamp = false;
  std::int64_t limit = 0;  // 0: T, of a clamp T - 1
  bool by_layer = false;
  bool repair = false;
  double enough = 0.9;
  std::vector<std::int64_t> layers, heads;
  std::uint64_t seed = 0;
};

// Which distances 0..length-1 training up to `trained` never showed a plane of this frequency
// (radians a token): those whose phase lies further from every phase seen than half a step.
std::vector<bool> unseen_phases(double frequency, std::int64_t trained, std::int64_t length);

// 2 + 2 heads passes a text and one for the weights on what training never showed; a greedy repair
// about heads more, on half of the texts, for each that it finds. `passes` counts them all.
// Intervals are over texts, of one text over 8 blocks of its rows past T; it fails where that of
// `returned` lies above 0, and what has no interval (fewer than 64 such rows) is not said to fail.
// Throws Error "not_applicable" for encoders, and for a clamp where the model cannot be shown
// another distance; "bad_usage" where no text is longer than T.
protocol::XrayResult analyse_xray(const std::shared_ptr<const model::Model>& model,
                                  const Texts& texts, const XrayOptions& options,
                                  protocol::Progress& progress);

}  // namespace phasescope::analysis
