#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "formats/file_system.h"
#include "protocol/progress.h"

namespace phasescope::training {

// Makes a folder of assets/models from a job that is done:
//
//   model.safetensors  the last checkpoint's weights in bf16, and its config.json
//   run.json           the run configuration
//   training.jsonl     metrics.jsonl, thinned to at most 60 KB
//   history.json       of the checkpoints that train.keep_steps names and of the last one: bits a
//                      byte (of a task bits an answer); of one that reads texts every head
//                      statistic (mean over heads, by layer) and near minus far by layer
//
// `most_bytes`: what the folder may take, 0 for any size. Throws Error "bad_input" when the job is
// not done, a checkpoint does not verify, or the weights alone take more; nothing is written then.
void bundle_model(formats::FileSystem& files, const std::filesystem::path& job,
                  const std::filesystem::path& out, protocol::Progress& progress,
                  std::uintmax_t most_bytes = 0);

// The models of a folder as a Markdown table: encoding, what was read, size, licence and the
// SHA-256 of the weights.
std::string models_table(const std::filesystem::path& models);

// `page` with that table in place of the one it has. Throws Error "bad_input" where it has none.
std::string with_models_table(std::string page, const std::string& table);

}  // namespace phasescope::training
