#pragma once
// Jobs as an array of Slurm's: one element runs one job's folder, and its eval behind it. sbatch
// and squeue are looked for in PATH.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/file_system.h"

namespace phasescope::training {

struct SlurmArray {
  // The whole sweep's folder. slurm/ in it has cells.txt (a job's folder a line, element n the
  // n-th), array.sh, array.json (the number that Slurm gave) and a log of each element.
  std::filesystem::path folder;
  std::vector<std::filesystem::path> cells;  // prepared (job.h); an eval stands in eval/
  std::int64_t at_once = 1;
  std::int64_t threads = 1;                          // of each element
  std::vector<std::string> options;                  // of sbatch, e.g. "--partition=short"
  std::filesystem::path program = "/proc/self/exe";  // runs "--job DIR"
};

// What the queue says of an array: the state of each element that is in it ("PENDING", "RUNNING").
struct SlurmQueue {
  std::string id;  // empty where none was submitted
  std::map<std::int64_t, std::string> states;
};

// The script of the elements named. Each line of `options` is one of its #SBATCH lines; paths are
// quoted. An element that gets SIGTERM (preemption, the end of its time) passes it on, and the job
// saves; Slurm puts it into the queue again, and it goes on from its newest checkpoint.
std::string array_script(const SlurmArray& array, const std::vector<std::int64_t>& elements);

// Submits the elements, unless an array of this folder is still in the queue; returns what is there
// then. Throws Error "bad_usage" where there is no sbatch or an option has a line break,
// "bad_input" with what sbatch said where it refuses.
SlurmQueue submit_array(formats::FileSystem& files, const SlurmArray& array,
                        const std::vector<std::int64_t>& elements);

// What is in the queue of the folder's array. Throws Error "bad_usage" where there is no squeue.
SlurmQueue array_queue(const std::filesystem::path& folder);

}  // namespace phasescope::training
