#pragma once
// Runs a job, that is a folder (job_folder.h), and starts one as a process of its own.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "protocol/messages/jobs.h"

namespace phasescope::model {
struct ModelConfig;
}

namespace phasescope::training {

// The worker's argument that makes it run a job: `phasescope-worker --job DIR`.
inline constexpr const char* kJobArgument = "--job";

// Runs the job in `dir` in this process, to its end, or until a request stops it: takes the lock,
// goes on from the newest checkpoint that verifies (saying on stderr, which is log.txt in a started
// job, what was skipped) or from step 0, obeys control.json at every step. What goes wrong ends in
// status.json and the log. Returns the exit status: 0 done, 130 cancelled, 2 bad input or the
// folder is in use, 3 the device is not there, 4 internal, 5 out of memory.
int run_job(const std::filesystem::path& dir);
int run_job(formats::FileSystem& files, const std::filesystem::path& dir);

// The worker's argument for one of the processes that a launcher starts for a job, as torchrun
// does.
inline constexpr const char* kRankArgument = "--job-rank";

// What run_job() does, as one of several processes (training/ranks/ranks.h says which variables
// tell it which): rank 0 has the folder, reads config.json and control.json and writes all that a
// job writes, log.txt beside standard error; the others read checkpoints, text and the model that
// it begins with from where it says. A rank that is gone ends all others with status 4, and the
// steps done before are saved; where it went in the middle of a validation, up to the last
// checkpoint alone. Of the train.device "cuda" each rank of a machine has a device of its own.
int run_job_as_rank(const std::filesystem::path& dir);

enum class ExistingJob { refuse, resume };

struct JobStart {
  std::filesystem::path dir;          // empty: a new folder in the default root ...
  std::string name;                   // ... of this name (default: the encoding's, the task's)
  nlohmann::json config;              // run configuration; null when a job that is there goes on
  std::vector<std::string> settings;  // "train.steps=200", applied to `config`
  ExistingJob existing = ExistingJob::refuse;
  bool launched = false;  // the folder is made, or looked at, for a launcher's processes to run
  // The program that runs kJobArgument; by default the one that is running.
  std::filesystem::path program = "/proc/self/exe";
};

// Starts a training as a detached process (its own session, no terminal, output to log.txt) that
// outlives this one, and waits until it holds its lock or has ended. With ExistingJob::resume a
// live job is left alone, a finished one too, a dead one goes on with the configuration it has
// (`message` names keys in which the one given differs). Throws Error for a bad configuration, for
// a folder that holds a job already, and when the process cannot be started.
protocol::JobStatus start_training(formats::FileSystem& files, const JobStart& start);

// The same for an eval: `request` holds "task", "models" (names) and the task's options. Throws
// Error too for models and texts that are not there, and for a task that cannot be asked of one.
protocol::JobStatus start_eval(formats::FileSystem& files, const JobStart& start,
                               const nlohmann::json& request);

// Throws what can be said of the request of an eval, of whichever models, before they are there:
// for options, a task or lengths that there are not.
void check_eval(const nlohmann::json& request);
// The same, and what can be said of it for a model of that configuration: that the task cannot be
// asked of it.
void check_eval(const nlohmann::json& request, const std::string& name,
                const model::ModelConfig& config);

// The folders of a training and of an eval that another program will run, a cluster's: checked as
// those above, with their configurations alone. One that holds a job already is left as it is.
void prepare_training(formats::FileSystem& files, const JobStart& start);
void prepare_eval(formats::FileSystem& files, const JobStart& start, const nlohmann::json& request);

// Keys in which the job in `dir` was asked otherwise than by this configuration, or this request of
// an eval (of whichever models): "train.steps, train.seed"; "kind" where it is no such job; empty
// where it is alike, or where there is no job. Throws Error "bad_input" for a configuration that
// cannot be used.
std::string asked_otherwise(const std::filesystem::path& dir, const nlohmann::json& config);
std::string eval_asked_otherwise(const std::filesystem::path& dir, const nlohmann::json& request);

// pause, resume, cancel. Resuming a job that is not alive starts it again; cancelling one marks it.
// Throws Error "bad_usage" for a request that the job's state does not allow.
protocol::JobStatus control_job(formats::FileSystem& files, const std::filesystem::path& dir,
                                const std::string& request,
                                const std::filesystem::path& program = "/proc/self/exe");

}  // namespace phasescope::training
