#include "training/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <span>
#include <string>

#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/hashing_file_system.h"
#include "formats/json.h"
#include "formats/manifest.h"
#include "formats/sha256.h"

namespace phasescope::training {
namespace {

using nlohmann::json;
using std::filesystem::path;

constexpr int kSchemaVersion = 1;
constexpr std::uintmax_t kMostManifestBytes = std::uintmax_t{16} << 20;
constexpr std::string_view kTemporary = ".tmp";
constexpr const char* kBest = "best";
constexpr const char* kLatest = "latest";

void write_synced(formats::FileSystem& fs, const path& file, const std::string& text) {
  auto out = fs.create(file);
  out->write_text(text);
  out->sync();
  out->close();
}

formats::FileDigest digest_of(const formats::FileSystem& fs, const path& file) {
  formats::Sha256 hash;
  std::uint64_t size = 0;
  fs.read_pieces(file, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    size += piece.size();
  });
  return {size, hash.finish()};
}

json manifest_of(const std::map<std::string, formats::FileDigest>& written, std::int64_t step,
                 const json& state) {
  json files = json::array();
  for (const auto& [name, digest] : written) {
    files.push_back({{"name", name}, {"size", digest.size}, {"sha256", digest.sha256}});
  }
  return {{"schema_version", kSchemaVersion}, {"step", step}, {"files", files}, {"state", state}};
}

void write_temporary(formats::FileSystem& fs, const path& folder, std::int64_t step,
                     const WriteFiles& write_files, const json& state) {
  fs.make_directory(folder);
  formats::HashingFileSystem hashing(fs);
  write_files(hashing, folder);
  write_synced(fs, folder / formats::kManifestName,
               manifest_of(hashing.written_in(folder), step, state).dump(1) + "\n");
  fs.sync_directory(folder);
}

enum class Found { whole, broken, unreadable };

Found look_at(const formats::FileSystem& fs, const path& folder) {
  try {
    verify_checkpoint(fs, folder);
    return Found::whole;
  } catch (const formats::FileError& error) {
    return error.error_number() == ENOENT ? Found::broken : Found::unreadable;
  } catch (const formats::Error&) {
    return Found::broken;
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

// The step that a file beside the checkpoints says.
std::optional<std::int64_t> named_checkpoint(const formats::FileSystem& fs, const path& file) {
  if (!fs.exists(file) || !formats::is_file(file)) return std::nullopt;
  const std::string text = fs.read(file);
  return formats::step_of_checkpoint(text.substr(0, text.find('\n')));
}

void delete_older(formats::FileSystem& fs, const path& root, std::int64_t step,
                  const CheckpointOptions& options) {
  std::vector<std::int64_t> steps = checkpoint_steps(fs, root);
  std::reverse(steps.begin(), steps.end());
  const std::optional<std::int64_t> best =
      options.best > 0 ? best_checkpoint(fs, root) : std::optional<std::int64_t>();
  const std::optional<std::int64_t> latest = named_checkpoint(fs, root / kLatest);
  std::int64_t kept = 0;
  for (const std::int64_t other : steps) {
    const bool named = std::find(options.keep_steps.begin(), options.keep_steps.end(), other) !=
                       options.keep_steps.end();
    if (other > step || named) continue;
    const path folder = checkpoint_folder(root, other);
    const bool room = kept < std::max<std::int64_t>(options.keep, 2);
    const Found found = !room ? Found::broken : other == step ? Found::whole : look_at(fs, folder);
    // A broken one is no fall-back and does not count as kept; nor does one that cannot be read,
    // which may be whole all the same.
    if (found == Found::whole) ++kept;
    if (found == Found::broken && other != best && other != latest) delete_checkpoint(fs, folder);
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

path checkpoint_folder(const path& root, std::int64_t step) {
  return root / ("step-" + std::to_string(step));
}

SaveOutcome save_checkpoint(formats::FileSystem& fs, const path& root, std::int64_t step,
                            const WriteFiles& write_files, const CheckpointOptions& options) {
  using Kind = SaveOutcome::Kind;
  const std::string name = "the checkpoint of step " + std::to_string(step);
  const path folder = checkpoint_folder(root, step);
  path temporary = folder;
  temporary += kTemporary;
  if (fs.exists(folder) && look_at(fs, folder) == Found::whole) return {};
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
  std::string failed;
  const auto tidy = [&failed](auto&& work) {
    try {
      work();
    } catch (const formats::Error& error) {
      if (failed.empty()) failed = error.full_text();
    }
  };
  // Old ones go all the same where the newest cannot be named, but not before the best is.
  tidy([&] {
    formats::write_file_atomically(fs, root / kLatest, folder.filename().string() + "\n");
  });
  tidy([&] {
    if (options.best > 0) name_best_checkpoint(fs, root, options.best);
    delete_older(fs, root, step, options);
  });
  if (failed.empty()) return {};
  return {Kind::saved, name + " is saved, but tidying up failed: " + failed};
}

std::optional<std::int64_t> best_checkpoint(const formats::FileSystem& fs, const path& root) {
  return named_checkpoint(fs, root / kBest);
}

void name_best_checkpoint(formats::FileSystem& fs, const path& root, std::int64_t step) {
  const path folder = checkpoint_folder(root, step);
  if (!fs.exists(folder) || best_checkpoint(fs, root) == step) return;
  formats::write_file_atomically(fs, root / kBest, folder.filename().string() + "\n");
}

Checkpoint verify_checkpoint(const formats::FileSystem& fs, const path& folder) {
  const path manifest_path = folder / formats::kManifestName;
  if (!fs.exists(manifest_path)) throw formats::bad_input("it has no manifest", folder.string());
  std::error_code none;
  if (!formats::is_file(manifest_path) ||
      std::filesystem::file_size(manifest_path, none) > kMostManifestBytes) {
    throw formats::bad_input("its manifest is no file, or above 16 MB", manifest_path.string());
  }
  const json manifest = formats::verified_manifest(
      folder, formats::parse_json(fs.read(manifest_path), manifest_path.string()),
      [&fs](const path& file) { return digest_of(fs, file); });
  try {
    if (manifest.at("schema_version") != kSchemaVersion) {
      throw formats::bad_input("its manifest has schema version " +
                                   manifest.at("schema_version").dump() + ", this program reads 1",
                               manifest_path.string());
    }
    return {manifest.at("step").get<std::int64_t>(), folder, manifest.at("state")};
  } catch (const nlohmann::json::exception&) {
    throw formats::bad_input("its manifest lacks a field", manifest_path.string());
  }
}

std::vector<std::int64_t> checkpoint_steps(const formats::FileSystem& fs, const path& root) {
  std::vector<std::int64_t> steps;
  if (!fs.is_directory(root)) return steps;
  for (const std::string& name : fs.list(root)) {
    if (const auto step = formats::step_of_checkpoint(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

FoundCheckpoint find_newest_checkpoint(const formats::FileSystem& fs, const path& root) {
  FoundCheckpoint found;
  std::vector<std::int64_t> steps = checkpoint_steps(fs, root);
  std::reverse(steps.begin(), steps.end());
  for (const std::int64_t step : steps) {
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
