#include "worker/handle_jobs.h"

#include <filesystem>
#include <string>

#include "formats/error.h"
#include "formats/file_system.h"
#include "protocol/messages/jobs.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "worker/devices.h"

namespace phasescope::worker {
namespace {

namespace fs = std::filesystem;
using protocol::JobStatus;
using protocol::Reply;

fs::path named(const std::string& job) {
  if (job.empty()) throw formats::bad_usage("the job's folder or name is missing", "dir");
  return training::job_named(job);
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

Reply jobs_list(const protocol::JobsRequest& request, RequestContext&) {
  const std::string& root = request.root;
  protocol::JobsResult result;
  for (const fs::path& dir : root.empty() ? training::find_jobs() : jobs_below(root)) {
    result.jobs.push_back(training::read_job(dir, training::CurveDetail::none));
  }
  return reply_of(result);
}

Reply jobs_show(const protocol::JobRequest& request, RequestContext&) {
  return reply_of(training::read_job(named(request.dir), training::CurveDetail::thinned));
}

training::JobStart start_of(const protocol::StartRequest& request) {
  training::JobStart start;
  start.dir = request.dir;
  start.name = request.name;
  start.config = request.config;
  start.settings = request.set.list;
  if (request.resume) start.existing = training::ExistingJob::resume;
  return start;
}

Reply jobs_start(const protocol::StartRequest& request, RequestContext&) {
  const training::JobStart start = start_of(request);
  formats::FileSystem& files = formats::real_file_system();
  if (request.kind == "train") return reply_of(training::start_training(files, start));
  if (start.config.is_object()) check_device(start.config.value("device", "cpu"));
  return reply_of(training::start_eval(files, start, start.config));
}

Reply jobs_control(const protocol::ControlRequest& request, RequestContext&) {
  const fs::path dir = named(request.dir);
  formats::FileSystem& files = formats::real_file_system();
  if (request.action != "remove") {
    return reply_of(training::control_job(files, dir, request.action));
  }
  JobStatus status = training::read_job(dir, training::CurveDetail::none);
  status.message = "removed " + training::remove_job(files, dir);
  return reply_of(status);
}

Reply jobs_log(const protocol::LogRequest& request, RequestContext&) {
  const fs::path dir = named(request.dir);
  return {{{"dir", dir.string()},
           {"log", training::log_tail(dir, static_cast<std::size_t>(request.lines))}},
          {}};
}

}  // namespace

std::vector<Handler> jobs_handlers() {
  return {method("trainings and evals, running and ended", jobs_list),
          method("one job with its curve", jobs_show),
          method("starts or resumes a job as a process of its own", jobs_start),
          method("pauses, resumes, cancels or removes a job", jobs_control),
          method("the last lines of a job's log", jobs_log)};
}

}  // namespace phasescope::worker
