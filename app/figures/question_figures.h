#pragma once
// Figures of the questions about positions.
#include "app/figures/figures.h"
#include "protocol/messages/acuity.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/demand.h"
#include "protocol/messages/pair.h"
#include "protocol/messages/profile.h"
#include "protocol/messages/xray.h"

namespace phasescope::app {

// A triangle with the corners distance, key and pair: a dot a head, a whisker to where its trend
// would put it if it were the key's.
widgets::PlotSpec addressing_figure(const protocol::AddressingResult& result,
                                    const ModelNames& names);

// What every head wants by distance: a figure a layer, all heads on one scale, with intervals.
std::vector<widgets::PlotSpec> demand_figures(const protocol::DemandResult& result,
                                              const ModelNames& names);

// Change of loss by band of distances, as steps with their interval.
widgets::PlotSpec acuity_figure(const protocol::AcuityResult& result, const ModelNames& names);

// What treating each head alone returns, and what is lost where it alone is left as it is; the loss
// by position; weight on phases that training never showed.
std::vector<widgets::PlotSpec> xray_figures(const protocol::XrayResult& result,
                                            const ModelNames& names);

// A pair's phasors head to tail; its score and its weight against the key's distance.
std::vector<widgets::PlotSpec> pair_figures(const protocol::PairResult& result,
                                            const ModelNames& names);

// A dot a head: semantic score against positional score.
widgets::PlotSpec profile_figure(const protocol::ProfileResult& result, const ModelNames& names);

}  // namespace phasescope::app
