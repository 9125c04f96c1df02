#pragma once
// What finished trainings and their evals came to, in a file of a line each that is small enough to
// be kept with the sources: trainings of another day, or another machine, count.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/file_system.h"

namespace phasescope::training {

struct KeptCell {
  std::filesystem::path dir;  // a job's folder; its eval stands in DIR/eval
  nlohmann::json config;      // the run configuration as it was asked for
};

struct KeptJobs {
  std::vector<std::string> restored;  // names of folders
  std::vector<std::string> others;    // that are kept with another configuration or eval
  std::int64_t kept = 0;              // lines of the file
};

// Brings folders and file together. A cell that the file has and that is no job yet becomes a
// folder of a job that is done, with some points of its curve and its eval's result and without
// checkpoints, where it was asked for with the same configuration and the same `eval` (null for
// none). Afterwards the file has a line for each cell that is done, and those it had of other
// names.
KeptJobs keep_jobs(formats::FileSystem& files, const std::filesystem::path& file,
                   const std::vector<KeptCell>& cells, const nlohmann::json& eval);

}  // namespace phasescope::training
