#include "model/checkpoints/convert.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/hf_config.h"  // ConfigProblems
#include "formats/json.h"
#include "model/checkpoints/config_without_weights.h"
#include "model/checkpoints/conversions/conversion.h"
#include "model/checkpoints/model_files.h"
#include "model/settings.h"

namespace phasescope::model {
namespace {

namespace stdfs = std::filesystem;

// What lies beside a model's weights and speaks of its texts.
constexpr const char* kTextFiles[] = {"tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "tokenizer.model",
                                      "spiece.model",
                                      "sentencepiece.bpe.model",
                                      "vocab.json",
                                      "merges.txt",
                                      "vocab.txt"};

const Conversion& conversion_to(const std::string& to) {
  std::vector<std::string> known;
  for (const Conversion& conversion : conversions()) {
    if (to == conversion.key) return conversion;
    known.emplace_back(conversion.key);
  }
  std::string list;
  for (const std::string& key : known) list += (list.empty() ? "" : ", ") + key;
  throw formats::bad_usage("there is no form \"" + to + "\" to convert to; known: " + list, "--to");
}

// A folder that a conversion may fill. What it wrote goes again unless it is kept.
class OutputFolder {
 public:
  OutputFolder(formats::FileSystem& fs, stdfs::path path) : fs_(fs), path_(std::move(path)) {
    if (path_.empty()) throw formats::bad_usage("a conversion needs a folder to write to", "--out");
    there_ = fs_.exists(path_);
    if (there_ && (!fs_.is_directory(path_) || !fs_.list(path_).empty())) {
      throw formats::bad_usage("there is something already, which is not written over",
                               path_.string(), "name an empty folder, or one that is not there");
    }
  }
  ~OutputFolder() {
    if (kept_) return;
    for (const std::string& name : names_) discard(path_ / name);
    if (made_ && !there_) discard(path_);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Where a file of that name is to be written.
  stdfs::path file(const std::string& name) {
    if (!made_) formats::make_directories(fs_, path_);
    made_ = true;
    names_.push_back(name);
    return path_ / name;
  }
  const std::vector<std::string>& names() const { return names_; }
  void keep() { kept_ = true; }

 private:
  void discard(const stdfs::path& path) {
    try {
      fs_.remove(path);
    } catch (const formats::Error&) {
      // The error that ended the conversion is the one to tell.
    }
  }

  formats::FileSystem& fs_;
  stdfs::path path_;
  std::vector<std::string> names_;
  bool there_ = false, made_ = false, kept_ = false;
};

// Counts what the sources write, and asks whether anybody still wants it.
void watch(ConversionPlan& plan, const ConvertOptions& options) {
  double total = 0;
  for (const formats::TensorSource& tensor : plan.tensors) {
    total += static_cast<double>(*formats::checked_element_count(tensor.shape) *
                                 formats::item_size(tensor.dtype));
  }
  const auto done = std::make_shared<double>(0);
  for (formats::TensorSource& tensor : plan.tensors) {
    tensor.produce = [&options, total, done, produce = std::move(tensor.produce)](
                         const formats::TensorSource::Write& write) {
      produce([&](std::span<const std::byte> bytes) {
        if (options.cancelled && options.cancelled()) throw formats::cancelled();
        write(bytes);
        *done += static_cast<double>(bytes.size());
        if (options.progress && total > 0) options.progress(*done / total);
      });
    };
  }
}

std::int64_t elements_of(const formats::TensorSource& tensor) {
  return static_cast<std::int64_t>(*formats::checked_element_count(tensor.shape));
}

}  // namespace

std::vector<ConversionForm> conversion_forms() {
  std::vector<ConversionForm> forms;
  for (const Conversion& conversion : conversions()) {
    forms.push_back({conversion.key, conversion.help});
  }
  return forms;
}

namespace {

// What is written of any plan; the folder is kept.
void write_plan(formats::FileSystem& fs, const ConversionPlan& plan, const stdfs::path& source,
                const std::string& config, OutputFolder& folder, Converted& result) {
  result.notes = plan.notes;
  result.tensors = static_cast<std::int64_t>(plan.tensors.size());
  for (const formats::TensorSource& tensor : plan.tensors) {
    result.parameters += elements_of(tensor);
  }
  const stdfs::path weights = folder.file("model.safetensors");
  formats::write_safetensors_from(fs, weights, plan.tensors, {{"format", "pt"}});
  std::error_code error;
  result.bytes = stdfs::file_size(weights, error);
  for (const char* name : kTextFiles) {
    if (!fs.exists(source / name)) continue;
    const std::string text = fs.read(source / name);
    formats::write_file_atomically(fs, folder.file(name), std::string_view(text));
  }
  // The last one: without it the folder is no model yet.
  formats::write_file_atomically(fs, folder.file("config.json"), std::string_view(config));
  result.files = folder.names();
  folder.keep();
}

// Where a model's configuration lies, which may be all there is of it.
stdfs::path folder_of(const std::string& path_or_name) {
  const stdfs::path given(path_or_name);
  return formats::is_file(given) ? given.parent_path()
                                 : find_model_files(path_or_name).config.parent_path();
}

Converted write_of_sizes(formats::FileSystem& fs, const std::string& path_or_name,
                         const Conversion& conversion, const ConvertOptions& options,
                         OutputFolder& folder) {
  ModelConfig config = config_without_weights(path_or_name, options.cancelled);
  set_fields(config, options.overrides);
  formats::ConfigProblems problems;
  check_model_config(config, problems);
  problems.throw_if_any(path_or_name);
  ConversionPlan plan = conversion.plan_of_sizes(config, options);
  watch(plan, options);
  Converted result;
  result.model = path_or_name;
  write_plan(fs, plan, folder_of(path_or_name), plan.config.dump(2) + "\n", folder, result);
  result.parameters_before = result.parameters;
  return result;
}

Converted write_of_weights(formats::FileSystem& fs, const std::string& path_or_name,
                           const Conversion& conversion, const ConvertOptions& options,
                           OutputFolder& folder) {
  CheckpointReader reader(path_or_name, options.cancelled);
  reader.require_complete();
  ConversionPlan plan = conversion.plan(reader, options);
  watch(plan, options);
  Converted result;
  result.model = reader.report().name;
  result.sha256 = reader.hash();
  if (const std::string& from = reader.report().weights_from; !from.empty()) {
    plan.notes.push_back("weights are dequantised, " + from);
  }
  if (!reader.gguf_keys().is_null()) {
    plan.notes.emplace_back("the tokenizer within the GGUF file is not written");
  }
  for (const std::string& name : reader.names()) {
    result.parameters_before += reader.elements(name);
  }
  const std::string config =
      plan.config.is_null() ? fs.read(reader.files().config) : plan.config.dump(2) + "\n";
  write_plan(fs, plan, reader.files().config.parent_path(), config, folder, result);
  return result;
}

}  // namespace

Converted convert_model(formats::FileSystem& fs, const std::string& path_or_name,
                        const std::string& to, const stdfs::path& out,
                        const ConvertOptions& options) {
  const at::NoGradGuard no_grad;
  const Conversion& conversion = conversion_to(to);
  if (conversion.plan_of_sizes == nullptr && options.seed != 0) {
    throw formats::bad_usage("nothing is drawn for the form " + to, "--seed", "leave it out");
  }
  OutputFolder folder(fs, out);
  return conversion.plan_of_sizes != nullptr
             ? write_of_sizes(fs, path_or_name, conversion, options, folder)
             : write_of_weights(fs, path_or_name, conversion, options, folder);
}

}  // namespace phasescope::model
