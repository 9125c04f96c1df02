#include "model/adapter.h"

#include <ATen/ATen.h>

#include <cmath>

#include "formats/error.h"
#include "formats/hf_config.h"
#include "model/tensor_io.h"

namespace phasescope::model {
namespace {

// "base_model.model.model.layers.0.q_proj.lora_A.weight" -> what is changed, and how.
struct AdapterName {
  std::string module, kind;  // "model.layers.0.q_proj"; lora_A, ..., or "" for a whole tensor
  std::string tensor;        // "model.layers.0.q_proj.weight"
};

std::string without(std::string text, const std::string& part) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? text : text.erase(at, part.size());
}

AdapterName split_name(const std::string& full) {
  constexpr std::string_view prefix = "base_model.model.";
  std::string name = full.starts_with(prefix) ? full.substr(prefix.size()) : full;
  name = without(without(name, ".modules_to_save"), ".default");
  for (const char* kind : {"lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B"}) {
    const std::size_t at = name.find("." + std::string(kind));
    if (at == std::string::npos) continue;
    const std::string module = name.substr(0, at);
    return {module, kind, module + ".weight"};
  }
  return {without(name, ".base_layer"), "", without(name, ".base_layer")};
}

void refuse_what_cannot_be_read(const formats::ConfigReader& reader) {
  const std::string type = reader.text_or({"peft_type"}, "LORA");
  if (type != "LORA")
    reader.problem("peft_type", "\"" + type + "\" cannot be read, LORA alone can");
  if (reader.boolean_or({"use_dora"}, false)) {
    reader.problem("use_dora", "adapters with magnitudes of their own cannot be read");
  }
}

// Older adapters are files of torch.save.
std::filesystem::path weights_of(const std::filesystem::path& folder) {
  const std::filesystem::path usual = folder / "adapter_model.safetensors";
  const std::filesystem::path older = folder / "adapter_model.bin";
  std::error_code error;
  const bool only_older =
      !std::filesystem::exists(usual, error) && std::filesystem::exists(older, error);
  return only_older ? older : usual;
}

// The entry of a pattern for a module: its own name, or the end of it; null where there is none.
const formats::Json* entry_for(const formats::Json& pattern, const std::string& module) {
  if (!pattern.is_object()) return nullptr;
  for (const auto& [name, value] : pattern.items()) {
    if (value.is_number() && (module == name || module.ends_with("." + name))) return &value;
  }
  return nullptr;
}

// Whether a pattern names modules by expressions, which are not read.
bool has_expressions(const formats::Json& pattern) {
  if (!pattern.is_object()) return false;
  for (const auto& [name, value] : pattern.items()) {
    if (name.find_first_of("\\^$*+?()[]{}|") != name.npos) return true;
  }
  return false;
}

// The tensor of the base file that the adapter means: file names may lack what stands in front.
const formats::TensorEntry* find_base(const formats::TensorArchive& base, std::string name) {
  while (true) {
    if (const formats::TensorEntry* entry = base.find(name)) return entry;
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) return nullptr;
    name = name.substr(dot + 1);
  }
}

}  // namespace

Adapter Adapter::open(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "adapter_config.json";
  const formats::Json config = formats::json_from_file(file);
  formats::ConfigProblems problems;
  const formats::ConfigReader reader(config, problems);
  Adapter adapter;
  refuse_what_cannot_be_read(reader);
  adapter.alpha_ = reader.number_or({"lora_alpha"}, 8, formats::kPositiveRange);
  adapter.transposed_ = reader.boolean_or({"fan_in_fan_out"}, false);
  const bool by_root = reader.boolean_or({"use_rslora"}, false);
  if (const formats::Json* pattern = reader.raw("alpha_pattern")) adapter.alpha_pattern_ = *pattern;
  if (reader.has("r")) adapter.rank_ = reader.integer_or({"r"}, 8, formats::kCountRange);
  if (const formats::Json* pattern = reader.raw("rank_pattern")) adapter.rank_pattern_ = *pattern;
  problems.throw_if_any(file.string());

  const auto archive = formats::TensorArchive::open(weights_of(folder));
  std::map<std::string, std::int64_t> ranks;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    const AdapterName name = split_name(entry.name);
    const at::Tensor tensor = read_tensor(archive, entry);
    Change& change = adapter.changes_[name.tensor];
    if (name.kind.empty()) {
      change.whole = tensor;
      continue;
    }
    change.embedding = name.kind.starts_with("lora_embedding");
    const bool first = name.kind.ends_with("A");
    (first ? change.a : change.b) = tensor;
    if (!first || tensor.dim() != 2 || tensor.size(0) == 0) continue;
    ranks[name.module] = tensor.size(0);
    const auto rank = static_cast<double>(tensor.size(0));
    change.scale = adapter.alpha_of(name.module) / (by_root ? std::sqrt(rank) : rank);
  }
  adapter.check_ranks(ranks, file.string());
  adapter.notes_.push_back("a LoRA adapter is merged: " + std::to_string(adapter.changes_.size()) +
                           " tensors of the base model are changed");
  return adapter;
}

double Adapter::alpha_of(const std::string& module) const {
  const formats::Json* entry = entry_for(alpha_pattern_, module);
  return entry != nullptr ? entry->get<double>() : alpha_;
}

void Adapter::check_ranks(const std::map<std::string, std::int64_t>& by_module,
                          const std::string& where) const {
  if (!rank_ || has_expressions(rank_pattern_)) return;
  std::string first;
  std::int64_t others = -1;
  for (const auto& [module, rank] : by_module) {
    const formats::Json* entry = entry_for(rank_pattern_, module);
    const std::int64_t said = entry != nullptr ? entry->get<std::int64_t>() : *rank_;
    if (rank == said) continue;
    ++others;
    if (!first.empty()) continue;
    first = std::string(entry != nullptr ? "rank_pattern" : "r") + " says the rank " +
            std::to_string(said) + ", but the matrices of " + module + " have the rank " +
            std::to_string(rank);
  }
  if (first.empty()) return;
  if (others > 0) first += ", and those of " + std::to_string(others) + " more modules differ too";
  throw formats::bad_input(first, where, "the configuration is of another adapter");
}

void Adapter::check(const formats::TensorArchive& base, const std::string& where) {
  formats::ConfigProblems problems;
  std::map<std::string, Change> found;
  for (const auto& [name, change] : changes_) {
    const formats::TensorEntry* entry = find_base(base, name);
    if (entry == nullptr) {
      problems.add(name, "the adapter changes it, but the base model has no such tensor");
      continue;
    }
    const std::vector<std::int64_t>& shape = entry->shape;
    bool fits = change.whole.defined()
                    ? change.whole.sizes() == at::IntArrayRef(shape)
                    : change.a.defined() && change.b.defined() && change.a.dim() == 2 &&
                          change.b.dim() == 2 && change.a.size(0) == change.b.size(1) &&
                          shape.size() == 2;
    if (fits && !change.whole.defined()) {
      const std::int64_t out = change.b.size(0), in = change.a.size(1);
      fits = (shape[0] == out && shape[1] == in) || (shape[0] == in && shape[1] == out);
    }
    if (!fits) problems.add(name, "the adapter's matrices do not fit the base model's");
    found[entry->name] = change;
  }
  problems.throw_if_any(where);
  changes_ = std::move(found);
}

at::Tensor Adapter::delta(const Change& change, at::ScalarType dtype) const {
  return at::matmul(change.b.to(dtype), change.a.to(dtype)) * change.scale;
}

at::Tensor Adapter::merged(const std::string& name, const at::Tensor& tensor) const {
  const auto found = changes_.find(name);
  if (found == changes_.end()) return tensor;
  const Change& change = found->second;
  if (change.whole.defined()) return change.whole.to(tensor.scalar_type());
  const at::Tensor added = delta(change, tensor.scalar_type());
  const bool square = added.size(0) == added.size(1);
  const bool turned = square ? transposed_ || change.embedding : added.sizes() != tensor.sizes();
  return tensor + (turned ? added.t() : added);
}

}  // namespace phasescope::model
