#pragma once
// Every statistic of every head, over one text or over a corpus with intervals.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/head_reading.h"
#include "analysis/text_pass.h"
#include "protocol/messages/heads.h"
#include "protocol/progress.h"
#include "protocol/reply.h"

namespace phasescope::analysis {

struct HeadsOptions {
  std::string stack;                 // for stack_named()
  std::vector<std::int64_t> layers;  // whose heads; empty for all
  std::vector<std::string> metrics;  // keys; empty for all numbers a head
  std::int64_t thumbnails = 0;       // side of each head's picture; 0 for none
  std::int64_t period = 0;           // S of the repeated random tokens; 0: chosen by the context
  std::uint64_t seed = 0;
  std::int64_t draws = 1;             // of random tokens written twice
  std::vector<std::int64_t> windows;  // of window_mass, three at most; empty for kWindows
};

struct HeadsOutput {
  protocol::HeadsResult result;
  std::vector<protocol::TensorRef> tensors;
};

// One pass a text; of an encoder-decoder the heads of one stack. Over a corpus every number is a
// mean over texts (induction, duplicate_token and induction_loss: over draws of random tokens, also
// beside a single text) with the interval of mean_interval(); a single text has none. Nothing of a
// text is kept but its numbers. The thumbnails are of the first one. Tensors: `js_divergence` (L H,
// L H), the mean over texts, NaN for heads that are not there, and where there are several texts
// and at most kMostHeadsWithEnds heads the ends of its intervals, `js_divergence_low` and
// `js_divergence_high`. The induction loss is NaN, and the result's note says why, where the model
// has no loss of the next token. Of some layers there are neither that loss nor a sink rate, and
// those behind the last of them do not run. Throws Error "bad_usage" for a metric that does not
// exist, for windows that are none, for layers that are not there, and for a metric of all layers
// (js_divergence, induction_loss, sink_rate) where some are chosen.
inline constexpr std::int64_t kMostHeadsWithEnds = 64;
HeadsOutput analyse_heads(const std::vector<std::shared_ptr<TextPass>>& passes,
                          const HeadsOptions& options, protocol::Progress& progress);

// What every statistic of a head is computed from; sums by distance in the buckets of these edges.
model::ProbeRequest head_probes(std::vector<std::int64_t> bucket_edges,
                                std::span<const std::int64_t> windows = kWindows);
// What one layer's probes, those of head_probes(), say of each head. `kernels`, here and below:
// gathers what measured it; null for nobody.
std::vector<HeadReading> read_heads(const model::LayerAttention& attention,
                                    const model::ProbeRequest& probes,
                                    model::AllRan* kernels = nullptr);

// (H, S, S) pictures of a layer's heads: weights pooled by their maximum, -inf where masked.
at::Tensor layer_thumbnails(const model::LayerAttention& attention, std::int64_t side,
                            model::AllRan* kernels = nullptr);

}  // namespace phasescope::analysis
