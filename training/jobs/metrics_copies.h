#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "formats/file_system.h"
#include "protocol/messages/jobs.h"

namespace phasescope::training {

struct CopyForms {
  bool csv = false, tensorboard = false;
};

// The points of metrics.jsonl in other programs' forms, beside it: metrics.csv, a column for each
// field, and events.out.tfevents.TIME, a file for each start of the job.
class MetricsCopies {
 public:
  // The points of steps up to `last_step` stay, of metrics.jsonl as it is now. Throws FileError.
  MetricsCopies(formats::FileSystem& files, const std::filesystem::path& dir,
                std::int64_t last_step, const CopyForms& forms);
  ~MetricsCopies();
  void append(const protocol::MetricPoint& point);
  void sync();

 private:
  std::unique_ptr<formats::WritableFile> csv_, events_;
  double wall_ = 0, begun_ = 0;  // the time of day at the first point, and that point's own
};

}  // namespace phasescope::training
