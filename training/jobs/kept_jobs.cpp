#include "training/jobs/kept_jobs.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <sstream>

#include "formats/error.h"
#include "formats/json.h"
#include "protocol/json_form.h"
#include "protocol/messages/eval.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"
#include "training/jobs/plain_file.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::JobStatus;

constexpr std::size_t kPointsKept = 12;
constexpr const char* kEval = "eval";
// What a configuration says of the files that were read, beyond what was asked for.
constexpr const char* kHashes[] = {"/data/corpus_sha256", "/data/tokenizer_sha256",
                                   "/start/model_sha256"};

using Lines = std::map<std::string, json>;  // by the name of the folder

std::string name_of_cell(const fs::path& dir) { return dir.lexically_normal().filename().string(); }

Lines lines_of(const formats::FileSystem& files, const fs::path& file) {
  Lines lines;
  if (!files.exists(file)) return lines;
  require_plain_file(file);
  std::istringstream stream(files.read(file));
  std::int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty()) continue;
    const std::string where = file.string() + ", line " + std::to_string(number);
    json kept = formats::parse_json(line, where);
    for (const char* key : {"name", "status", "curve"}) {
      if (kept.is_object() && kept.contains(key)) continue;
      throw formats::bad_input(std::string("this is no kept job: it has no \"") + key + "\"",
                               where);
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

// Without what a reader puts there anyway.
template <class T>
json without_defaults(const T& value) {
  json form = protocol::to_json_form(value);
  const json defaults = protocol::to_json_form(T{});  // outlives its items
  for (const auto& [key, usual] : defaults.items()) {
    if (form.contains(key) && form.at(key) == usual) form.erase(key);
  }
  return form;
}

// What is another on each machine, or stands in files of its own.
json small_form(const JobStatus& status) {
  json form = without_defaults(status);
  for (const char* key :
       {"dir", "pid", "curve", "curve_of", "checkpoints", "config", "result", "last"}) {
    form.erase(key);
  }
  return form;
}

// What a table of a sweep reads of an eval's result.
json small_result(const json& result) {
  if (!result.is_object()) return result;
  auto eval = protocol::from_json_form<protocol::EvalResult>(result);
  eval.cells.clear(), eval.positions.clear(), eval.differences.clear(), eval.provenance.clear();
  eval.rows_of.reset(), eval.columns_of.reset();
  json form = without_defaults(eval);
  form["rows"] = json::array();
  for (const protocol::EvalRow& row : eval.rows) form["rows"].push_back(without_defaults(row));
  return form;
}

// Six digits, which a curve needs no more of.
double shortened(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::strtod(text, nullptr);
}

json small_point(const protocol::MetricPoint& point) {
  json form = {{"step", point.step}, {"loss", shortened(point.loss)}};
  form["time"] = shortened(point.time);
  if (point.validation_bits) form["validation_bits"] = *point.validation_bits;
  if (point.validation_right) form["validation_right"] = shortened(*point.validation_right);
  return form;
}

// A few points, among them the first validation below the blind guesser's loss, by which a table of
// tasks tells when a task was learnt.
json small_curve(const JobStatus& status) {
  std::vector<protocol::MetricPoint> points = thinned(status.curve, kPointsKept);
  const auto below = [&status](const protocol::MetricPoint& point) {
    return status.blind_bits && point.validation_bits &&
           *point.validation_bits < *status.blind_bits;
  };
  const auto learnt = std::ranges::find_if(status.curve, below);
  const auto at = std::ranges::lower_bound(points, learnt == status.curve.end() ? 0 : learnt->step,
                                           {}, &protocol::MetricPoint::step);
  const bool left_out =
      learnt != status.curve.end() && (at == points.end() || at->step != learnt->step);
  if (left_out) points.insert(at, *learnt);
  json curve = json::array();
  for (const protocol::MetricPoint& point : points) curve.push_back(small_point(point));
  return curve;
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
  json line = {{"name", name_of_cell(cell.dir)}, {"asked", cell.config},
               {"version", PHASESCOPE_VERSION},  {"date", date_of(cell.dir / job_file::status)},
               {"status", small_form(status)},   {"curve", small_curve(status)}};
  for (const char* key : kHashes) {
    const json hash = status.config.value(json::json_pointer(key), json());
    if (hash.is_string() && hash != "") line["hashes"][key] = hash;
  }
  if (!eval.is_object()) return without_places(line, cell.dir, name_of_cell(cell.dir));
  const JobStatus evaluated = read_job(cell.dir / kEval, CurveDetail::thinned);
  line[kEval] = {{"asked", eval},
                 {"status", small_form(evaluated)},
                 {"result", small_result(evaluated.result)}};
  return without_places(line, cell.dir, name_of_cell(cell.dir));
}

void write_json(formats::FileSystem& files, const fs::path& path, const json& value) {
  formats::write_file_atomically(files, path, value.dump(1) + "\n");
}

void write_done(formats::FileSystem& files, const fs::path& dir, const json& kept,
                const json& config) {
  write_json(files, dir / job_file::config, config);
  auto status = protocol::from_json_form<JobStatus>(kept.at("status"));
  status.dir = fs::absolute(dir).lexically_normal().string();
  write_status(files, dir, status);  // last: a folder with it is a job
}

// The configuration as it was asked for, with what is known of the files that were read.
json config_of(const json& line) {
  json config = line.at("asked");
  const json hashes = line.value("hashes", json::object());
  for (const char* key : kHashes) {
    if (hashes.contains(key)) config[json::json_pointer(key)] = hashes.at(key);
  }
  return config;
}

void restore(formats::FileSystem& files, const fs::path& dir, const json& line) {
  formats::make_directories(files, dir);
  if (line.contains(kEval)) {
    const json& eval = line.at(kEval);
    formats::make_directories(files, dir / kEval);
    write_json(files, dir / kEval / job_file::result, eval.at("result"));
    write_done(files, dir / kEval, eval, {{"eval_job", eval.at("asked")}});
  }
  std::string metrics;
  for (const json& point : line.at("curve")) {
    metrics += metrics_line(protocol::from_json_form<protocol::MetricPoint>(point));
  }
  formats::write_file_atomically(files, dir / job_file::metrics, metrics);
  write_done(files, dir, line, config_of(line));
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
