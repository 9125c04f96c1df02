#include "model/checkpoints/checkpoint_reader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "formats/error.h"
#include "formats/hf_config.h"  // ConfigProblems
#include "formats/json.h"
#include "formats/sha256.h"
#include "formats/tensors/value_counts.h"
#include "formats/utf8.h"
#include "model/checkpoints/adapter.h"
#include "model/checkpoints/tensor_io.h"
#include "model/families/family.h"

namespace phasescope::model {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{16} << 20;  // read between two questions

// "model.layers.*.rotary_emb.inv_freq" for every N of "model.layers.N.rotary_emb.inv_freq".
std::string without_layer_number(const std::string& name) {
  static const std::regex number("\\.[0-9]+\\.");
  return std::regex_replace(name, number, ".*.", std::regex_constants::format_first_only);
}

void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// A tensor of the file and what it stands for.
struct Source {
  const formats::TensorEntry* entry;
  std::vector<TensorPlace> parts;
  bool looked_at = false;  // its values are in the report
};

}  // namespace

struct CheckpointReader::Contents {
  Contents(const std::string& path_or_name, std::function<bool()> stop)
      : cancelled(std::move(stop)),
        files(find_model_files(path_or_name)),
        json(formats::json_from_file(files.config)),
        archive(formats::TensorArchive::open(files.weights, {.cancelled = cancelled})) {
    if (!files.adapter.empty()) adapter = Adapter::open(files.adapter);
    report.name = path_or_name;
    report.path = (adapter ? files.adapter : files.weights).string();
    report.bundled = files.bundled;
    translation = translate({json, archive.tensors(), files.config.string()}, report.family);
    fill_report();
    encoding = make_encoding(translation.config);
    for (TensorSpec& spec : tensor_specs(translation.config, *encoding)) {
      order.push_back(spec.name);
      specs.emplace(spec.name, std::move(spec));
    }
    match_names();
    check_shapes();
    find_missing();
    if (adapter) adapter->check(archive, report.path);
  }

  void fill_report() {
    report.encoding_why = translation.encoding_why;
    report.quirks = translation.quirks;
    report.warnings = files.notes;
    append(report.warnings, translation.warnings);
    append(report.warnings, archive.warnings());
    for (const std::vector<std::string>& names : archive.tied()) {
      report.tied.push_back(names[0] + " and " + names[1] + " are one tensor in the file" +
                            (names.size() > 2 ? ", as are others" : ""));
    }
    if (!adapter) return;
    append(report.quirks, adapter->notes());
    for (const Adapter::Stored& tensor : adapter->stored()) {
      ++report.dtypes[tensor.dtype];
      if (!tensor.flag.empty()) {
        report.flagged.push_back({tensor.name, tensor.dtype, tensor.flag, tensor.shape});
      }
    }
  }

  void match_names() {
    std::map<std::string, std::int64_t> ignored;  // by sentence
    const ModelConfig& config = translation.config;
    bool stored_head = false;
    for (const formats::TensorEntry& entry : archive.tensors()) {
      ++report.dtypes[entry.dtype_name];
      const TensorPlace place = translation.place(entry.name);
      if (place.ignored) {
        ++ignored[without_layer_number(entry.name) + " " +
                  (place.why.empty() ? "is computed, the stored one is not read" : place.why)];
      } else if (place.name == "lm_head.weight" && config.tie_embeddings) {
        stored_head = true;
        report.tied.push_back(entry.name + " is stored, but tied to model.embed_tokens.weight");
      } else {
        add_source(entry, place);
      }
    }
    read_stored_frequencies();
    for (const auto& [sentence, count] : ignored) {
      report.quirks.push_back(sentence +
                              (count > 1 ? " (" + std::to_string(count) + " tensors)" : ""));
    }
    if (config.tie_embeddings && config.head.present && !stored_head) {
      report.tied.push_back("lm_head.weight is model.embed_tokens.weight");
    }
  }

  // Older files keep what their rope was computed with: "layers.3.self_attn.rotary_emb.inv_freq".
  void read_stored_frequencies() {
    static const std::regex layer("(^|\\.)(layers|h)\\.([0-9]{1,6})\\.");
    constexpr std::int64_t kMostPlanes = 1 << 16;
    for (const formats::TensorEntry& entry : archive.tensors()) {
      const bool frequencies = entry.name.ends_with("rotary_emb.inv_freq") ||
                               entry.name.ends_with("rotary.inv_freq");
      if (!frequencies || !is_weights(entry) || entry.shape.size() != 1 ||
          entry.shape[0] > kMostPlanes) {
        continue;
      }
      const at::Tensor stored = at::empty(entry.shape, scalar_type(entry.dtype));
      archive.read_part(entry, 0,
                        {static_cast<std::byte*>(stored.mutable_data_ptr()), entry.size});
      const at::Tensor list = stored.to(at::kDouble);
      std::smatch found;
      const bool of_layer = std::regex_search(entry.name, found, layer);
      report.stored_frequencies[of_layer ? std::stoll(found[3]) : -1] = {
          list.const_data_ptr<double>(), list.const_data_ptr<double>() + list.numel()};
    }
  }

  void add_source(const formats::TensorEntry& entry, const TensorPlace& place) {
    Source source{&entry, place.parts.empty() ? std::vector<TensorPlace>{place} : place.parts};
    for (const TensorPlace& part : source.parts) {
      if (specs.contains(part.name)) continue;
      report.unexpected.push_back(entry.name);
      if (entry.dtype == formats::DType::unsupported) flag_unsupported(entry);
      return;
    }
    if (!is_weights(entry)) {
      flag_unsupported(entry);
      unreadable.push_back(&entry);
    }
    for (const TensorPlace& part : source.parts) {
      if (!by_name.emplace(part.name, sources.size()).second) {
        throw formats::bad_input("two tensors of the file mean " + part.name, entry.name);
      }
    }
    sources.push_back(std::move(source));
  }

  void flag_unsupported(const formats::TensorEntry& entry) {
    report.flagged.push_back({entry.name, entry.dtype_name, "unsupported", entry.shape});
  }

  void check_shapes() {
    formats::ConfigProblems problems;
    for (const Source& source : sources) {
      for (const TensorPlace& part : source.parts) {
        if (part.convert && part.stored.empty()) continue;
        const std::vector<std::int64_t>& shape =
            part.stored.empty() ? specs.at(part.name).shape : part.stored;
        if (source.entry->shape == shape) continue;
        problems.add(source.entry->name,
                     "has the shape " + formats::shape_text(source.entry->shape) +
                         ", the configuration asks for " + formats::shape_text(shape));
        break;
      }
    }
    problems.throw_if_any(files.weights.string());
  }

  void find_missing() {
    for (const std::string& name : order) {
      if (!specs.at(name).optional && !by_name.contains(name)) report.missing.push_back(name);
    }
  }

  void require_complete() const {
    constexpr std::size_t kNamed = 3;
    const std::vector<std::string>& names = report.missing;
    if (names.empty()) return;
    std::string list = names[0];
    for (std::size_t n = 1; n < std::min(names.size(), kNamed); ++n) list += ", " + names[n];
    const bool more = names.size() > kNamed;
    throw formats::bad_input(
        (names.size() == 1 ? "a tensor is" : std::to_string(names.size()) + " tensors are") +
            std::string(" missing from the file: ") + list + (more ? ", ..." : ""),
        files.weights.string(), "info lists what the file holds");
  }

  // Says how far the reading is; throws where nobody wants it any more.
  void advance(std::uint64_t bytes) {
    done += bytes;
    if (cancelled && cancelled()) throw formats::cancelled();
    if (progress && total > 0) progress(static_cast<double>(done) / static_cast<double>(total));
  }

  // Puts down what is wrong with the values of all tensors that are there.
  void look_at_values() {
    for (Source& source : sources) {
      if (std::exchange(source.looked_at, true) || !is_weights(*source.entry)) continue;
      flag(*source.entry, formats::count_values(archive, *source.entry, cancelled));
    }
  }

  void flag(const formats::TensorEntry& entry, const formats::ValueCounts& counts) {
    const std::string flag(counts.flag());
    if (!flag.empty()) {
      report.flagged.push_back({entry.name, entry.dtype_name, flag, entry.shape});
    }
  }

  // In the file's dtype and shape.
  at::Tensor read_entry(Source& source) {
    const formats::TensorEntry& entry = *source.entry;
    const at::ScalarType type = scalar_type_of(entry);
    const at::Tensor tensor = at::empty(entry.shape, type);
    const std::span<std::byte> bytes(static_cast<std::byte*>(tensor.mutable_data_ptr()),
                                     entry.size);
    for (std::uint64_t begin = 0; begin < entry.size; begin += kPieceBytes) {
      const auto piece = bytes.subspan(begin, std::min(kPieceBytes, entry.size - begin));
      archive.read_part(entry, begin, piece);
      advance(piece.size());
    }
    if (source.looked_at) return tensor;
    source.looked_at = true;
    flag(entry, formats::count_values(entry.dtype, bytes));
    return tensor;
  }

  // A single whole number is a setting that some modules store (FIRE's L).
  static bool is_weights(const formats::TensorEntry& entry) {
    return entry.dtype != formats::DType::unsupported &&
           (at::isFloatingType(scalar_type(entry.dtype)) || entry.shape.empty());
  }

  at::ScalarType scalar_type_of(const formats::TensorEntry& entry) const {
    if (is_weights(entry)) return scalar_type(entry.dtype);
    const std::string others = std::to_string(unreadable.size() - 1);
    throw formats::bad_input("tensor " + entry.name + " has the type " +
                                 formats::shortened(entry.dtype_name) +
                                 ", which cannot be read as weights" +
                                 (unreadable.size() > 1 ? ", as have " + others + " others" : ""),
                             files.weights.string(), "info lists what the file holds");
  }

  // The same in `dtype`, with what an adapter adds.
  at::Tensor read_source(Source& source, at::ScalarType dtype) {
    const at::Tensor tensor = read_entry(source);
    return adapter ? adapter->merged(source.entry->name, tensor, dtype) : tensor.to(dtype);
  }

  at::Tensor part_of(const Source& source, const TensorPlace& part,
                     const at::Tensor& tensor) const {
    const at::Tensor converted = part.convert ? part.convert(tensor) : tensor;
    if (converted.sizes() != at::IntArrayRef(specs.at(part.name).shape)) {
      throw formats::bad_input(source.entry->name + " does not fit the configuration",
                               files.weights.string());
    }
    return converted.contiguous();
  }

  // What says which weights these are: an adapter's model is not its base model.
  std::vector<std::filesystem::path> hashed_files() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : archive.files()) paths.push_back(file->path());
    if (!adapter) return paths;
    for (const char* name :
         {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}) {
      std::error_code error;
      const std::filesystem::path path = files.adapter / name;
      if (std::filesystem::is_regular_file(path, error)) paths.push_back(path);
    }
    return paths;
  }

  std::string hash() {
    const std::vector<std::filesystem::path> paths = hashed_files();
    std::string hashes;
    std::uint64_t read = 0;
    for (const std::filesystem::path& path : paths) {
      hashes += formats::sha256_of_file(path, [&](std::uint64_t bytes) {
        read += bytes;
        if (read >= kPieceBytes) advance(std::exchange(read, 0));
      });
    }
    advance(read);
    return paths.size() == 1 ? hashes : formats::sha256_hex(std::string_view(hashes));
  }

  void start_progress(const std::function<void(double)>& to) {
    progress = to;
    done = total = 0;
    for (const Source& source : sources) total += source.entry->size;
    std::error_code error;
    for (const std::filesystem::path& path : hashed_files()) {
      total += std::filesystem::file_size(path, error);
    }
  }

  std::function<bool()> cancelled;
  ModelFiles files;
  Json json;
  formats::TensorArchive archive;
  std::optional<Adapter> adapter;
  Translation translation;
  std::unique_ptr<Encoding> encoding;
  LoadReport report;
  std::vector<std::string> order;  // canonical names
  std::map<std::string, TensorSpec> specs;
  std::vector<Source> sources;
  std::map<std::string, std::size_t> by_name;           // canonical name to its source
  std::vector<const formats::TensorEntry*> unreadable;  // of those that are needed
  std::function<void(double)> progress;
  std::uint64_t done = 0, total = 0;  // bytes
};

CheckpointReader::CheckpointReader(const std::string& path_or_name, std::function<bool()> cancelled)
    : contents_(std::make_unique<Contents>(path_or_name, std::move(cancelled))) {}
CheckpointReader::~CheckpointReader() = default;

const ModelFiles& CheckpointReader::files() const { return contents_->files; }
const formats::TensorArchive& CheckpointReader::archive() const { return contents_->archive; }
std::string CheckpointReader::hash() { return contents_->hash(); }
const ModelConfig& CheckpointReader::config() const { return contents_->translation.config; }
const Encoding& CheckpointReader::encoding() const { return *contents_->encoding; }
LoadReport& CheckpointReader::report() { return contents_->report; }

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const std::string& name : contents_->order) {
    if (contents_->by_name.contains(name)) names.push_back(name);
  }
  return names;
}

at::ScalarType CheckpointReader::stored_dtype(const std::string& name) const {
  return contents_->scalar_type_of(*contents_->sources[contents_->by_name.at(name)].entry);
}

std::int64_t CheckpointReader::elements(const std::string& name) const {
  std::int64_t count = 1;
  for (const std::int64_t size : contents_->specs.at(name).shape) count *= size;
  return count;
}

at::Tensor CheckpointReader::read(const std::string& name, at::ScalarType dtype) {
  Source& source = contents_->sources[contents_->by_name.at(name)];
  const at::Tensor tensor = contents_->read_source(source, dtype);
  for (const TensorPlace& part : source.parts) {
    if (part.name == name) return contents_->part_of(source, part, tensor);
  }
  throw formats::internal_error("no part of " + source.entry->name + " is " + name);
}

bool CheckpointReader::readable() const {
  return contents_->unreadable.empty() && contents_->report.missing.empty();
}

void CheckpointReader::look_at_values() { contents_->look_at_values(); }

void CheckpointReader::require_complete() const { contents_->require_complete(); }

Weights CheckpointReader::load(at::ScalarType dtype, const std::function<void(double)>& progress) {
  require_complete();
  if (!readable()) contents_->scalar_type_of(*contents_->unreadable.front());  // throws
  contents_->start_progress(progress);
  Weights weights = empty_weights(config());
  for (Source& source : contents_->sources) {
    const at::Tensor tensor = contents_->read_source(source, dtype);
    for (const TensorPlace& part : source.parts) {
      tensor_at(weights, part.name) = contents_->part_of(source, part, tensor);
    }
  }
  contents_->report.sha256 = contents_->hash();
  return weights;
}

}  // namespace phasescope::model
