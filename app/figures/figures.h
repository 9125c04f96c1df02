#pragma once
// From results to figures: one builder for each figure of the program. Views, exports and the
// report page all call these, so that a picture looks the same and says the same everywhere.
// Builders only copy numbers; none computes statistics.
//
// Sections: maps | heads | distance | shift | text and eval | patterns | theory | compare | jobs
#include <span>
#include <string>
#include <vector>

#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/map.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/provenance.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// A tensor of a reply as the builders need it: float32 values, row-major.
struct Grid {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// What has to be said of each model's measurement, "MODEL: NOTE", to `notes`.
void add_notes(std::vector<std::string>& notes, std::span<const protocol::Provenance> provenance);

// What is shown of an encoder-decoder: "shown: decoder self-attention (dec.)".
std::string stack_note(const std::string& stack);

// ---- maps ----
// `map` (h, w). Weights are drawn on 0..1, signed values centred at 0.
widgets::PlotSpec attention_map_figure(const protocol::MapResult& result, const Grid& map);
// A - B of two maps of equal size, centred at 0.
widgets::PlotSpec map_difference_figure(const protocol::MapResult& a, const Grid& map_a,
                                        const protocol::MapResult& b, const Grid& map_b);

// ---- heads ----
// `thumbnails` (L, H, S, S); captions name the head and its value of `metric`.
widgets::GridSpec head_grid_figure(const protocol::HeadsResult& result, const Grid& thumbnails,
                                   const std::string& metric);
// One metric of every head as a map, layers down, heads across.
widgets::PlotSpec metric_map_figure(const protocol::HeadsResult& result, const std::string& metric);
// Weight by distance of every head of a layer, a figure for each layer that has profiles.
std::vector<widgets::PlotSpec> distance_profile_figures(const protocol::HeadsResult& result);

// ---- distance ----
// Near-far histograms of the models over each other, as densities, with mean, interval and sigma.
widgets::PlotSpec near_far_figure(std::span<const protocol::DistanceModel> models);
// Mean of the near-far difference by layer, with its interval and the number of pairs.
widgets::PlotSpec near_far_by_layer_figure(std::span<const protocol::DistanceModel> models);
// Mean score by distance with its 95 % band.
widgets::PlotSpec score_profile_figure(std::span<const protocol::DistanceModel> models);
widgets::PlotSpec weight_profile_figure(std::span<const protocol::DistanceModel> models);
// Content and positional parts of one model's mean score.
widgets::PlotSpec score_parts_figure(const protocol::DistanceModel& model);
// sqrt(D) Gamma and the prediction with one mean a plane, beside the measured mean score.
widgets::PlotSpec intrinsic_bias_figure(const protocol::DistanceModel& model, size_t which);

// ---- shift ----
// Attention difference by layer, one line for each model (colour), method (dash) and shift (width).
widgets::PlotSpec shift_figure(const protocol::ShiftResult& result);

// ---- text and eval ----
// Loss of each token of one text.
widgets::PlotSpec token_loss_figure(std::span<const protocol::TextResult> texts);
// Loss against position to several times the trained length.
widgets::PlotSpec position_loss_figure(const protocol::EvalResult& result);
// The task's metric against length.
widgets::PlotSpec eval_figure(const protocol::EvalResult& result);

// ---- patterns ----
// "G shows 128 of 1024 positions, every 8th", "G shows all 64 positions"; empty without a G.
std::string sampling_note(const protocol::PatternsResult& result);
// PE dot products of one layer, `grid` (S, S).
widgets::PlotSpec pe_dot_figure(const protocol::PatternsResult& result, int64_t layer,
                                const Grid& grid);
widgets::PlotSpec pe_by_distance_figure(const protocol::PatternsResult& result);
widgets::PlotSpec state_drift_figure(std::span<const protocol::PatternsResult> results);
widgets::PlotSpec bias_curves_figure(const protocol::PatternsResult& result, int64_t layer);
widgets::PlotSpec frequencies_figure(const protocol::PatternsResult& result);

// ---- theory ----
// Every curve of a check; curves with the same axes and bound stand in one figure.
std::vector<widgets::PlotSpec> check_figures(const protocol::CheckResult& check);
widgets::PlotSpec check_figure(const protocol::CheckResult& check,
                               const protocol::CheckCurve& curve);

// ---- compare ----
widgets::PlotSpec divergence_figure(const protocol::CompareResult& result);

// ---- jobs ----
// Loss of a byte-level job in bits against step, with validation bits per byte.
widgets::PlotSpec job_curve_figure(const protocol::JobStatus& job);

}  // namespace phasescope::app
