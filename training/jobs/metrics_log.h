#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "protocol/messages/jobs.h"

namespace phasescope::training {

// The points of a metrics.jsonl, their steps rising: a line overrules those before it that are of
// its step or of later ones, which a run made before it went on from a checkpoint. Lines that are
// no JSON object (a last one that was torn by a kill) are passed over; a file that is not there has
// no points.
std::vector<protocol::MetricPoint> read_metrics(const std::filesystem::path& path);

// How many points a file has, and the last of them.
struct MetricsEnd {
  std::int64_t count = 0;
  std::optional<protocol::MetricPoint> last;
};

// What is kept of a file that is followed: all of its points, or its end alone. add() takes the
// points of its lines in their order.
struct KeptPoints {
  using Seen = std::vector<protocol::MetricPoint>;
  static constexpr std::size_t kFiles = 64;
  std::vector<protocol::MetricPoint> points;
  void add(protocol::MetricPoint point);
  Seen seen() const { return points; }
};
struct KeptEnd {
  using Seen = MetricsEnd;
  static constexpr std::size_t kFiles = 4096;
  // Steps that follow each other, from the first to the last: of most files one such run.
  struct Run {
    std::int64_t first = 0, last = 0;
  };
  std::vector<Run> runs;
  std::optional<protocol::MetricPoint> last;
  void add(protocol::MetricPoint point);
  Seen seen() const;
};

// The same of files that grow while they are looked at: each read goes on from where the last one
// of that file ended, and begins again where the file is another one or has become shorter. Of
// Kept::kFiles files, those read last. From any thread.
template <class Kept>
class Followed {
 public:
  typename Kept::Seen read(const std::filesystem::path& path);
  // Bytes that the last read() took from the file.
  std::uintmax_t bytes_read() const { return bytes_read_; }

 private:
  struct File {
    std::filesystem::path path;
    std::uint64_t device = 0, inode = 0;
    std::uintmax_t read = 0;  // bytes, whole lines
    Kept kept = {};
  };
  File& file_of(const std::filesystem::path& path);

  std::mutex mutex_;
  std::list<File> files_;  // the one read last in front
  std::map<std::filesystem::path, typename std::list<File>::iterator> places_;
  std::uintmax_t bytes_read_ = 0;
};
extern template class Followed<KeptPoints>;
extern template class Followed<KeptEnd>;
using FollowedMetrics = Followed<KeptPoints>;
using FollowedEnds = Followed<KeptEnd>;

// At most `limit` of the points, evenly spread, always with the last one and every point that has
// a validation result or measured heads (unless those alone are too many).
std::vector<protocol::MetricPoint> thinned(const std::vector<protocol::MetricPoint>& points,
                                           std::size_t limit);

// One line of metrics.jsonl, with its line end.
std::string metrics_line(const protocol::MetricPoint& point);

// metrics.jsonl, appended to: a line a step. Lines that the disk refuses are kept and written with
// the next ones.
class MetricsLog {
 public:
  // The first write keeps the lines of steps up to `last_step` and drops the rest, torn ones too: a
  // run that goes on from a checkpoint makes the later steps again. Where the disk is too full for
  // that they stay, overruled.
  MetricsLog(formats::FileSystem& fs, std::filesystem::path path, std::int64_t last_step);
  ~MetricsLog();
  // Throws FileError; the line then waits for the next call.
  void append(const protocol::MetricPoint& point);
  // Writes what waits, and syncs. Throws FileError.
  void sync();

 private:
  void open();
  void drop_later_lines(const std::string& before);
  void write_waiting();

  formats::FileSystem& fs_;
  std::filesystem::path path_;
  std::int64_t last_step_;
  std::unique_ptr<formats::WritableFile> file_;
  std::string waiting_;  // whole lines
  bool torn_ = false;    // the last line of the file may be half there
};

}  // namespace phasescope::training
