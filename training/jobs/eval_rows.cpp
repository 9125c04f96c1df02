#include "training/jobs/eval_rows.h"

#include <cstdint>
#include <span>
#include <sstream>
#include <utility>

#include "protocol/crc32c.h"
#include "training/jobs/job_reporter.h"
#include "training/jobs/plain_file.h"

namespace phasescope::training {
namespace {

using nlohmann::json;

constexpr const char* kChecksum = "crc32c";

// Of the row without it.
std::uint32_t checksum_of(const json& row) {
  const std::string text = row.dump();
  return protocol::crc32c(std::as_bytes(std::span(text)));
}

// Whether it is a row that was written. Those of earlier versions have no checksum.
bool is_whole(json row) {
  const bool form = row.is_object() && row.contains("key") && row.at("key").is_string() &&
                    row.contains("measured");
  if (!form || !row.contains(kChecksum)) return form;
  const json noted = row.at(kChecksum);
  row.erase(kChecksum);
  return noted == json(checksum_of(row));
}

}  // namespace

EvalRows::EvalRows(formats::FileSystem& files, std::filesystem::path path)
    : files_(files), path_(std::move(path)) {
  if (!files_.exists(path_)) return;
  require_plain_file(path_);
  const std::string text = files_.read(path_);
  torn_ = !text.empty() && text.back() != '\n';
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (is_whole(row)) measured_[row.at("key").get<std::string>()] = row.at("measured");
  }
}

EvalRows::~EvalRows() = default;

const nlohmann::json* EvalRows::found(const std::string& key) const {
  const auto found = measured_.find(key);
  return found == measured_.end() ? nullptr : &found->second;
}

void EvalRows::add(const std::string& key, nlohmann::json measured) {
  json row{{"key", key}, {"measured", measured}};
  row[kChecksum] = checksum_of(row);
  measured_[key] = std::move(measured);
  try {
    if (!file_) file_ = files_.append(path_);
    file_->write_text((torn_ ? "\n" : "") + row.dump() + "\n");
    torn_ = false;
    file_->sync();
  } catch (const formats::FileError& error) {
    torn_ = true;  // it may be half there
    if (!std::exchange(told_, true)) {
      log_line("warning: what is measured cannot be kept, a resume would measure it again: " +
               error.full_text());
    }
  }
}

}  // namespace phasescope::training
