#pragma once
// From results to figures: one builder for each figure of the program. Views, exports and the
// report page all call these, so that a picture looks the same and says the same everywhere.
// Builders only copy numbers; none computes statistics. `names` says what the models are called and
// which colours they have.
//
// Sections: maps | heads | distance | shift | text and eval | patterns | theory | compare | jobs
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/figures/model_names.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/provenance.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"
#include "protocol/tensor.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// A tensor of a reply as the builders need it: float32 values, row-major.
struct Grid {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
// float64 is narrowed.
Grid grid_of(const protocol::TensorRef& tensor);

// One of the figures of a result, in the order in which they are exported. Those of one group stand
// beside each other in the window, those of a group by layers one layer at a time.
struct GroupedFigure {
  std::string group;
  std::int64_t layer = -1;  // -1: of no one layer
  widgets::PlotSpec plot;
};
std::vector<widgets::PlotSpec> plots_of(std::vector<GroupedFigure> figures);
// The figures that are not of this group.
std::vector<GroupedFigure> without(const std::string& group, std::vector<GroupedFigure> figures);

// What has to be said of each model's measurement, "MODEL: NOTE", to `notes`.
void add_notes(std::vector<std::string>& notes, std::span<const protocol::Provenance> provenance,
               const ModelNames& names);

// What a note of provenance says of weights that lie in another form in their file, "weights of m
// from Q4_K", one of each model: a figure that is pasted somewhere has left all else behind.
std::vector<std::string> notes_of_weights(std::string_view note);

// What is shown of an encoder-decoder: "shown: decoder self-attention (dec.)".
std::string stack_note(const std::string& stack);

// ---- maps ----
// Whose map it is, without the model: "cross.L3H1", "L3 (mean of heads)", "mean of L0H1, L2H3".
std::string head_name(const protocol::MapResult& result);
// Why B's map cannot be subtracted from A's, as they are not about the same tokens; empty where it
// can.
std::string difference_obstacle(const protocol::MapResult& a, const protocol::MapResult& b);
// `map` (h, w). Weights are drawn on 0..1, signed values centred at 0. `sink` (h): what the head's
// learned sink takes of each row, drawn beside the map; empty without one.
widgets::PlotSpec attention_map_figure(const protocol::MapResult& result, const Grid& map,
                                       const ModelNames& names,
                                       const std::vector<float>& sink = {});
// The sink's weights in a reply about a map; empty where it has none.
std::vector<float> sink_of(std::span<const protocol::TensorRef> tensors);
// The largest weights of each query of a result that has them: a line from each query at the left
// to each of its keys at the right, thicker the more weight it has; token 0 at the top.
widgets::PlotSpec arcs_figure(const protocol::MapResult& result, const ModelNames& names);
// A - B of two maps of equal size, centred at 0.
widgets::PlotSpec map_difference_figure(const protocol::MapResult& a, const Grid& map_a,
                                        const protocol::MapResult& b, const Grid& map_b,
                                        const ModelNames& names);

// ---- heads ----
// What a metric is called, with its unit: "Entropy (nats)".
std::string heading_of(const protocol::MetricInfo& metric);
// `thumbnails` (L, H, S, S); captions name the head and its value of `metric`.
widgets::GridSpec head_grid_figure(const protocol::HeadsResult& result, const Grid& thumbnails,
                                   const std::string& metric, const ModelNames& names);
// One metric of every head as a map, layers down, heads across.
widgets::PlotSpec metric_map_figure(const protocol::HeadsResult& result, const std::string& metric,
                                    const ModelNames& names);
// Weight by distance of every head of a layer, a figure for each layer that has profiles.
std::vector<widgets::PlotSpec> distance_profile_figures(const protocol::HeadsResult& result,
                                                        const ModelNames& names);

// ---- distance ----
// Every figure, of all layers pooled, of the heads of one, or of one head where heads were measured
// apart. Groups: "near - far", "score", "weight", "score parts", "intrinsic bias", "head bias".
std::vector<GroupedFigure> figures_of(std::span<const protocol::DistanceModel> models,
                                      const ModelNames& names, std::int64_t layer = -1,
                                      std::int64_t head = -1);
// Near-far histograms of the models over each other, as densities, with mean, interval and sigma.
widgets::PlotSpec near_far_figure(std::span<const protocol::DistanceModel> models,
                                  const ModelNames& names);
// Mean of the near-far difference by layer, with its interval and the number of pairs.
widgets::PlotSpec near_far_by_layer_figure(std::span<const protocol::DistanceModel> models,
                                           const ModelNames& names);
// The weights of the same pairs.
widgets::PlotSpec near_far_weight_figure(std::span<const protocol::DistanceModel> models,
                                         const ModelNames& names);
// Mean score by distance with its 95 % band.
widgets::PlotSpec score_profile_figure(std::span<const protocol::DistanceModel> models,
                                       const ModelNames& names);
widgets::PlotSpec weight_profile_figure(std::span<const protocol::DistanceModel> models,
                                        const ModelNames& names);
// Content and positional parts of one model's mean score.
widgets::PlotSpec score_parts_figure(const protocol::DistanceModel& model, const ModelNames& names);
// Both predictions of every head of a layer, over what was measured of it where heads were measured
// apart.
widgets::PlotSpec intrinsic_bias_figure(const protocol::DistanceModel& model, std::int64_t layer,
                                        const ModelNames& names);
// What is known of one head's bias: measured and intrinsic score, coefficients by distance, by
// plane and by both, sweep of bases and factors.
std::vector<widgets::PlotSpec> head_bias_figures(const protocol::DistanceModel& model,
                                                 const protocol::HeadBias& bias,
                                                 const ModelNames& names);

// ---- shift ----
// All of them: attention and position difference by layer, and against the shift where there are
// several.
std::vector<widgets::PlotSpec> shift_figures(const protocol::ShiftResult& result,
                                             const ModelNames& names);
// Attention difference by layer, one line for each model (colour), method (dash) and shift (width).
widgets::PlotSpec shift_figure(const protocol::ShiftResult& result, const ModelNames& names);
// Difference of the position products by layer, of models with a position state.
widgets::PlotSpec position_shift_figure(const protocol::ShiftResult& result,
                                        const ModelNames& names);

// ---- text and eval ----
// Groups: "loss by length", of tasks with one "map", "loss by position", "paired difference",
// kPublishedGroup (published.h) beside perplexities.
std::vector<GroupedFigure> figures_of(const protocol::EvalResult& result, const ModelNames& names);
// Loss of each token of one text.
widgets::PlotSpec token_loss_figure(std::span<const protocol::TextResult> texts,
                                    const ModelNames& names);
// Loss against position to several times the trained length.
widgets::PlotSpec position_loss_figure(const protocol::EvalResult& result, const ModelNames& names);
// The task's metric against length.
widgets::PlotSpec eval_figure(const protocol::EvalResult& result, const ModelNames& names);
// What each model's loss is above the first one's by length, paired by text.
widgets::PlotSpec eval_difference_figure(const protocol::EvalResult& result,
                                         const ModelNames& names);

// ---- patterns ----
// "G shows 128 of 1024 positions, every 8th", "G shows all 64 positions"; empty without a G.
std::string sampling_note(const protocol::PatternsResult& result);
inline constexpr const char* kDriftWithDepth = "drift with depth";
// Groups: "dot products" and "bias curves" by layer, "by distance", kDriftWithDepth,
// "frequencies"; those that the encoding has. `tensors`: of the reply.
std::vector<GroupedFigure> figures_of(const protocol::PatternsResult& result,
                                      std::span<const protocol::TensorRef> tensors,
                                      const ModelNames& names);
// "start", "after L2": the positions' state 0 and 3.
std::string state_name(std::int64_t layer);
std::string pe_dot_id(const std::string& model, std::int64_t layer);
// Says that a map's rows and columns are the positions of a result, of which each cell has one, and
// that its values are their PE dot products.
void name_positions(widgets::MapSpec& map, const protocol::PatternsResult& result);
// PE dot products of one state, `grid` (S, S), on a scale of its own unless one is given.
widgets::PlotSpec pe_dot_figure(const protocol::PatternsResult& result, std::int64_t layer,
                                const Grid& grid, const ModelNames& names,
                                std::optional<widgets::ValueRange> range = {});
widgets::PlotSpec pe_by_distance_figure(const protocol::PatternsResult& result,
                                        const ModelNames& names);
// Of the models of all results, and those that they are set against, each once; none where no state
// drifts.
std::optional<widgets::PlotSpec> state_drift_figure(
    std::span<const protocol::PatternsResult> results, const ModelNames& names);
widgets::PlotSpec bias_curves_figure(const protocol::PatternsResult& result, std::int64_t layer,
                                     const ModelNames& names);
widgets::PlotSpec frequencies_figure(const protocol::PatternsResult& result,
                                     const ModelNames& names);
// Small multiples: position products of every layer and head on one scale; CAPE's f of every head.
std::vector<widgets::GridSpec> grids_of(const protocol::PatternsResult& result,
                                        std::span<const protocol::TensorRef> tensors,
                                        const ModelNames& names);
// The frequencies by which each group of layers turns, and in words how every group places its
// tokens; nothing of a model that turns none. A result of `info`.
std::optional<widgets::PlotSpec> rope_plan_figure(const protocol::LoadReport& report,
                                                  const ModelNames& names);
// How some layers place their tokens, in a line without the layers: "sees 43 tokens; rope, half".
std::string words_of(const protocol::RopePlanRow& row);
// Spectra and learned angles, rows of single queries, how a bias varies over texts, and another
// model's products with their difference. Groups: "spectrum", "angles", "rows of queries",
// "variation over texts", "against".
std::vector<GroupedFigure> more_figures_of(const protocol::PatternsResult& result,
                                           std::span<const protocol::TensorRef> tensors,
                                           const ModelNames& names);

// ---- theory ----
// "value 3e-12, bound 1e-10, noise 1e-12, 5 samples", of what was measured; "" where nothing was.
std::string measured_numbers(const protocol::CheckResult& check);
// Every curve of a check; curves with the same axes and bound stand in one figure.
std::vector<widgets::PlotSpec> check_figures(const protocol::CheckResult& check,
                                             const ModelNames& names);

// ---- compare ----
// "rope_tapa", "t5_t5_enc": names of files.
std::string compared_id(const protocol::CompareResult& result, const ModelNames& names);
widgets::PlotSpec divergence_figure(const protocol::CompareResult& result, const ModelNames& names);

// ---- jobs ----
// Loss of a byte-level job in bits against step, with validation bits per byte.
widgets::PlotSpec job_curve_figure(const protocol::JobStatus& job);

}  // namespace phasescope::app
