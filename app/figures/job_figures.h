#pragma once
// Curves of several jobs over each other.
#include <span>
#include <string>
#include <vector>

#include "protocol/messages/jobs.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// What a training writes at every step, in the order of the choice: "loss", "validation loss",
// "learning rate", "gradient norm", "tokens a second", "window length".
const std::vector<std::string>& job_quantities();

// One of them against the step, a colour a job; points that do not have it are left out. Tokens a
// second are those between two points of a curve.
widgets::PlotSpec job_curves_figure(std::span<const protocol::JobStatus> jobs,
                                    const std::string& quantity);

}  // namespace phasescope::app
