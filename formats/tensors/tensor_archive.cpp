#include <algorithm>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/tensors/safetensors.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

namespace stdfs = std::filesystem;

constexpr std::string_view kMainFiles[] = {"model.safetensors", "model.safetensors.index.json",
                                           "pytorch_model.bin", "pytorch_model.bin.index.json"};
// What trainers write beside the weights.
constexpr std::string_view kNoWeights[] = {"training_args.bin", "optimizer.bin", "optimizer.pt",
                                           "scheduler.pt",      "rng_state.pth", "scaler.pt"};

// The hub's cache keeps models/snapshots/REVISION/FILE as links to models/blobs/HASH; those alone
// may lead out of the folder.
bool is_hub_cache_link(const stdfs::path& folder, const stdfs::path& target) {
  return folder.parent_path().filename() == "snapshots" &&
         target.parent_path() == folder.parent_path().parent_path() / "blobs";
}

bool lies_in(const stdfs::path& folder, const stdfs::path& path) {
  const stdfs::path inside = path.lexically_relative(folder);
  return !inside.empty() && *inside.begin() != "..";
}

// The path of a shard named by an index, which must not leave the index's folder.
stdfs::path shard_path(const stdfs::path& index, const std::string& name) {
  const std::string where = index.string() + ", key weight_map";
  const stdfs::path relative(name);
  const bool climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
  if (name.empty() || relative.is_absolute() || climbs || name.find('\0') != std::string::npos) {
    throw bad_input("the shard " + in_quotes(name) + " lies outside the model's folder", where);
  }
  const stdfs::path folder = index.has_parent_path() ? index.parent_path() : stdfs::path(".");
  const stdfs::path path = folder / relative;
  std::error_code error;
  if (!stdfs::exists(path, error)) {
    throw bad_input("the shard " + in_quotes(name) + " is missing", where,
                    "copy or download it into " + folder.string());
  }
  const stdfs::path real_folder = stdfs::canonical(folder, error);
  const stdfs::path target = stdfs::canonical(path, error);
  if (error || (!lies_in(real_folder, target) && !is_hub_cache_link(real_folder, target))) {
    throw bad_input("the shard " + in_quotes(name) + " is a link out of the model's folder", where,
                    "put the file itself there");
  }
  return path;
}

// weight_map of an index, tensor name to shard name.
std::map<std::string, std::string> read_weight_map(const Json& document, const std::string& where) {
  if (!document.is_object() || !document.contains("weight_map") ||
      !document["weight_map"].is_object()) {
    throw bad_input("an index must be an object with an object \"weight_map\"", where);
  }
  std::map<std::string, std::string> map;
  for (const auto& [name, shard] : document["weight_map"].items()) {
    if (!shard.is_string()) {
      throw bad_input("the shard of tensor " + in_quotes(name) + " is not a string",
                      where + ", key weight_map." + shortened(name));
    }
    map[name] = shard.get<std::string>();
  }
  if (map.empty()) throw bad_input("the index lists no tensor", where + ", key weight_map");
  return map;
}

// A warning where the index's total_size is neither what the tensors add up to nor what they do
// with each shared one counted once.
std::vector<std::string> check_total_size(const Json& document, std::uint64_t actual,
                                          std::uint64_t shared) {
  if (!document.contains("metadata") || !document["metadata"].is_object()) return {};
  const Json& metadata = document["metadata"];
  if (!metadata.contains("total_size")) return {};
  const Json& stated = metadata["total_size"];
  // Older tools wrote it as a fraction.
  const auto is = [&](std::uint64_t size) {
    return stated.is_number() && stated.get<double>() == static_cast<double>(size);
  };
  if (is(actual) || is(actual - shared)) return {};
  return {"the index gives a total_size of " + shortened(stated.dump()) +
          ", but the tensors have " + std::to_string(actual) + " bytes"};
}

// Files of a folder whose names end in one of `suffixes`, those that hold no weights left out.
std::vector<stdfs::path> files_ending(const stdfs::path& folder,
                                      std::initializer_list<std::string_view> suffixes) {
  std::vector<stdfs::path> files;
  for (const std::string& name : real_file_system().list(folder)) {
    const bool wanted = std::any_of(suffixes.begin(), suffixes.end(),
                                    [&](std::string_view end) { return name.ends_with(end); });
    const bool known =
        std::find(std::begin(kNoWeights), std::end(kNoWeights), name) != std::end(kNoWeights);
    if (wanted && !known) files.push_back(folder / name);
  }
  return files;
}

// Which file of a folder holds the weights.
stdfs::path weights_in(const stdfs::path& folder) {
  for (const std::string_view name : kMainFiles) {
    if (stdfs::exists(folder / name)) return folder / name;
  }
  for (const auto& [indices, files] :
       {std::pair(files_ending(folder, {".safetensors.index.json"}),
                  files_ending(folder, {".safetensors"})),
        std::pair(files_ending(folder, {".bin.index.json"}),
                  files_ending(folder, {".bin", ".pt", ".pth", ".ckpt"}))}) {
    if (indices.size() == 1) return indices.front();
    if (indices.empty() && files.size() == 1) return files.front();
    if (!indices.empty() || !files.empty()) {
      throw bad_input("the folder has several files of weights and none with a usual name",
                      folder.string(), "name one of the files");
    }
  }
  throw bad_input("the folder holds no file of weights (.safetensors, .bin, .pt)", folder.string(),
                  "give a model's folder or file");
}

}  // namespace

bool holds_weights(const stdfs::path& folder) {
  return !files_ending(folder, {".safetensors", ".safetensors.index.json", ".bin",
                                ".bin.index.json", ".pt", ".pth", ".ckpt"})
              .empty();
}

TensorArchive TensorArchive::open(const stdfs::path& path, const OpenOptions& options) {
  std::error_code error;
  if (!stdfs::exists(path, error)) {
    throw bad_input("there is no such file or folder", path.string(), "check the path");
  }
  const stdfs::path weights = stdfs::is_directory(path, error) ? weights_in(path) : path;
  TensorArchive archive;
  if (weights.extension() == ".json") {
    archive.open_index(weights, options);
  } else {
    archive.add_file(open_tensor_file(weights, options));
  }
  return archive;
}

TensorArchive TensorArchive::of(std::unique_ptr<TensorFile> file) {
  TensorArchive archive;
  archive.add_file(std::move(file));
  return archive;
}

void TensorArchive::add_file(std::unique_ptr<TensorFile> file) {
  const auto number = static_cast<std::uint32_t>(files_.size());
  for (TensorEntry entry : file->tensors()) {
    const auto [it, added] = by_name_.emplace(entry.name, tensors_.size());
    if (!added) {
      const auto& first = files_[tensors_[it->second].file]->path().filename().string();
      throw bad_input("tensor " + in_quotes(entry.name) + " is in two shards, " + in_quotes(first) +
                          " and " + in_quotes(file->path().filename().string()),
                      file->path().string());
    }
    entry.file = number;
    tensors_.push_back(std::move(entry));
  }
  tied_.insert(tied_.end(), file->tied().begin(), file->tied().end());
  warnings_.insert(warnings_.end(), file->warnings().begin(), file->warnings().end());
  files_.push_back(std::move(file));
}

void TensorArchive::open_index(const stdfs::path& index, const OpenOptions& options) {
  const Json document = json_from_file(index, {.duplicate_keys = DuplicateKeys::refuse});
  const auto weight_map = read_weight_map(document, index.string());
  std::map<std::string, stdfs::path> shards;
  for (const auto& [tensor, shard] : weight_map) {
    if (!shards.contains(shard)) shards.emplace(shard, shard_path(index, shard));
  }
  for (const auto& [shard, path] : shards) add_file(open_tensor_file(path, options));

  std::uint64_t total = 0, shared = 0;
  for (const TensorEntry& entry : tensors_) {
    total += entry.size;
    if (weight_map.contains(entry.name)) continue;
    throw bad_input("tensor " + in_quotes(entry.name) + " is in a shard but not in the index",
                    files_[entry.file]->path().string(), "the index belongs to another version");
  }
  for (const auto& [name, shard] : weight_map) {
    const TensorEntry* entry = find(name);
    if (entry && files_[entry->file]->path() == shards.at(shard)) continue;
    throw bad_input("tensor " + in_quotes(name) + " is not in the shard " + in_quotes(shard) +
                        " that the index names",
                    index.string() + ", key weight_map." + shortened(name));
  }
  for (const auto& group : tied_) shared += find(group.front())->size * (group.size() - 1);
  const auto warnings = check_total_size(document, total, shared);
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
}

const TensorEntry* TensorArchive::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

void TensorArchive::read(const TensorEntry& entry, std::span<std::byte> out) const {
  files_.at(entry.file)->read(entry, out);
}

void TensorArchive::read_part(const TensorEntry& entry, std::uint64_t begin,
                              std::span<std::byte> out) const {
  files_.at(entry.file)->read_part(entry, begin, out);
}

void TensorArchive::visit(const TensorEntry& entry, const TensorFile::Visit& visit) const {
  files_.at(entry.file)->visit(entry, visit);
}

std::uint64_t TensorArchive::whole_bytes(const TensorEntry& entry) const {
  return files_.at(entry.file)->whole_bytes(entry);
}

std::optional<MappedBytes> TensorArchive::mapped(const TensorEntry& entry) const {
  return files_.at(entry.file)->mapped(entry);
}

std::vector<stdfs::path> TensorArchive::paths() const {
  std::vector<stdfs::path> paths;
  for (const auto& file : files_) {
    const auto more = file->paths();
    paths.insert(paths.end(), more.begin(), more.end());
  }
  return paths;
}

const std::map<std::string, std::string>& TensorArchive::metadata() const {
  return files_.front()->metadata();
}

}  // namespace phasescope::formats
