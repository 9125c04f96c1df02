#include "training/checkpoint.h"

#include <algorithm>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/manifest.h"
#include "formats/sha256.h"

namespace phasescope::training {
namespace {

using nlohmann::json;
using std::filesystem::path;

constexpr int kSchemaVersion = 1;
constexpr std::string_view kTemporary = ".tmp";

void write_synced(formats::FileSystem& fs, const path& file, const std::string& text) {
  auto out = fs.create(file);
  out->write_text(text);
  out->sync();
  out->close();
}

// What stands in the folder, read back: a write that went wrong unnoticed shows here.
json manifest_of(const formats::FileSystem& fs, const path& folder, int64_t step,
                 const json& state) {
  json files = json::array();
  for (const std::string& name : fs.list(folder)) {
    const std::string bytes = fs.read(folder / name);
    files.push_back({{"name", name},
                     {"size", bytes.size()},
                     {"sha256", formats::sha256_hex(std::string_view(bytes))}});
  }
  return {{"schema_version", kSchemaVersion}, {"step", step}, {"files", files}, {"state", state}};
}

void write_temporary(formats::FileSystem& fs, const path& folder, int64_t step,
                     const std::function<void(const path&)>& write_files, const json& state) {
  fs.make_directory(folder);
  write_files(folder);
  write_synced(fs, folder / formats::kManifestName,
               manifest_of(fs, folder, step, state).dump(1) + "\n");
  fs.sync_directory(folder);
}

bool verifies(const formats::FileSystem& fs, const path& folder) {
  try {
    verify_checkpoint(fs, folder);
    return true;
  } catch (const formats::Error&) {
    return false;
  }
}

// Renamed first: half a deletion must not look like a checkpoint.
void delete_checkpoint(formats::FileSystem& fs, const path& folder) {
  path doomed = folder;
  doomed += std::string(".old") + std::string(kTemporary);  // not the name of a save
  formats::remove_tree(fs, doomed);
  fs.rename(folder, doomed);
  formats::remove_tree(fs, doomed);
}

void delete_older(formats::FileSystem& fs, const path& root, int64_t step,
                  const CheckpointOptions& options) {
  std::vector<int64_t> steps = checkpoint_steps(fs, root);
  std::reverse(steps.begin(), steps.end());
  int64_t kept = 0;
  for (const int64_t other : steps) {
    const bool named = std::find(options.keep_steps.begin(), options.keep_steps.end(), other) !=
                       options.keep_steps.end();
    if (other > step || named) continue;
    // A broken one is no fall-back, so it does not count as kept.
    const bool room = kept < std::max<int64_t>(options.keep, 2);
    if (room && (other == step || verifies(fs, checkpoint_folder(root, other)))) {
      ++kept;
    } else {
      delete_checkpoint(fs, checkpoint_folder(root, other));
    }
  }
}

void try_remove(formats::FileSystem& fs, const path& folder) {
  try {
    formats::remove_tree(fs, folder);
  } catch (const formats::Error&) {
    // The disk that refused the save may refuse this too; the next save or start removes it.
  }
}

}  // namespace

path checkpoint_folder(const path& root, int64_t step) {
  return root / ("step-" + std::to_string(step));
}

SaveOutcome save_checkpoint(formats::FileSystem& fs, const path& root, int64_t step,
                            const std::function<void(const path&)>& write_files,
                            const CheckpointOptions& options) {
  using Kind = SaveOutcome::Kind;
  const std::string name = "the checkpoint of step " + std::to_string(step);
  const path folder = checkpoint_folder(root, step);
  path temporary = folder;
  temporary += kTemporary;
  if (fs.exists(folder) && verifies(fs, folder)) return {};
  try {
    remove_checkpoint_litter(fs, root);
    write_temporary(fs, temporary, step, write_files, options.state);
    if (fs.exists(folder)) delete_checkpoint(fs, folder);  // a broken one of the same step
    fs.rename(temporary, folder);
  } catch (const formats::Error& error) {
    try_remove(fs, temporary);
    return {Kind::not_saved, name + " was not saved: " + error.full_text()};
  }
  try {
    fs.sync_directory(root);
    verify_checkpoint(fs, folder);
  } catch (const formats::Error& error) {
    return {Kind::maybe_not_durable,
            name + " is saved, but maybe not durable: " + error.full_text()};
  }
  try {
    formats::write_file_atomically(fs, root / "latest", folder.filename().string() + "\n");
    delete_older(fs, root, step, options);
  } catch (const formats::Error& error) {
    return {Kind::saved, name + " is saved, but tidying up failed: " + error.full_text()};
  }
  return {};
}

Checkpoint verify_checkpoint(const formats::FileSystem& fs, const path& folder) {
  const path manifest_path = folder / formats::kManifestName;
  if (!fs.exists(manifest_path)) throw formats::bad_input("it has no manifest", folder.string());
  const json manifest = formats::verified_manifest(
      folder, formats::parse_json(fs.read(manifest_path), manifest_path.string()),
      [&fs](const path& file) -> formats::FileDigest {
        const std::string bytes = fs.read(file);
        return {bytes.size(), formats::sha256_hex(std::string_view(bytes))};
      });
  try {
    if (manifest.at("schema_version") != kSchemaVersion) {
      throw formats::bad_input("its manifest has schema version " +
                                   manifest.at("schema_version").dump() + ", this program reads 1",
                               manifest_path.string());
    }
    return {manifest.at("step").get<int64_t>(), folder, manifest.at("state")};
  } catch (const nlohmann::json::exception&) {
    throw formats::bad_input("its manifest lacks a field", manifest_path.string());
  }
}

std::vector<int64_t> checkpoint_steps(const formats::FileSystem& fs, const path& root) {
  std::vector<int64_t> steps;
  if (!fs.is_directory(root)) return steps;
  for (const std::string& name : fs.list(root)) {
    if (const auto step = formats::step_of_checkpoint(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

FoundCheckpoint find_newest_checkpoint(const formats::FileSystem& fs, const path& root) {
  FoundCheckpoint found;
  std::vector<int64_t> steps = checkpoint_steps(fs, root);
  std::reverse(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    try {
      found.newest = verify_checkpoint(fs, checkpoint_folder(root, step));
      return found;
    } catch (const formats::Error& error) {
      found.skipped.push_back("step-" + std::to_string(step) + ": " + error.message());
    }
  }
  return found;
}

void remove_checkpoint_litter(formats::FileSystem& fs, const path& root) {
  if (!fs.is_directory(root)) return;
  for (const std::string& name : fs.list(root)) {
    if (name.ends_with(kTemporary)) formats::remove_tree(fs, root / name);
  }
}

}  // namespace phasescope::training
