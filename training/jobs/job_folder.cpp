#include "training/jobs/job_folder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <thread>
#include <utility>

#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "formats/near_names.h"
#include "formats/sha256.h"
#include "protocol/json_form.h"
#include "training/checkpoint.h"
#include "training/jobs/job_lock.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kCurvePoints = 1000;
constexpr const char* kPointer = ".job";
constexpr std::uintmax_t kMostJsonBytes = std::uintmax_t{64} << 20;
constexpr std::size_t kMostMessage = 1000;
// No more of log.txt is read than this, from its end.
constexpr std::uintmax_t kMostLogBytes = std::uintmax_t{8} << 20;
// A started job takes its lock within this time or has died: a program that is read from a busy
// disk or a network takes its time.
constexpr std::chrono::seconds kStartLimit{120};
// A machine that would have the lock has written its claim within this time, or was killed.
constexpr std::chrono::seconds kClaimLimit{3600};
// An ended job gives its lock back within this time.
constexpr std::chrono::seconds kLeaveLimit{20};

struct RequestName {
  JobRequest request;
  const char* name;
};
constexpr RequestName kRequestNames[] = {
    {JobRequest::pause, "pause"}, {JobRequest::resume, "resume"}, {JobRequest::cancel, "cancel"}};

// A folder may be anybody's: a file that is no file (a link to /dev/zero), too large or too deep is
// one that cannot be read.
json read_json_or_null(const fs::path& path) {
  if (!formats::is_file(path)) return nullptr;
  try {
    return formats::json_from_file(path, {}, kMostJsonBytes);
  } catch (const formats::Error&) {
    return nullptr;
  }
}

// At most so many bytes.
std::string end_of_file(const fs::path& path, std::uintmax_t most) {
  if (!formats::is_file(path)) return "";
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return "";
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(size - std::min(size, most)));
  std::string text(static_cast<std::size_t>(std::min(size, most)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

bool is_younger(const fs::path& path, std::chrono::seconds age) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written < age;
}

std::string state_now(const std::string& state, const fs::path& dir) {
  if (!protocol::is_live(state)) return state;
  if (job_is_alive(dir)) return state;
  if (state == "queued" && is_younger(dir / job_file::status, kStartLimit)) return state;
  return "died";
}

// What stands in status.json; of one that cannot be read, what config.json tells.
protocol::JobStatus written_status(const fs::path& dir, const json& config) {
  if (!formats::real_file_system().exists(dir / job_file::status)) {
    throw formats::bad_input("this folder is no job: it has no status.json", dir.string());
  }
  try {
    const json form = read_json_or_null(dir / job_file::status);
    if (form.is_object()) return protocol::from_json_form<protocol::JobStatus>(form);
  } catch (const std::exception&) {
    // A member of another type.
  }
  protocol::JobStatus status;
  status.name = fs::absolute(dir).lexically_normal().filename().string();
  status.kind = config.is_object() && config.contains("eval_job") ? "eval" : "train";
  status.state = "running";
  status.message = "status.json cannot be read";
  return status;
}

// `claim_age`: of a file that another machine may just be about to name lock.json.
void remove_litter(formats::FileSystem& files, const fs::path& dir,
                   std::chrono::seconds claim_age) {
  static const std::regex form(R"((config|status|control|result)\.json\.\d+-\d+\.tmp|)"
                               R"(metrics\.(jsonl|csv)\.\d+-\d+\.tmp)");
  static const std::regex claim(R"(lock\.json\.\d+-\d+\.tmp)");
  try {
    for (const std::string& name : files.list(dir)) {
      const bool old_claim = std::regex_match(name, claim) && !is_younger(dir / name, claim_age);
      if (old_claim || std::regex_match(name, form)) files.remove(dir / name);
    }
  } catch (const formats::FileError&) {
    // A folder that cannot be listed or written says so where it matters.
  }
}

// Where the disk took no state of a job either, its log says the most.
std::string end_of_log(const fs::path& dir) {
  std::string text = end_of_file(dir / job_file::log, kMostMessage);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return "";
  return "its log ends with: " + text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

fs::file_time_type change_time(const fs::path& dir) {
  std::error_code error;
  const auto time = fs::last_write_time(dir / job_file::status, error);
  return error ? fs::file_time_type::min() : time;
}

}  // namespace

// ---- Whether it runs ----------------------------------------------------------------------------

bool job_is_running(const fs::path& dir) {
  const auto limit = std::chrono::steady_clock::now() + kLeaveLimit;
  while (job_is_alive(dir)) {
    const std::string state = is_job(dir) ? read_job(dir, CurveDetail::none).state : "queued";
    const bool leaving = state == "done" || state == "failed" || state == "cancelled";
    if (!leaving || std::chrono::steady_clock::now() > limit) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// ---- Requests ------------------------------------------------------------------------------------

JobRequest job_request_of(const std::string& name) {
  for (const RequestName& entry : kRequestNames) {
    if (name == entry.name) return entry.request;
  }
  throw formats::bad_usage("no such request: \"" + name + "\"", "request",
                           "one of pause, resume, cancel, remove");
}

void write_request(formats::FileSystem& files, const fs::path& dir, JobRequest request) {
  for (const RequestName& entry : kRequestNames) {
    if (entry.request == request) {
      formats::write_file_atomically(files, dir / job_file::control,
                                     json{{"request", entry.name}}.dump() + "\n");
    }
  }
}

void clear_request(formats::FileSystem& files, const fs::path& dir) {
  files.remove(dir / job_file::control);
}

void forget_old_request(formats::FileSystem& files, const fs::path& dir) {
  const json status = read_json_or_null(dir / job_file::status);
  if (!status.is_object() || status.value("state", "queued") == "queued") return;
  try {
    if (files.exists(dir / job_file::control)) clear_request(files, dir);
  } catch (const formats::Error&) {
    // A disk that refuses: it is obeyed, and the job can be resumed.
  }
}

JobRequest read_request(const fs::path& dir) {
  const json control = read_json_or_null(dir / job_file::control);
  if (!control.is_object() || !control.contains("request")) return JobRequest::none;
  for (const RequestName& entry : kRequestNames) {
    if (control.at("request") == entry.name) return entry.request;
  }
  return JobRequest::none;
}

// ---- Status --------------------------------------------------------------------------------------

void write_status(formats::FileSystem& files, const fs::path& dir,
                  const protocol::JobStatus& status) {
  json form = protocol::to_json_form(status);
  // These are read from their own files.
  for (const char* elsewhere : {"curve", "checkpoints", "config", "result"}) form.erase(elsewhere);
  formats::write_file_atomically(files, dir / job_file::status, form.dump(1) + "\n");
}

void mark_begun(const fs::path& dir) {
  const fs::path path = dir / job_file::status;
  std::error_code ignored;  // then it is given up later
  if (fs::is_symlink(path, ignored)) return;
  fs::last_write_time(path, fs::file_time_type::clock::now() - kStartLimit, ignored);
}

bool is_job(const fs::path& dir) {
  const formats::FileSystem& files = formats::real_file_system();
  return files.exists(dir / job_file::config) && files.exists(dir / job_file::status);
}

protocol::JobStatus read_job(const fs::path& dir, CurveDetail detail) {
  const json config = read_json_or_null(dir / job_file::config);
  protocol::JobStatus status = written_status(dir, config);
  status.dir = fs::absolute(dir).lexically_normal().string();
  status.state = state_now(status.state, dir);
  if (status.state != "running" && status.state != "paused") status.seconds_left = 0;
  if (status.state == "died" && status.message.empty()) status.message = end_of_log(dir);
  if (config.is_object()) status.config = config;
  for (const std::int64_t step :
       checkpoint_steps(formats::real_file_system(), dir / job_file::checkpoints)) {
    status.checkpoints.push_back("step-" + std::to_string(step));
  }
  static FollowedMetrics followed;
  static FollowedEnds ends;
  std::vector<protocol::MetricPoint> points;
  if (detail == CurveDetail::thinned) {
    points = followed.read(dir / job_file::metrics);
    if (!points.empty()) status.last = points.back();
    status.curve_of = static_cast<std::int64_t>(points.size());
  } else {
    MetricsEnd end = ends.read(dir / job_file::metrics);
    status.last = std::move(end.last), status.curve_of = end.count;
  }
  // status.json is written about once a second, the metrics at every step.
  if (status.last && status.kind == "train") {
    status.step = status.last->step;
    status.tokens = status.last->tokens;
  }
  if (detail != CurveDetail::thinned) return status;
  status.curve = thinned(points, kCurvePoints);
  if (status.kind == "eval" && status.state == "done") {
    status.result = read_json_or_null(dir / job_file::result);
  }
  return status;
}

std::string log_tail(const fs::path& dir, std::size_t lines) {
  const std::string text = end_of_file(dir / job_file::log, kMostLogBytes);
  std::size_t at = text.size();
  if (at > 0 && text.back() == '\n') --at;
  for (std::size_t line = 0; line < lines && at != std::string::npos; ++line) {
    at = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  }
  return at == std::string::npos ? text : text.substr(at + 1);
}

// ---- Where jobs are ------------------------------------------------------------------------------

fs::path default_jobs_root() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data && *data) return fs::path(data) / "phasescope/jobs";
  const char* home = std::getenv("HOME");
  return (home && *home ? fs::path(home) : fs::temp_directory_path()) /
         ".local/share/phasescope/jobs";
}

fs::path new_job_folder(const std::string& name) {
  const fs::path root = default_jobs_root();
  fs::path dir = root / name;
  fs::create_directories(root);
  // Whoever makes the folder has it: two that start together do not share one.
  for (int n = 2; !fs::create_directory(dir); ++n) dir = root / (name + "-" + std::to_string(n));
  return dir;
}

void remove_job_litter(formats::FileSystem& files, const fs::path& dir) {
  remove_litter(files, dir, kClaimLimit);
}

void remember_job(formats::FileSystem& files, const fs::path& dir) {
  const fs::path whole = fs::absolute(dir).lexically_normal();
  const fs::path root = default_jobs_root();
  if (whole.parent_path() == root.lexically_normal()) return;
  formats::make_directories(files, root);
  const std::string key = formats::sha256_hex(std::string_view(whole.string())).substr(0, 16);
  formats::write_file_atomically(files, root / (key + kPointer), whole.string() + "\n");
}

std::vector<fs::path> find_jobs() {
  std::vector<fs::path> dirs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(default_jobs_root(), error)) {
    fs::path dir = entry.path();
    if (dir.extension() == kPointer) {
      std::ifstream file(dir);
      std::string line;
      std::getline(file, line);
      dir = line;
    }
    if (!dir.empty() && is_job(dir)) dirs.push_back(dir);
  }
  std::sort(dirs.begin(), dirs.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(change_time(b), a) < std::pair(change_time(a), b);
  });
  return dirs;
}

std::string found_from(const fs::path& folder, const std::string& name) {
  const bool path = name.find('/') != std::string::npos && fs::path(name).is_relative();
  return path ? (folder / name).lexically_normal().string() : name;
}

fs::path job_named(const std::string& word) {
  if (is_job(word)) return fs::absolute(word).lexically_normal();
  std::vector<std::string> names, same;
  for (const fs::path& dir : find_jobs()) {
    names.push_back(dir.filename().string());
    if (names.back() == word) same.push_back(dir.string());
  }
  if (same.size() == 1) return same.front();
  if (same.empty()) {
    throw formats::bad_input("no job has that name or folder" + formats::near_names(word, names),
                             word, "jobs list prints those that are there");
  }
  std::string folders;
  for (const std::string& dir : same) folders += (folders.empty() ? "" : ", ") + dir;
  throw formats::bad_input("several jobs have that name", word, "name the folder: " + folders);
}

std::string remove_job(formats::FileSystem& files, const fs::path& dir) {
  if (!is_job(dir)) throw formats::bad_input("this folder is no job", dir.string());
  if (job_is_running(dir)) {
    throw formats::bad_usage("the job is running", dir.string(), "cancel it first");
  }
  remove_litter(files, dir, std::chrono::seconds(0));
  files.remove(dir / job_file::lock);  // of one that was killed
  std::string removed;
  const auto say = [&removed](const std::string& what) {
    removed += (removed.empty() ? "" : ", ") + what;
  };
  if (const auto steps = checkpoint_steps(files, dir / job_file::checkpoints); !steps.empty()) {
    say(std::to_string(steps.size()) + (steps.size() == 1 ? " checkpoint" : " checkpoints"));
  }
  // Only what a job writes: the folder may be one that holds other things too.
  std::vector<std::string> own = {job_file::control,     job_file::metrics, job_file::metrics_csv,
                                  job_file::checkpoints, job_file::log,     job_file::rows,
                                  job_file::result,      job_file::config,  job_file::status};
  for (std::string& name : files.list(dir)) {
    if (name.starts_with(job_file::events)) own.push_back(std::move(name));
  }
  for (const std::string& name : own) {
    if (files.exists(dir / name) && name != job_file::checkpoints) say(name);
    formats::remove_tree(files, dir / name);
  }
  std::error_code error;
  if (!fs::is_empty(dir, error)) return removed + "; what else the folder holds stays";
  files.remove(dir);
  return removed + " and the folder";
}

}  // namespace phasescope::training
