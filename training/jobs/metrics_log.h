#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "formats/file_system.h"
#include "protocol/messages/jobs.h"

namespace phasescope::training {

// The points of a metrics.jsonl. Lines that are no JSON object (a last one that was torn by a
// kill) are passed over; a file that is not there has no points.
std::vector<protocol::MetricPoint> read_metrics(const std::filesystem::path& path);

// At most `limit` of the points, evenly spread, always with the last one and every point that has
// a validation result (unless those alone are too many).
std::vector<protocol::MetricPoint> thinned(const std::vector<protocol::MetricPoint>& points,
                                           std::size_t limit);

// One line of metrics.jsonl, with its line end.
std::string metrics_line(const protocol::MetricPoint& point);

// metrics.jsonl open for appending: one line a step.
class MetricsLog {
 public:
  // Keeps the lines of steps up to `last_step` and drops the rest, torn ones too: a run that goes
  // on from a checkpoint writes the later steps again. Throws FileError.
  MetricsLog(formats::FileSystem& fs, const std::filesystem::path& path, int64_t last_step);
  ~MetricsLog();
  // Throws FileError; the line is lost then, those after it are not.
  void append(const protocol::MetricPoint& point);
  void sync();

 private:
  std::unique_ptr<formats::WritableFile> file_;
  bool torn_ = false;  // the last line may be half there
};

}  // namespace phasescope::training
