#include "model/checkpoints/checkpoint_reader.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/hf_config.h"  // ConfigProblems
#include "formats/json.h"
#include "formats/model_tensors.h"
#include "formats/quantised/dequantise.h"
#include "formats/system_memory.h"
#include "formats/tensors/value_counts.h"
#include "formats/utf8.h"
#include "model/checkpoints/adapter.h"
#include "model/checkpoints/hashing.h"
#include "model/checkpoints/tensor_io.h"
#include "model/families/family.h"
#include "model/families/phasescope.h"

namespace phasescope::model {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{16} << 20;  // read between two questions
constexpr std::uint64_t kLeastMapped = std::uint64_t{1} << 20;  // smaller tensors are copied
// The share of the free memory that copies may take; the rest is for what is computed with them.
constexpr double kShareOfCopies = 0.75;

// "model.layers.*.mlp.experts.*.up_proj" for every "model.layers.N.mlp.experts.M.up_proj".
std::string without_numbers(const std::string& name) {
  static const std::regex number("\\.[0-9]+(?=\\.)");
  return std::regex_replace(name, number, ".*");
}

void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// What becomes of a tensor of the file: a copy in the dtype computed in, a view of the mapped file
// that has it already, or a view in the dtype of the file, which is converted when its layer runs.
enum class Form { copy, view, stored };

// A tensor of the file and what it stands for.
struct Source {
  const formats::TensorEntry* entry;
  std::vector<TensorPlace> parts;
  bool looked_at = false;  // its values are in the report
  Form form = Form::copy;
  std::optional<formats::MappedBytes> mapped = {};  // of what may be a view
};

// "13.5 GB", "210.0 MB"
std::string size_text(std::int64_t bytes) {
  char text[32];
  const auto size = static_cast<double>(bytes);
  std::snprintf(text, sizeof text, size < 1e9 ? "%.1f MB" : "%.1f GB",
                size / (size < 1e9 ? 1e6 : 1e9));
  return text;
}

bool in_a_layer(const TensorPlace& place) {
  const bool layer =
      place.name.starts_with("model.layers.") || place.name.starts_with("model.encoder.layers.");
  return layer && place.name.find(".encoding.") == std::string::npos;
}

}  // namespace

struct CheckpointReader::Contents {
  Contents(const std::string& path_or_name, std::function<bool()> stop)
      : cancelled(std::move(stop)),
        files(find_model_files(path_or_name)),
        opened(formats::open_model_tensors(files.config, files.weights, {.cancelled = cancelled})) {
    if (!files.adapter.empty()) adapter = Adapter::open(files.adapter);
    report.name = path_or_name;
    report.path = (adapter ? files.adapter : files.weights).string();
    report.bundled = files.bundled;
    translation =
        translate({opened.config, archive.tensors(), files.config.string()}, report.family);
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
    if (report.family != phasescope_family().key) {
      report.as_library = std::make_shared<const ModelConfig>(translation.config);
    }
    report.weights_from = formats::decoded_label(formats::decoded_tensors(archive.tensors()));
    report.quirks = opened.quirks;
    append(report.quirks, translation.quirks);
    report.warnings = files.notes;
    append(report.warnings, opened.warnings);
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
        ++ignored[without_numbers(entry.name) + " " +
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
      const bool frequencies =
          entry.name.ends_with("rotary_emb.inv_freq") || entry.name.ends_with("rotary.inv_freq");
      if (!frequencies || !is_weights(entry) || entry.shape.size() != 1 ||
          entry.shape[0] > kMostPlanes) {
        continue;
      }
      const at::Tensor stored = at::empty(entry.shape, scalar_type(entry.dtype));
      archive.read_part(entry, 0, {static_cast<std::byte*>(stored.mutable_data_ptr()), entry.size});
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
    if (!progress || total == 0) return;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - began;
    progress({done, total, since.count()});
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
    read_in_pieces(entry, bytes);
    if (source.looked_at) return tensor;
    source.looked_at = true;
    flag(entry, formats::count_values(entry.dtype, bytes));
    return tensor;
  }

  // By all threads, a piece each, which ends where the file's own units end.
  void read_in_pieces(const formats::TensorEntry& entry, std::span<std::byte> bytes) {
    const std::uint64_t whole = archive.whole_bytes(entry);
    const std::uint64_t piece = (kPieceBytes + whole - 1) / whole * whole;
    const std::uint64_t batch = piece * static_cast<std::uint64_t>(at::get_num_threads());
    for (std::uint64_t begin = 0; begin < entry.size; begin += batch) {
      const auto part = bytes.subspan(begin, std::min(batch, entry.size - begin));
      const auto pieces = static_cast<std::int64_t>((part.size() + piece - 1) / piece);
      at::parallel_for(0, pieces, 1, [&](std::int64_t from, std::int64_t to) {
        for (auto n = static_cast<std::uint64_t>(from); n < static_cast<std::uint64_t>(to); ++n) {
          const auto one = part.subspan(n * piece, std::min(piece, part.size() - n * piece));
          archive.read_part(entry, begin + n * piece, one);
        }
      });
      advance(part.size());
    }
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

  // A source's tensor in `dtype`, with what an adapter adds.
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
    std::vector<std::filesystem::path> paths = archive.paths();
    if (!adapter) return paths;
    for (const char* name :
         {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}) {
      const std::filesystem::path path = files.adapter / name;
      if (formats::is_file(path)) paths.push_back(path);
    }
    return paths;
  }

  // ---- Memory ----

  void choose_forms(at::ScalarType dtype, const WeightsMemory& memory) {
    std::uint64_t bytes = 0;
    std::error_code error;
    for (const std::filesystem::path& path : archive.paths()) {
      bytes += std::filesystem::file_size(path, error);
    }
    // What an adapter adds is no part of the file.
    if (!adapter && bytes >= memory.mapped_from) find_views(dtype);
    if (memory.free_bytes > 0) choose_copies(dtype, memory.free_bytes);
    // A mapping takes addresses, of which there may be few, until nobody holds it.
    for (Source& source : sources) {
      if (source.form == Form::copy) source.mapped.reset();
    }
  }

  // Where copies of all would leave too little of `free_bytes`, tensors of layers stay as stored.
  void choose_copies(at::ScalarType dtype, std::int64_t free_bytes) {
    const auto copies_leave_enough = [&] {
      const auto most = kShareOfCopies * static_cast<double>(free_beside_views(free_bytes));
      return static_cast<double>(bytes_of(Form::copy, dtype)) <= most;
    };
    if (copies_leave_enough()) return;
    for (Source& source : sources) {
      if (!source.mapped || source.form != Form::copy) continue;
      if (std::ranges::all_of(source.parts, in_a_layer)) source.form = Form::stored;
    }
    const std::int64_t needed = bytes_of(Form::copy, dtype), left = free_beside_views(free_bytes);
    if (needed <= left) return;
    throw formats::Error("out_of_memory",
                         "the weights take " + size_text(needed) + " of memory in " +
                             name_of_dtype(dtype) + ", and " + size_text(left) + " are free",
                         files.weights.string(),
                         at::elementSize(dtype) > 2 ? "compute in bf16, which takes half of it"
                                                    : "close other models and programs");
  }

  // `free_bytes`, as it was before files were mapped: where they stay so, a limit on addresses
  // leaves less.
  std::int64_t free_beside_views(std::int64_t free_bytes) const {
    const auto in_file = [](const Source& source) { return source.form != Form::copy; };
    if (std::ranges::none_of(sources, in_file)) return free_bytes;
    const std::int64_t now = formats::available_bytes();
    return now > 0 ? std::min(free_bytes, now) : free_bytes;
  }

  void find_views(at::ScalarType dtype) {
    for (Source& source : sources) {
      const formats::TensorEntry& entry = *source.entry;
      if (entry.size < kLeastMapped || entry.decoded || !is_weights(entry)) continue;
      source.mapped = archive.mapped(entry);
      if (source.mapped && scalar_type(entry.dtype) == dtype) source.form = Form::view;
    }
  }

  std::int64_t bytes_of(Form form, at::ScalarType dtype) const {
    std::int64_t elements = 0;
    for (const Source& source : sources) {
      if (source.form == form) elements += source.entry->element_count();
    }
    return elements * static_cast<std::int64_t>(at::elementSize(dtype));
  }

  // In the file's dtype and shape; alive as long as any tensor made of it.
  static at::Tensor view_of(const Source& source) {
    auto* const bytes = const_cast<std::byte*>(source.mapped->bytes.data());
    return at::from_blob(
        bytes, source.entry->shape, [held = source.mapped->mapping](void*) {},
        at::TensorOptions(scalar_type(source.entry->dtype)));
  }

  // What is no copy is counted as its file is hashed, by the number that it has there.
  std::map<std::size_t, formats::CountsByPiece> counts_of_views() const {
    std::map<std::size_t, std::vector<const formats::TensorEntry*>> entries;
    const std::vector<std::filesystem::path> paths = hashed_files();
    for (const Source& source : sources) {
      if (source.form == Form::copy || source.looked_at) continue;
      const auto file = std::ranges::find(paths, source.mapped->mapping->path());
      entries[static_cast<std::size_t>(file - paths.begin())].push_back(source.entry);
    }
    std::map<std::size_t, formats::CountsByPiece> counts;
    for (auto& [file, list] : entries) counts.emplace(file, std::move(list));
    return counts;
  }

  void flag_views(const std::map<std::size_t, formats::CountsByPiece>& counts) {
    for (const auto& [file, of_file] : counts) {
      for (const auto& [entry, values] : of_file.counts()) flag(*entry, values);
    }
    for (Source& source : sources) source.looked_at = true;
  }

  // What is in the mapped files, for the report, and who must be careful with it.
  void note_views(at::ScalarType dtype, Weights& weights) {
    std::int64_t bytes = 0;
    bool stored = false;
    for (const Source& source : sources) {
      if (source.form == Form::copy) continue;
      bytes += static_cast<std::int64_t>(source.entry->size);
      stored = stored || source.form == Form::stored;
      const auto& mapping = source.mapped->mapping;
      if (std::ranges::find(weights.files, mapping) == weights.files.end()) {
        weights.files.push_back(mapping);
      }
    }
    if (bytes == 0) return;
    report.mapped_bytes = bytes_of(Form::view, dtype) + bytes_of(Form::stored, dtype);
    for (StackWeights* stack : {static_cast<StackWeights*>(&weights), &weights.encoder}) {
      for (LayerWeights& layer : stack->layers) layer.as_stored = stored;
    }
    report.mapped_words =
        size_text(bytes) + " of the weights stay in the mapped file, " +
        size_text(bytes_of(Form::copy, dtype)) + " are copies in memory" +
        (stored ? "; each layer is converted to " + name_of_dtype(dtype) +
                      " when it runs, as copies of all would not fit into the free memory"
                : "");
    report.quirks.push_back(report.mapped_words);
  }

  // The hash of the one file, or of the hashes of several.
  std::string hash(Hashing& hashing) {
    return hashing.finish([this](std::uint64_t bytes) { advance(bytes); });
  }

  void start_progress(const std::function<void(const LoadProgress&)>& to) {
    progress = to;
    began = std::chrono::steady_clock::now();
    done = total = 0;
    for (const Source& source : sources) {
      if (source.form == Form::copy) total += source.entry->size;
    }
    std::error_code error;
    for (const std::filesystem::path& path : hashed_files()) {
      total += std::filesystem::file_size(path, error);
    }
  }

  std::function<bool()> cancelled;
  ModelFiles files;
  formats::ModelTensors opened;
  const formats::TensorArchive& archive = opened.archive;
  std::optional<Adapter> adapter;
  Translation translation;
  std::unique_ptr<Encoding> encoding;
  LoadReport report;
  std::vector<std::string> order;  // canonical names
  std::map<std::string, TensorSpec> specs;
  std::vector<Source> sources;
  std::map<std::string, std::size_t> by_name;           // canonical name to its source
  std::vector<const formats::TensorEntry*> unreadable;  // of those that are needed
  std::function<void(const LoadProgress&)> progress;
  std::chrono::steady_clock::time_point began;
  std::uint64_t done = 0, total = 0;  // bytes
};

CheckpointReader::CheckpointReader(const std::string& path_or_name, std::function<bool()> cancelled)
    : contents_(std::make_unique<Contents>(path_or_name, std::move(cancelled))) {}
CheckpointReader::~CheckpointReader() = default;

const ModelFiles& CheckpointReader::files() const { return contents_->files; }
const formats::TensorArchive& CheckpointReader::archive() const { return contents_->archive; }
const Json& CheckpointReader::gguf_keys() const { return contents_->opened.gguf_keys; }
std::string CheckpointReader::hash() {
  Hashing hashing(contents_->hashed_files());
  return contents_->hash(hashing);
}
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

NamedTensors CheckpointReader::parts(const std::string& name_in_file,
                                     const at::Tensor& tensor) const {
  NamedTensors parts;
  const auto source = std::ranges::find(contents_->sources, name_in_file,
                                        [](const Source& one) { return one.entry->name; });
  if (source == contents_->sources.end()) return parts;
  for (const TensorPlace& part : source->parts) {
    parts.emplace_back(part.name, contents_->part_of(*source, part, tensor));
  }
  return parts;
}

bool CheckpointReader::readable() const {
  return contents_->unreadable.empty() && contents_->report.missing.empty();
}

void CheckpointReader::look_at_values() { contents_->look_at_values(); }

void CheckpointReader::require_complete() const { contents_->require_complete(); }

Weights CheckpointReader::load(at::ScalarType dtype,
                               const std::function<void(const LoadProgress&)>& progress,
                               const WeightsMemory& memory) {
  require_complete();
  if (!readable()) contents_->scalar_type_of(*contents_->unreadable.front());  // throws
  contents_->choose_forms(dtype, memory);
  contents_->start_progress(progress);
  auto counts = contents_->counts_of_views();
  const auto count = [&](std::size_t file, std::uint64_t begin, std::span<const std::byte> piece) {
    const auto of_file = counts.find(file);
    if (of_file != counts.end()) of_file->second.add(begin, piece);
  };
  // Beside the reading: the disk is read once.
  Hashing hashing(contents_->hashed_files(), counts.empty() ? Hashing::Look() : count);
  Weights weights = empty_weights(config());
  for (Source& source : contents_->sources) {
    const at::Tensor tensor = source.form == Form::copy ? contents_->read_source(source, dtype)
                                                        : Contents::view_of(source);
    for (const TensorPlace& part : source.parts) {
      tensor_at(weights, part.name) = contents_->part_of(source, part, tensor);
    }
  }
  contents_->note_views(dtype, weights);
  contents_->report.sha256 = contents_->hash(hashing);
  contents_->flag_views(counts);
  check_unchanged(weights);
  return weights;
}

}  // namespace phasescope::model
