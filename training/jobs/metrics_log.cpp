#include "training/jobs/metrics_log.h"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "protocol/json_form.h"

namespace phasescope::training {
namespace {

std::vector<protocol::MetricPoint> points_of(std::istream& lines) {
  std::vector<protocol::MetricPoint> points;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step")) continue;
    try {
      auto point = protocol::from_json_form<protocol::MetricPoint>(json);
      while (!points.empty() && points.back().step >= point.step) points.pop_back();
      points.push_back(std::move(point));
    } catch (const std::exception&) {
      // A line that some other program wrote; it is no point of ours.
    }
  }
  return points;
}

}  // namespace

std::vector<protocol::MetricPoint> read_metrics(const std::filesystem::path& path) {
  std::ifstream file(path);
  return points_of(file);
}

std::vector<protocol::MetricPoint> thinned(const std::vector<protocol::MetricPoint>& points,
                                           std::size_t limit) {
  if (points.size() <= limit || limit == 0) return points;
  const std::size_t stride = (points.size() + limit - 1) / limit;
  std::vector<protocol::MetricPoint> kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool last = i + 1 == points.size();
    if (last || i % stride == 0 || points[i].validation_bits) kept.push_back(points[i]);
  }
  while (kept.size() > limit) {
    std::vector<protocol::MetricPoint> fewer;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (i % 2 == 0 || i + 1 == kept.size()) fewer.push_back(kept[i]);
    }
    if (fewer.size() == kept.size()) break;
    kept = std::move(fewer);
  }
  return kept;
}

std::string metrics_line(const protocol::MetricPoint& point) {
  return protocol::to_json_form(point).dump() + "\n";
}

MetricsLog::MetricsLog(formats::FileSystem& fs, std::filesystem::path path, int64_t last_step)
    : fs_(fs), path_(std::move(path)), last_step_(last_step) {}

MetricsLog::~MetricsLog() = default;

void MetricsLog::open() {
  if (file_) return;
  if (fs_.exists(path_)) {
    const std::string before = fs_.read(path_);
    torn_ = !before.empty() && before.back() != '\n';
    drop_later_lines(before);
  }
  file_ = fs_.append(path_);
}

void MetricsLog::drop_later_lines(const std::string& before) {
  std::istringstream lines(before);
  std::string kept;
  for (const protocol::MetricPoint& point : points_of(lines)) {
    if (point.step <= last_step_) kept += metrics_line(point);
  }
  if (kept == before) return;
  try {
    formats::write_file_atomically(fs_, path_, kept);
    torn_ = false;
  } catch (const formats::FileError&) {
    // A full disk. The lines that follow overrule those that stay (read_metrics).
  }
}

void MetricsLog::append(const protocol::MetricPoint& point) {
  waiting_ += metrics_line(point);
  write_waiting();
}

void MetricsLog::write_waiting() {
  open();
  if (waiting_.empty()) return;
  const bool after_torn = std::exchange(torn_, true);
  file_->write_text(after_torn ? "\n" + waiting_ : waiting_);
  torn_ = false;
  waiting_.clear();
}

void MetricsLog::sync() {
  write_waiting();
  file_->sync();
}

}  // namespace phasescope::training
