#include "worker/handle_jobs.h"

#include <filesystem>
#include <string>

#include "formats/error.h"
#include "formats/file_system.h"
#include "protocol/json_form.h"
#include "protocol/messages/jobs.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"

namespace phasescope::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::JobStatus;
using protocol::Reply;

constexpr std::size_t kLogLines = 1000;

fs::path dir_of(const json& params) {
  const std::string dir = params.value("dir", "");
  if (dir.empty()) throw formats::bad_usage("the job's folder is missing", "dir");
  return dir;
}

// The jobs right below a folder that was named.
std::vector<fs::path> jobs_below(const fs::path& root) {
  std::vector<fs::path> dirs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (training::is_job(entry.path())) dirs.push_back(entry.path());
  }
  if (error)
    throw formats::bad_input("the folder cannot be read: " + error.message(), root.string());
  return dirs;
}

Reply jobs_list(const json& params, RequestContext&) {
  const std::string root = params.value("root", "");
  protocol::JobsResult result;
  for (const fs::path& dir : root.empty() ? training::find_jobs() : jobs_below(root)) {
    result.jobs.push_back(training::read_job(dir, training::CurveDetail::none));
  }
  return {protocol::to_json_form(result), {}};
}

Reply jobs_show(const json& params, RequestContext&) {
  return {
      protocol::to_json_form(training::read_job(dir_of(params), training::CurveDetail::thinned)),
      {}};
}

training::JobStart start_of(const json& params) {
  training::JobStart start;
  start.dir = params.value("dir", "");
  start.name = params.value("name", "");
  start.config = params.value("config", json());
  if (params.contains("set")) params.at("set").get_to(start.settings);
  if (params.value("resume", false)) start.existing = training::ExistingJob::resume;
  return start;
}

Reply jobs_start(const json& params, RequestContext&) {
  const training::JobStart start = start_of(params);
  const std::string kind = params.value("kind", "train");
  formats::FileSystem& files = formats::real_file_system();
  if (kind == "train") return {protocol::to_json_form(training::start_training(files, start)), {}};
  if (kind == "eval") {
    return {protocol::to_json_form(training::start_eval(files, start, start.config)), {}};
  }
  throw formats::bad_usage("no such kind of job: \"" + kind + "\"", "kind", "train or eval");
}

Reply jobs_control(const json& params, RequestContext&) {
  const fs::path dir = dir_of(params);
  const std::string action = params.value("action", "");
  formats::FileSystem& files = formats::real_file_system();
  if (action != "remove") {
    return {protocol::to_json_form(training::control_job(files, dir, action)), {}};
  }
  const JobStatus status = training::read_job(dir, training::CurveDetail::none);
  training::remove_job(files, dir);
  return {protocol::to_json_form(status), {}};
}

Reply jobs_log(const json& params, RequestContext&) {
  const fs::path dir = dir_of(params);
  if (!training::is_job(dir)) throw formats::bad_input("this folder is no job", dir.string());
  return {
      {{"dir", dir.string()}, {"log", training::log_tail(dir, params.value("lines", kLogLines))}},
      {}};
}

}  // namespace

std::vector<Handler> jobs_handlers() {
  return {{"jobs.list", "trainings and evals, running and ended", jobs_list},
          {"jobs.show", "one job with its curve", jobs_show},
          {"jobs.start", "starts or resumes a job as a process of its own", jobs_start},
          {"jobs.control", "pause, resume, cancel or remove a job", jobs_control},
          {"jobs.log", "the last lines of a job's log", jobs_log}};
}

}  // namespace phasescope::worker
