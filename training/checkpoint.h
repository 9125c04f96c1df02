#pragma once
// Checkpoints as folders step-N with a manifest of names, sizes and SHA-256, written so that a
// kill, a full disk or a power cut at any moment leaves the newest verified one whole:
//
//   step-N.tmp/ with every file synced, manifest.json last and synced, the folder synced, renamed
//   to step-N, the parent synced, `latest` replaced by temp and rename, `best` too where one is the
//   best, and only then older ones deleted (at least two stay, never the one just verified).
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/file_system.h"

namespace phasescope::training {

struct CheckpointOptions {
  std::int64_t keep = 2;                            // newest ones that stay, at least 2
  std::vector<std::int64_t> keep_steps;             // and these whatever their age
  nlohmann::json state = nlohmann::json::object();  // goes into the manifest
  // Above 0: the step whose checkpoint `best` names, and which stays; where it is not there, the
  // one that `best` named before stays.
  std::int64_t best = 0;
};

struct SaveOutcome {
  // "saved", "not saved: ..." and "saved, but maybe not durable: ..." are different things.
  enum class Kind { saved, not_saved, maybe_not_durable } kind = Kind::saved;
  std::string message;  // one sentence where kind is not saved, or where old ones could not go
  bool in_place() const { return kind != Kind::not_saved; }
};

// Writes the files of a checkpoint into `folder` through `fs`, each synced.
using WriteFiles =
    std::function<void(formats::FileSystem& fs, const std::filesystem::path& folder)>;

// Writes checkpoint `step` below `root` (which must exist). What is written is hashed on its way,
// and read back once. Errors of files are the outcome, not exceptions; nothing of a failed save
// stays, as far as the disk lets itself be cleaned. An older checkpoint that cannot be read is left
// where it is: only one that was read and is not what its manifest says is deleted before its time.
SaveOutcome save_checkpoint(formats::FileSystem& fs, const std::filesystem::path& root,
                            std::int64_t step, const WriteFiles& write_files,
                            const CheckpointOptions& options = {});

struct Checkpoint {
  std::int64_t step = 0;
  std::filesystem::path folder;
  nlohmann::json state;  // the options' `state` of when it was saved
};

// Reads the manifest and compares every file's size and SHA-256. Throws FileError for what cannot
// be read, and Error "bad_input" saying what does not fit.
Checkpoint verify_checkpoint(const formats::FileSystem& fs, const std::filesystem::path& folder);

struct FoundCheckpoint {
  std::optional<Checkpoint> newest;  // whose manifest verifies
  std::vector<std::string>
      skipped;  // "step-600: model.safetensors has another SHA-256", newest first
};
FoundCheckpoint find_newest_checkpoint(const formats::FileSystem& fs,
                                       const std::filesystem::path& root);

// Makes the file `best` name the checkpoint of a step that is there; nothing where it is not.
void name_best_checkpoint(formats::FileSystem& fs, const std::filesystem::path& root,
                          std::int64_t step);
// The step whose checkpoint it names.
std::optional<std::int64_t> best_checkpoint(const formats::FileSystem& fs,
                                            const std::filesystem::path& root);

// Steps of the folders step-N, rising, verified or not.
std::vector<std::int64_t> checkpoint_steps(const formats::FileSystem& fs,
                                           const std::filesystem::path& root);
std::filesystem::path checkpoint_folder(const std::filesystem::path& root, std::int64_t step);

// Removes what a save or a deletion that was cut off left behind (step-N.tmp, latest.tmp,
// best.tmp).
void remove_checkpoint_litter(formats::FileSystem& fs, const std::filesystem::path& root);

}  // namespace phasescope::training
