#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "formats/file_system.h"
#include "training/evals/eval_task.h"

namespace phasescope::training {

// rows.jsonl of an eval job: a line for each thing measured, {"key", "measured", "crc32c"}, written
// and synced when it is there. Lines that a kill tore, or that are not what was written, are passed
// over, and measured again; a disk that refuses is said in the log and does not end the job.
class EvalRows final : public EvalLog {
 public:
  // Reads what is there. Throws FileError where the file cannot be read.
  EvalRows(formats::FileSystem& files, std::filesystem::path path);
  ~EvalRows() override;

  const nlohmann::json* found(const std::string& key) const override;
  void add(const std::string& key, nlohmann::json measured) override;

 private:
  formats::FileSystem& files_;
  std::filesystem::path path_;
  std::map<std::string, nlohmann::json> measured_;
  std::unique_ptr<formats::WritableFile> file_;
  bool torn_ = false;  // the last line is no whole one
  bool told_ = false;  // that lines cannot be written
};

}  // namespace phasescope::training
