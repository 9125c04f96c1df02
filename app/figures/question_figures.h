#pragma once
// Figures of the questions about positions.
#include <vector>

#include "app/figures/figures.h"
#include "protocol/messages/acuity.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/demand.h"
#include "protocol/messages/duel.h"
#include "protocol/messages/pair.h"
#include "protocol/messages/profile.h"
#include "protocol/messages/prove.h"
#include "protocol/messages/xray.h"

namespace phasescope::app {

// A triangle with the corners distance, key and pair: a dot a head, a whisker to where its trend
// would put it if it were the key's.
widgets::PlotSpec addressing_figure(const protocol::AddressingResult& result,
                                    const ModelNames& names);

// What every head wants by distance: a figure a layer, all heads on one scale, with intervals.
std::vector<widgets::PlotSpec> demand_figures(const protocol::DemandResult& result,
                                              const ModelNames& names);

// What every head wants by distance, each in a small plot of its own, layer by layer: bars of the
// buckets' sums with their intervals on one scale, what lies beyond the trained length shaded.
widgets::GridSpec demand_grid(const protocol::DemandResult& result, const ModelNames& names);

// The steps of acuity_figure(); where heads or layers were asked for one at a time, also a map of
// them in the band in which one of them changes the loss most.
std::vector<widgets::PlotSpec> acuity_figures(const protocol::AcuityResult& result,
                                              const ModelNames& names);
// Change of loss by band of distances, as steps with their interval.
widgets::PlotSpec acuity_figure(const protocol::AcuityResult& result, const ModelNames& names);

// What treating each head alone returns, and what is lost where it alone is left as it is; bars of
// the shares that heads alone return, where there are any; the loss by position; weight on phases
// that training never showed.
std::vector<widgets::PlotSpec> xray_figures(const protocol::XrayResult& result,
                                            const ModelNames& names);

// A pair's phasors head to tail, TAPA's one hand, or the parts that other scores are the sum of;
// its score and its weight against the key's distance.
std::vector<widgets::PlotSpec> pair_figures(const protocol::PairResult& result,
                                            const ModelNames& names);

// A dot a head: semantic score against positional score.
widgets::PlotSpec profile_figure(const protocol::ProfileResult& result, const ModelNames& names);

// How far what is measured on constructed models is from what is known, of what it may be: a dot a
// metric and model.
widgets::PlotSpec prove_figure(const protocol::ProveResult& result);

// The mean difference with its closing interval against the number of units; a dot a unit.
widgets::PlotSpec duel_figure(const protocol::DuelResult& result, const ModelNames& names);

// Questions asked of several models, in one figure, a colour a model: every head's dot
// (addressing, profile), the change of loss by band, what all heads together want by distance, the
// loss by position plain and treated, one pair's score against the distance.
widgets::PlotSpec addressing_of_models(const std::vector<protocol::AddressingResult>& results,
                                       const ModelNames& names);
widgets::PlotSpec profile_of_models(const std::vector<protocol::ProfileResult>& results,
                                    const ModelNames& names);
widgets::PlotSpec acuity_of_models(const std::vector<protocol::AcuityResult>& results,
                                   const ModelNames& names);
widgets::PlotSpec demand_of_models(const std::vector<protocol::DemandResult>& results,
                                   const ModelNames& names);
widgets::PlotSpec xray_of_models(const std::vector<protocol::XrayResult>& results,
                                 const ModelNames& names);
widgets::PlotSpec pair_of_models(const std::vector<protocol::PairResult>& results,
                                 const ModelNames& names);

}  // namespace phasescope::app
