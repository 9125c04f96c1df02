#pragma once
// TensorBoard's event files: records of tensorflow's TFRecord framing (length, masked CRC-32C of
// the length, data, masked CRC-32C of the data), each a protobuf message Event (tensorflow/core/
// util/event.proto): wall_time 1, step 2, file_version 3, summary 5, session_log 7.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace phasescope::training {

struct EventTime {
  double wall = 0;  // s since 1970
  std::int64_t step = 0;
};

// The first record of a file.
std::string version_record(double wall);
// From this step on older files' events hold no more.
std::string restart_record(const EventTime& time);
// Named numbers of one step.
std::string scalars_record(const EventTime& time,
                           std::span<const std::pair<std::string, double>> values);

}  // namespace phasescope::training
