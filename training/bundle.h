#pragma once

#include <filesystem>

#include "formats/file_system.h"
#include "protocol/progress.h"

namespace phasescope::training {

// Makes a folder of assets/models from a job that is done:
//
//   model.safetensors  the last checkpoint's weights in bf16, and its config.json
//   run.json           the run configuration
//   training.jsonl     metrics.jsonl, thinned to at most 60 KB
//   history.json       of the checkpoints that train.keep_steps names and of the last one: bits a
//   byte,
//                      every head statistic (mean over heads, by layer), near minus far by layer
//
// Throws Error "bad_input" when the job is not done or a checkpoint does not verify.
void bundle_model(formats::FileSystem& files, const std::filesystem::path& job,
                  const std::filesystem::path& out, protocol::Progress& progress);

}  // namespace phasescope::training
