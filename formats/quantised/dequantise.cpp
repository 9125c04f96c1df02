#include "formats/quantised/dequantise.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "formats/error.h"
#include "formats/quantised/quantiser.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

const std::vector<Quantiser>& quantisers() {
  static const std::vector<Quantiser> list = {
      fp8_quantiser(),
      mxfp4_quantiser(),
      gptq_quantiser(),
      awq_quantiser(),
      compressed_tensors_quantiser(),
      bitsandbytes_quantiser(),
  };
  return list;
}

// Null for one that is not known.
const Quantiser* quantiser_named(const std::string& method) {
  const auto found = std::ranges::find(quantisers(), method, &Quantiser::method);
  return found == quantisers().end() ? nullptr : &*found;
}

std::string known_methods() {
  std::string known;
  for (const Quantiser& quantiser : quantisers()) {
    known += (known.empty() ? "" : ", ") + std::string(quantiser.method);
  }
  return "known: " + known;
}

std::string not_known(const std::string& method) {
  return method.empty()
             ? "the weights are quantised, and nothing says how"
             : "the weights are quantised by " + in_quotes(method) + ", which cannot be read";
}

// The package compressed-tensors did not always write it.
std::string method_of(const ConfigReader& reader) {
  return reader.text_or({"quant_method"}, reader.has("config_groups") ? "compressed-tensors" : "");
}

// A checkpoint with some of its tensors decoded.
class DequantisedFile : public TensorFile {
 public:
  DequantisedFile(TensorArchive stored, std::vector<PackedPlace> places)
      : stored_(std::move(stored)) {
    std::set<std::string> used;
    for (const PackedPlace& place : places) used.insert(place.used.begin(), place.used.end());
    for (const TensorEntry& entry : stored_.tensors()) {
      if (used.contains(entry.name)) continue;
      raw_.push_back(entry);
      add(entry, nullptr);
      entries_.back().file = 0;
    }
    for (PackedPlace& place : places) add(entry_of(place), std::move(place.tensor));
    for (std::size_t i = 0; i < entries_.size(); ++i) by_name_.emplace(entries_[i].name, i);
    for (const auto& group : stored_.tied()) {
      const bool all_there = std::all_of(group.begin(), group.end(), [&](const std::string& name) {
        return by_name_.contains(name);
      });
      if (all_there) tied_.push_back(group);
    }
  }

  const std::filesystem::path& path() const override { return stored_.files().front()->path(); }
  std::vector<std::filesystem::path> paths() const override { return stored_.paths(); }
  const std::vector<TensorEntry>& tensors() const override { return entries_; }
  const TensorEntry* find(std::string_view name) const override {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &entries_[it->second];
  }
  const std::map<std::string, std::string>& metadata() const override { return stored_.metadata(); }
  const std::vector<std::vector<std::string>>& tied() const override { return tied_; }
  const std::vector<std::string>& warnings() const override { return stored_.warnings(); }

  void read_part(const TensorEntry& entry, std::uint64_t begin,
                 std::span<std::byte> out) const override {
    check_part(entry, begin, out.size());
    const std::size_t at = by_name_.at(entry.name);
    if (!packed_[at]) return stored_.read_part(raw_[at], begin, out);
    read_packed(*packed_[at], static_cast<std::uint64_t>(entry.element_count()), begin, out);
  }

  void visit(const TensorEntry& entry, const Visit& visit) const override {
    const std::size_t at = by_name_.at(entry.name);
    if (!packed_[at]) return stored_.visit(raw_[at], visit);
    visit_packed(*packed_[at], static_cast<std::uint64_t>(entry.element_count()), visit);
  }

  std::optional<MappedBytes> mapped(const TensorEntry& entry) const override {
    const std::size_t at = by_name_.at(entry.name);
    return packed_[at] ? std::nullopt : stored_.mapped(raw_[at]);
  }

  std::uint64_t whole_bytes(const TensorEntry& entry) const override {
    const auto& packed = packed_[by_name_.at(entry.name)];
    return packed ? packed->step() * sizeof(float) : TensorFile::whole_bytes(entry);
  }

 private:
  static TensorEntry entry_of(const PackedPlace& place) {
    TensorEntry entry;
    entry.name = place.name;
    entry.dtype = DType::f32;
    entry.dtype_name = place.label;
    entry.decoded = true;
    entry.shape = place.shape;
    const auto count = checked_element_count(place.shape);
    if (!count || __builtin_mul_overflow(*count, sizeof(float), &entry.size)) {
      throw bad_input("tensor " + in_quotes(place.name) + " has the shape " +
                      shape_text(place.shape) + ", which is too large");
    }
    return entry;
  }

  void add(TensorEntry entry, std::unique_ptr<PackedTensor> packed) {
    entries_.push_back(std::move(entry));
    packed_.push_back(std::move(packed));
  }

  TensorArchive stored_;
  std::vector<TensorEntry> entries_, raw_;             // raw_ of the first ones, as in stored_
  std::vector<std::unique_ptr<PackedTensor>> packed_;  // null for a plain one
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::vector<std::vector<std::string>> tied_;
};

// The object, under its usual name or the one of older files; null where there is none.
const Json* quantisation_of(const Json& config) {
  if (!config.is_object()) return nullptr;
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

}  // namespace

const std::vector<TensorEntry>& StoredTensors::all() const {
  static const std::vector<TensorEntry> none;
  return archive_ == nullptr ? none : archive_->tensors();
}

std::optional<StoredTensor> StoredTensors::find(const std::string& name) const {
  const TensorEntry* entry = archive_ == nullptr ? nullptr : archive_->find(name);
  if (entry == nullptr) return std::nullopt;
  return StoredTensor(*archive_->files()[entry->file], *entry);
}

StoredTensor StoredTensors::get(const std::string& name, const std::string& for_name) const {
  if (const auto tensor = find(name)) return *tensor;
  throw bad_input("tensor " + in_quotes(for_name) + " cannot be decoded without " +
                      in_quotes(name) + ", which the file does not have",
                  archive_->files().front()->path().string());
}

std::optional<std::string> without_ending(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  return name.substr(0, name.size() - ending.size());
}

TensorArchive dequantised(TensorArchive stored, const Json& config, const std::string& where,
                          std::vector<std::string>& notes) {
  const Json* object = quantisation_of(config);
  if (object == nullptr) return stored;
  ConfigProblems problems;
  const ConfigReader reader(*object, problems, "quantization_config.");
  const std::string method = method_of(reader);
  problems.throw_if_any(where);
  const Quantiser* quantiser = quantiser_named(method);
  if (quantiser == nullptr) {
    throw bad_input(not_known(method), where + ", key quantization_config.quant_method",
                    known_methods());
  }
  std::vector<PackedPlace> places = quantiser->find(StoredTensors(stored), reader);
  problems.throw_if_any(where);
  if (places.empty()) {
    notes.push_back("quantization_config says " + method + ", but no tensor is kept so");
    return stored;
  }
  return TensorArchive::of(std::make_unique<DequantisedFile>(std::move(stored), std::move(places)));
}

std::optional<std::string> refused_quantisation(const Json& config) {
  const Json* object = quantisation_of(config);
  if (object == nullptr) return std::nullopt;
  ConfigProblems problems;
  const ConfigReader reader(*object, problems, "quantization_config.");
  const std::string method = method_of(reader);
  const Quantiser* quantiser = quantiser_named(method);
  if (quantiser == nullptr) return not_known(method) + "; " + known_methods();
  quantiser->find(StoredTensors(), reader);
  if (problems.empty()) return std::nullopt;
  return "the weights are quantised by " + method +
         " in a way that cannot be read: " + problems.list().front();
}

std::map<std::string, std::int64_t> decoded_tensors(const std::vector<TensorEntry>& tensors) {
  std::map<std::string, std::int64_t> counts;
  for (const TensorEntry& entry : tensors) {
    if (entry.decoded) ++counts[entry.dtype_name];
  }
  return counts;
}

std::string decoded_label(const std::map<std::string, std::int64_t>& tensors) {
  std::string label;
  std::size_t left = tensors.size();
  for (const auto& [format, count] : tensors) {
    label += label.empty() ? "from " : left == 1 ? " and " : ", ";
    label += format + " (" + std::to_string(count) + (count == 1 ? " tensor)" : " tensors)");
    --left;
  }
  return label;
}

}  // namespace phasescope::formats
