#pragma once
// Curves of several jobs over each other.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "protocol/messages/jobs.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// The axis of a loss, the same wherever jobs are shown.
inline constexpr const char* kLossOfJobs = "loss (bits a token)";

// What jobs are called beside each other, by their folders: their names, and of several that have
// one the shortest ends of the folders' paths that no other of these ends in.
std::map<std::string, std::string> names_of_jobs(std::span<const protocol::JobStatus> jobs);

// What a training writes at every step, in the order of the choice: "loss", "validation loss",
// "learning rate", "gradient norm", "tokens a second", "window length".
const std::vector<std::string>& job_quantities();
// Those, and the metrics of heads that a probe text of these jobs has: "heads: entropy".
std::vector<std::string> job_quantities(std::span<const protocol::JobStatus> jobs);

// One of them against the step, a colour a job; points that do not have it are left out. Tokens a
// second are those between two points of a curve. A metric of heads is the mean over the heads of
// each layer of one job, a colour a layer, or over all heads of each of several jobs.
widgets::PlotSpec job_curves_figure(std::span<const protocol::JobStatus> jobs,
                                    const std::string& quantity);

}  // namespace phasescope::app
