#include "training/jobs/metrics_copies.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/json_form.h"
#include "training/jobs/event_records.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

// Names and values of a point's fields, in their order.
class PointFields {
 public:
  explicit PointFields(protocol::MetricPoint point) { point.fields(*this); }

  template <class T>
  void operator()(const char* name, const T& value, const protocol::About& = {}) {
    if constexpr (requires(T one) { one->begin(); }) {
      return add_heads(name, value);
    } else {
      add(name, value);
    }
  }

  std::vector<std::string> names, words;
  std::vector<std::optional<double>> values;

 private:
  template <class T>
  void add(const char* name, const T& value) {
    names.emplace_back(name);
    if constexpr (std::is_arithmetic_v<T>) {
      values.emplace_back(static_cast<double>(value));
      words.push_back(nlohmann::json(value).dump());
    } else {
      values.push_back(value);
      words.push_back(value ? nlohmann::json(*value).dump() : "");
    }
  }

  // "heads/entropy/L0H3"; without a column in metrics.csv, whose header stands before they are
  // known.
  template <class T>
  void add_heads(const std::string& name, const T& heads) {
    if (!heads) return;
    for (const auto& [metric, layers] : *heads) {
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        for (std::size_t head = 0; head < layers[layer].size(); ++head) {
          const std::string place =
              "L" + std::to_string(layer) + std::string("H") + std::to_string(head);
          names.push_back(name + "/" + metric + "/" + place);
          values.emplace_back(layers[layer][head]);
        }
      }
    }
  }
};

std::string csv_line(const std::vector<std::string>& words) {
  std::string line;
  for (std::size_t n = 0; n < words.size(); ++n) line += (n == 0 ? "" : ",") + words[n];
  return line + "\n";
}

double time_of_day() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// A name that no earlier start has.
std::filesystem::path next_event_file(const formats::FileSystem& files,
                                      const std::filesystem::path& dir) {
  auto seconds = static_cast<std::int64_t>(time_of_day());
  std::filesystem::path path;
  do {
    path = dir / (job_file::events + std::to_string(seconds++));
  } while (files.exists(path));
  return path;
}

}  // namespace

MetricsCopies::MetricsCopies(formats::FileSystem& files, const std::filesystem::path& dir,
                             std::int64_t last_step, const CopyForms& forms) {
  if (forms.csv) {
    std::string text = csv_line(PointFields(protocol::MetricPoint()).names);
    for (const protocol::MetricPoint& point : read_metrics(dir / job_file::metrics)) {
      if (point.step <= last_step) text += csv_line(PointFields(point).words);
    }
    formats::write_file_atomically(files, dir / job_file::metrics_csv, std::string_view(text));
    csv_ = files.append(dir / job_file::metrics_csv);
  }
  if (forms.tensorboard) {
    events_ = files.create(next_event_file(files, dir));
    events_->write_text(version_record(time_of_day()));
    if (last_step > 0) events_->write_text(restart_record({time_of_day(), last_step + 1}));
  }
}

MetricsCopies::~MetricsCopies() = default;

void MetricsCopies::append(const protocol::MetricPoint& point) {
  const PointFields fields(point);
  if (csv_) csv_->write_text(csv_line(fields.words));
  if (!events_) return;
  if (wall_ == 0) wall_ = time_of_day(), begun_ = point.time;
  std::vector<std::pair<std::string, double>> scalars;
  for (std::size_t n = 0; n < fields.names.size(); ++n) {
    if (fields.names[n] == "step" || !fields.values[n]) continue;
    scalars.emplace_back("train/" + fields.names[n], *fields.values[n]);
  }
  events_->write_text(scalars_record({wall_ + point.time - begun_, point.step}, scalars));
}

void MetricsCopies::sync() {
  if (csv_) csv_->sync();
  if (events_) events_->sync();
}

}  // namespace phasescope::training
