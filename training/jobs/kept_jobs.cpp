#include "training/jobs/kept_jobs.h"

#include <sys/stat.h>

#include <ctime>
#include <map>
#include <sstream>

#include "formats/error.h"
#include "formats/json.h"
#include "protocol/json_form.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::JobStatus;

constexpr std::size_t kPointsKept = 24;
constexpr const char* kEval = "eval";

using Lines = std::map<std::string, json>;  // by the name of the folder

std::string name_of_cell(const fs::path& dir) { return dir.lexically_normal().filename().string(); }

Lines lines_of(const formats::FileSystem& files, const fs::path& file) {
  Lines lines;
  if (!files.exists(file)) return lines;
  std::istringstream stream(files.read(file));
  std::int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty()) continue;
    const std::string where = file.string() + ", line " + std::to_string(number);
    json kept = formats::parse_json(line, where);
    if (!kept.is_object() || !kept.contains("name") || !kept.contains("status")) {
      throw formats::bad_input("this is no kept job", where);
    }
    const std::string name = kept.at("name").get<std::string>();
    lines[name] = std::move(kept);
  }
  return lines;
}

std::string date_of(const fs::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return "";
  std::tm utc{};
  gmtime_r(&found.st_mtime, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// What is another on each machine, or stands in files of its own.
json small_form(const JobStatus& status) {
  json form = protocol::to_json_form(status);
  for (const char* key : {"dir", "pid", "curve", "checkpoints", "config", "result", "last"}) {
    form.erase(key);
  }
  return form;
}

// What a table of a sweep reads of an eval's result.
json small_result(json result) {
  for (const char* key : {"cells", "positions", "differences", "provenance"}) result.erase(key);
  return result;
}

bool is_done(const fs::path& dir) {
  return is_job(dir) && read_job(dir, CurveDetail::none).state == "done";
}

// Where a job stood is of no use elsewhere: its name stands in its folder's place.
json without_places(const json& line, const fs::path& dir, const std::string& name) {
  const std::string place = fs::absolute(dir).lexically_normal().string();
  std::string text = line.dump();
  for (std::size_t at = 0; (at = text.find(place, at)) != text.npos; at += name.size()) {
    text.replace(at, place.size(), name);
  }
  return json::parse(text);
}

// Null where something of it is left.
json line_of(const KeptCell& cell, const json& eval) {
  if (!is_done(cell.dir) || (eval.is_object() && !is_done(cell.dir / kEval))) return nullptr;
  const JobStatus status = read_job(cell.dir, CurveDetail::thinned);
  json line = {{"name", name_of_cell(cell.dir)},
               {"asked", cell.config},
               {"config", status.config},
               {"date", date_of(cell.dir / job_file::status)},
               {"status", small_form(status)}};
  line["curve"] = protocol::to_json_form(thinned(status.curve, kPointsKept));
  if (!eval.is_object()) return without_places(line, cell.dir, name_of_cell(cell.dir));
  const JobStatus evaluated = read_job(cell.dir / kEval, CurveDetail::thinned);
  line[kEval] = {{"asked", eval},
                 {"config", {{"eval_job", eval}}},
                 {"status", small_form(evaluated)},
                 {"result", small_result(evaluated.result)}};
  return without_places(line, cell.dir, name_of_cell(cell.dir));
}

void write_json(formats::FileSystem& files, const fs::path& path, const json& value) {
  formats::write_file_atomically(files, path, value.dump(1) + "\n");
}

void write_done(formats::FileSystem& files, const fs::path& dir, const json& kept) {
  write_json(files, dir / job_file::config, kept.at("config"));
  auto status = protocol::from_json_form<JobStatus>(kept.at("status"));
  status.dir = fs::absolute(dir).lexically_normal().string();
  write_status(files, dir, status);  // last: a folder with it is a job
}

void restore(formats::FileSystem& files, const fs::path& dir, const json& line) {
  formats::make_directories(files, dir);
  if (line.contains(kEval)) {
    const json& eval = line.at(kEval);
    formats::make_directories(files, dir / kEval);
    write_json(files, dir / kEval / job_file::result, eval.at("result"));
    write_done(files, dir / kEval, eval);
  }
  std::string metrics;
  for (const json& point : line.at("curve")) {
    metrics += metrics_line(protocol::from_json_form<protocol::MetricPoint>(point));
  }
  formats::write_file_atomically(files, dir / job_file::metrics, metrics);
  write_done(files, dir, line);
}

bool was_asked_alike(const json& line, const KeptCell& cell, const json& eval) {
  const json asked = line.contains(kEval) ? line.at(kEval).value("asked", json()) : json();
  return line.value("asked", json()) == cell.config && asked == (eval.is_object() ? eval : json());
}

}  // namespace

KeptJobs keep_jobs(formats::FileSystem& files, const fs::path& file,
                   const std::vector<KeptCell>& cells, const json& eval) {
  Lines lines = lines_of(files, file);
  const Lines before = lines;
  KeptJobs found;
  for (const KeptCell& cell : cells) {
    const std::string name = name_of_cell(cell.dir);
    const auto line = lines.find(name);
    const bool alike = line != lines.end() && was_asked_alike(line->second, cell, eval);
    if (line != lines.end() && !alike) found.others.push_back(name);
    if (alike && !is_job(cell.dir)) {
      restore(files, cell.dir, line->second);
      found.restored.push_back(name);
    }
    if (alike) continue;
    if (json now = line_of(cell, eval); !now.is_null()) lines[name] = std::move(now);
  }
  found.kept = static_cast<std::int64_t>(lines.size());
  if (lines == before) return found;
  std::string text;
  for (const auto& [name, line] : lines) text += line.dump() + "\n";
  formats::make_directories(files, file.parent_path());
  formats::write_file_atomically(files, file, text);
  return found;
}

}  // namespace phasescope::training
