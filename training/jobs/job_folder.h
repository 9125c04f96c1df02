#pragma once
// A job is a folder. This file knows what stands in it and nothing of what a job computes:
//
//   config.json    the run configuration; of an eval job {"eval_job": {...}}
//   status.json    state, progress, the worker's pid (for information)
//   control.json   what somebody asked for: {"request": "pause" | "resume" | "cancel"}
//   metrics.jsonl  a line a step    checkpoints/step-N/    log.txt
//   rows.jsonl     of an eval: what was measured so far     result.json    all of it
//
// A job is alive while its worker holds a lock (flock) on the folder itself, never by process id.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/file_system.h"
#include "protocol/messages/jobs.h"

namespace phasescope::training {

namespace job_file {
inline constexpr const char* config = "config.json";
inline constexpr const char* status = "status.json";
inline constexpr const char* control = "control.json";
inline constexpr const char* metrics = "metrics.jsonl";
inline constexpr const char* metrics_csv = "metrics.csv";
inline constexpr const char* events = "events.out.tfevents.";  // and a number each
inline constexpr const char* checkpoints = "checkpoints";
inline constexpr const char* log = "log.txt";
inline constexpr const char* rows = "rows.jsonl";
inline constexpr const char* result = "result.json";
inline constexpr const char* lock = "lock.json";  // who runs it, for other machines
}  // namespace job_file

// ---- Whether it runs ----------------------------------------------------------------------------

// As job_is_alive(), but a process that has written its last state is waited for while it leaves.
bool job_is_running(const std::filesystem::path& dir);

// ---- Requests ------------------------------------------------------------------------------------

enum class JobRequest { none, pause, resume, cancel };

// Throws Error "bad_usage" for a name that is none of them.
JobRequest job_request_of(const std::string& name);
void write_request(formats::FileSystem& fs, const std::filesystem::path& dir, JobRequest request);
void clear_request(formats::FileSystem& fs, const std::filesystem::path& dir);
// Clears what was asked of a run that has ended: a job that is started by hand or by a cluster does
// not obey it. Of one that is queued the request stands. Only for whoever has the lock.
void forget_old_request(formats::FileSystem& fs, const std::filesystem::path& dir);
// The request that stands in control.json; none where there is no file or it cannot be read.
JobRequest read_request(const std::filesystem::path& dir);

// ---- Status --------------------------------------------------------------------------------------

void write_status(formats::FileSystem& fs, const std::filesystem::path& dir,
                  const protocol::JobStatus& status);

// Says of a job that is queued that its process is here now: once that is gone the job has died, if
// the disk took no other state. Needs no room. Only for whoever has the lock.
void mark_begun(const std::filesystem::path& dir);

enum class CurveDetail { none, thinned };
// What the folder says, with `state` "died" where it says running and nobody holds the lock, and
// with the end of the log as a message where there is none. Of a damaged status.json only that, so
// that the job can still be resumed or removed. Throws Error "bad_input" when the folder is no job.
protocol::JobStatus read_job(const std::filesystem::path& dir, CurveDetail detail);
bool is_job(const std::filesystem::path& dir);

// The last `lines` lines of log.txt; empty where there is none.
std::string log_tail(const std::filesystem::path& dir, std::size_t lines);

// ---- Where jobs are ------------------------------------------------------------------------------

// $XDG_DATA_HOME/phasescope/jobs (default ~/.local/share).
std::filesystem::path default_jobs_root();
// A folder below the default root that is not there yet: NAME, NAME-2, ...
std::filesystem::path new_job_folder(const std::string& name);

// Removes what writers of this job's files left behind when they were killed (NAME.PID-N.tmp). Only
// for whoever has the lock. What cannot be removed stays, and of lock.json what is younger than an
// hour: another machine may just be naming it.
void remove_job_litter(formats::FileSystem& files, const std::filesystem::path& dir);
// So that a job that lies elsewhere is found again: a pointer file in the default root.
void remember_job(formats::FileSystem& fs, const std::filesystem::path& dir);
// All jobs below the default root and those remembered there, newest first. Pointers to folders
// that are gone are passed over.
std::vector<std::filesystem::path> find_jobs();

// The path of a model as an eval's job names it: from the folder that the job was started in, which
// a resume may not be. Names of bundled models, and whole paths, as they are.
std::string found_from(const std::filesystem::path& folder, const std::string& name);

// The folder of the job that `word` names: a job's folder, or else the one job of that name among
// find_jobs(). Throws Error "bad_input" that lists near names, or the folders of several jobs of
// that name.
std::filesystem::path job_named(const std::string& word);

// Deletes what a job that is not alive has written, and its folder where nothing else is in it, and
// says what that was in words: "3 checkpoints, metrics.jsonl, log.txt". Throws Error "bad_usage"
// where the job is alive.
std::string remove_job(formats::FileSystem& fs, const std::filesystem::path& dir);

}  // namespace phasescope::training
