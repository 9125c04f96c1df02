#include "model/checkpoints/model_files.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "formats/manifest.h"
#include "formats/near_names.h"
#include "formats/sha256.h"
#include "formats/tensors/gguf.h"
#include "formats/tensors/safetensors.h"
#include "model/checkpoints/constructed.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Why a checkpoint's manifest does not fit its files; empty where it does.
std::string manifest_fault(const fs::path& folder) {
  try {
    formats::verified_manifest(
        folder, formats::json_from_file(folder / formats::kManifestName),
        [](const fs::path& file) -> formats::FileDigest {
          if (!formats::is_file(file)) {
            throw formats::bad_input(file.filename().string() + " is missing");
          }
          return {fs::file_size(file), formats::sha256_of_file(file)};
        });
  } catch (const formats::Error& error) {
    return error.message();
  }
  return {};
}

// The newest checkpoint of a job's folder whose manifest fits.
ModelFiles newest_checkpoint(const fs::path& job) {
  std::vector<std::pair<std::int64_t, fs::path>> steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(job / "checkpoints")) {
    if (const auto step = formats::step_of_checkpoint(entry.path().filename().string())) {
      steps.emplace_back(*step, entry.path());
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  ModelFiles files;
  for (const auto& [step, folder] : steps) {
    const std::string fault = manifest_fault(folder);
    if (fault.empty()) {
      files.config = folder / "config.json";
      files.weights = folder;
      return files;
    }
    files.notes.push_back("step-" + std::to_string(step) + " was skipped: " + fault);
  }
  throw formats::bad_input("the job has no checkpoint that can be read yet", job.string(),
                           files.notes.empty() ? "" : files.notes.front());
}

ModelFiles files_in_folder(const fs::path& given);

// The base model that an adapter's configuration names: the folder itself, that path, a folder of
// that name beside the adapter's, or the one the adapter lies in.
ModelFiles files_of_adapter(const fs::path& folder) {
  const fs::path file = folder / "adapter_config.json";
  const formats::Json config = formats::json_from_file(file);
  std::string base;
  if (config.contains("base_model_name_or_path") && config["base_model_name_or_path"].is_string()) {
    base = config["base_model_name_or_path"].get<std::string>();
  }
  std::vector<fs::path> candidates = {folder};
  if (!base.empty()) {
    candidates.insert(candidates.end(), {folder / base, fs::path(base),
                                         folder.parent_path() / fs::path(base).filename()});
  }
  candidates.push_back(folder.parent_path());
  for (const fs::path& candidate : candidates) {
    if (!formats::is_file(candidate / "config.json")) continue;
    ModelFiles files{candidate / "config.json", candidate};
    files.adapter = folder;
    files.notes.push_back("the adapter is merged into " + candidate.string());
    return files;
  }
  throw formats::bad_input("the adapter's base model \"" + base + "\" is not here", file.string(),
                           "put its folder beside the adapter's");
}

// The one GGUF file of a folder; empty where there is none. Several are models of their own.
fs::path gguf_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const std::string& name : formats::real_file_system().list(folder)) {
    if (name.ends_with(".gguf")) files.push_back(folder / name);
  }
  if (files.size() <= 1) return files.empty() ? fs::path() : files.front();
  throw formats::bad_input("the folder has " + std::to_string(files.size()) +
                               " GGUF files, and each is a model of its own",
                           folder.string(), "name one of the files");
}

ModelFiles files_in_folder(const fs::path& given) {
  fs::path folder = given;
  if (!folder.has_filename()) folder = folder.parent_path();  // "models/a/" -> "models/a"
  if (formats::is_file(folder / "adapter_config.json")) return files_of_adapter(folder);
  if (is_folder(folder / "checkpoints") && !formats::is_file(folder / "model.safetensors")) {
    return newest_checkpoint(folder);
  }
  // A model's folder has weights beside its configuration; what is beside a GGUF file is not them.
  if (!formats::is_file(folder / "config.json") || !formats::holds_weights(folder)) {
    const fs::path gguf = gguf_in(folder);
    if (!gguf.empty()) return {gguf, gguf};
  }
  if (!formats::is_file(folder / "config.json")) {
    throw formats::bad_input("the folder has no config.json", folder.string(),
                             "name a folder that holds config.json and .safetensors files");
  }
  return {folder / "config.json", folder};
}

// The checkpoint that a file beside it names, a job's checkpoints/best or checkpoints/latest.
std::optional<ModelFiles> files_of_named_checkpoint(const fs::path& file) {
  if (file.filename() != "best" && file.filename() != "latest") return std::nullopt;
  constexpr std::uintmax_t kMostBytes = 64;
  std::error_code error;
  if (fs::file_size(file, error) > kMostBytes || error) return std::nullopt;
  std::string name;
  std::ifstream stream(file);
  std::getline(stream, name);
  const fs::path folder = file.parent_path() / name;
  if (!formats::step_of_checkpoint(name) || !is_folder(folder)) return std::nullopt;
  if (const std::string fault = manifest_fault(folder); !fault.empty()) {
    throw formats::bad_input(name + " cannot be used: " + fault, file.string());
  }
  return files_in_folder(folder);
}

ModelFiles files_of_weights(const fs::path& weights) {
  if (weights.extension() == ".gguf" || formats::is_gguf_file(weights)) return {weights, weights};
  const fs::path config = weights.parent_path() / "config.json";
  if (!formats::is_file(config)) {
    throw formats::bad_input("there is no config.json beside the weights", weights.string());
  }
  return {config, weights};
}

std::vector<std::string> bundled_names() {
  std::vector<std::string> names;
  if (!is_folder(models_folder())) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(models_folder())) {
    if (formats::is_file(entry.path() / "config.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

fs::path assets_folder() {
  if (const char* given = std::getenv("PHASESCOPE_ASSETS")) return given;
  const fs::path installed = program_folder().parent_path() / "share" / "phasescope";
  return is_folder(installed) ? installed : fs::path(PHASESCOPE_SOURCE_ASSETS);
}

fs::path models_folder() { return assets_folder() / "models"; }

std::vector<BundledModel> bundled_models() {
  std::vector<BundledModel> models;
  for (const std::string& name : bundled_names()) {
    const fs::path folder = models_folder() / name;
    try {
      const fs::path config = folder / "config.json";
      models.push_back(
          {name, folder, read_model_config(formats::json_from_file(config), config.string())});
    } catch (const formats::Error&) {
      continue;  // opening it by name says what is wrong
    }
  }
  return models;
}

ModelFiles find_model_files(const std::string& path_or_name) {
  const bool plain_name = !path_or_name.empty() && path_or_name.find('/') == std::string::npos;
  if (plain_name && formats::is_file(models_folder() / path_or_name / "config.json")) {
    ModelFiles files = files_in_folder(models_folder() / path_or_name);
    files.bundled = true;
    if (is_folder(path_or_name)) {
      files.notes.push_back("this is the bundled model; the folder of that name here is ./" +
                            path_or_name);
    }
    return files;
  }
  if (is_folder(path_or_name)) return files_in_folder(path_or_name);
  if (formats::is_file(path_or_name)) {
    const auto named = files_of_named_checkpoint(path_or_name);
    return named ? *named : files_of_weights(path_or_name);
  }
  std::vector<std::string> known = bundled_names();
  for (const ConstructedEntry& entry : constructed_models()) known.push_back(entry.name);
  throw formats::bad_input(
      "there is no model \"" + path_or_name + "\": neither a file, nor a folder, nor a bundled one",
      path_or_name, formats::hint_of_names({path_or_name}, known));
}

}  // namespace phasescope::model
