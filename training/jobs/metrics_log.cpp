#include "training/jobs/metrics_log.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "formats/folder_listing.h"
#include "protocol/json_form.h"
#include "training/jobs/plain_file.h"

namespace phasescope::training {
namespace {

using Points = std::vector<protocol::MetricPoint>;

constexpr std::uintmax_t kMostAtOnce = std::uintmax_t{64} << 20;  // the next look reads on

// A line that some other program wrote is no point of ours.
template <class Kept>
void add_line(const std::string& line, Kept& kept) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step")) return;
  try {
    kept.add(protocol::from_json_form<protocol::MetricPoint>(json));
  } catch (const std::exception&) {
    return;
  }
}

Points points_of(std::istream& lines) {
  KeptPoints kept;
  for (std::string line; std::getline(lines, line);) add_line(line, kept);
  return std::move(kept.points);
}

}  // namespace

std::vector<protocol::MetricPoint> read_metrics(const std::filesystem::path& path) {
  if (!formats::is_file(path)) return {};
  std::ifstream file(path);
  return points_of(file);
}

void KeptPoints::add(protocol::MetricPoint point) {
  while (!points.empty() && points.back().step >= point.step) points.pop_back();
  points.push_back(std::move(point));
}

void KeptEnd::add(protocol::MetricPoint point) {
  const std::int64_t step = point.step;
  while (!runs.empty() && runs.back().first >= step) runs.pop_back();
  if (!runs.empty()) runs.back().last = std::min(runs.back().last, step - 1);
  if (!runs.empty() && runs.back().last == step - 1) {
    runs.back().last = step;
  } else {
    runs.push_back({step, step});
  }
  last = std::move(point);
}

MetricsEnd KeptEnd::seen() const {
  MetricsEnd end{.count = 0, .last = last};
  for (const Run& run : runs) end.count += run.last - run.first + 1;
  return end;
}

template <class Kept>
typename Followed<Kept>::File& Followed<Kept>::file_of(const std::filesystem::path& path) {
  if (const auto known = places_.find(path); known != places_.end()) {
    files_.splice(files_.begin(), files_, known->second);
    return files_.front();
  }
  files_.push_front({path});
  places_[path] = files_.begin();
  if (files_.size() > Kept::kFiles) {
    places_.erase(files_.back().path);
    files_.pop_back();
  }
  return files_.front();
}

template <class Kept>
typename Kept::Seen Followed<Kept>::read(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  bytes_read_ = 0;
  File& file = file_of(path);
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) {
    places_.erase(path);
    files_.pop_front();
    return {};
  }
  const auto size = static_cast<std::uintmax_t>(now.st_size);
  const bool same = file.device == now.st_dev && file.inode == now.st_ino && size >= file.read;
  if (!same) file = {path, now.st_dev, now.st_ino};
  if (size == file.read) return file.kept.seen();
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(file.read));
  std::string more(static_cast<std::size_t>(std::min(size - file.read, kMostAtOnce)), '\0');
  stream.read(more.data(), static_cast<std::streamsize>(more.size()));
  more.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, stream.gcount())));
  bytes_read_ = more.size();
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = more.find('\n', begin)) != more.npos; begin = end + 1) {
    add_line(more.substr(begin, end - begin), file.kept);
  }
  file.read += begin;
  if (begin == more.size()) return file.kept.seen();
  // A last line without its end may be whole or torn; the next read takes it again.
  Kept with_last = file.kept;
  add_line(more.substr(begin), with_last);
  return with_last.seen();
}

template class Followed<KeptPoints>;
template class Followed<KeptEnd>;

std::vector<protocol::MetricPoint> thinned(const std::vector<protocol::MetricPoint>& points,
                                           std::size_t limit) {
  if (points.size() <= limit || limit == 0) return points;
  const auto is_rare = [](const protocol::MetricPoint& point) {
    return point.validation_bits || point.heads;
  };
  // Room for these first: which of them a loss is below is asked of the curve.
  const auto rare = static_cast<std::size_t>(std::ranges::count_if(points, is_rare)) + 1;
  const std::size_t others = rare < limit ? limit - rare : 1;
  const std::size_t stride = (points.size() + others - 1) / others;
  std::vector<protocol::MetricPoint> kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool last = i + 1 == points.size();
    if (last || i % stride == 0 || is_rare(points[i])) kept.push_back(points[i]);
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

MetricsLog::MetricsLog(formats::FileSystem& fs, std::filesystem::path path, std::int64_t last_step)
    : fs_(fs), path_(std::move(path)), last_step_(last_step) {}

MetricsLog::~MetricsLog() = default;

void MetricsLog::open() {
  if (file_) return;
  if (fs_.exists(path_)) {
    require_plain_file(path_);
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
