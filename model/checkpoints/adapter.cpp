#include "model/checkpoints/adapter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "formats/error.h"
#include "formats/json_events.h"
#include "formats/tensors/value_counts.h"
#include "formats/text_input.h"
#include "model/checkpoints/tensor_io.h"

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
  if (type != "LORA") {
    reader.problem("peft_type", "\"" + type + "\" cannot be read, LORA alone can");
  }
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

// Far more than any adapter needs: rules are tried in turn for every module.
constexpr std::size_t kMostRules = 10'000, kLongestRule = 2000;
constexpr std::chrono::seconds kTimeOfRules{10};

// The keys of one object of a file in the file's order, which parsed JSON no longer has.
class KeyOrder : public formats::JsonEvents {
 public:
  KeyOrder(const std::string& where, std::string object)
      : JsonEvents(where, formats::JsonRules{}.max_depth), object_(std::move(object)) {}

  bool key(std::string& name) override {
    if (depth() == 1) inside_ = name == object_;
    const bool one_more = depth() == 2 && inside_ && keys_.size() <= kMostRules;
    if (one_more && std::ranges::find(keys_, name) == keys_.end()) keys_.push_back(name);
    return true;
  }
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::string object_;
  std::vector<std::string> keys_;
  bool inside_ = false;
};

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
  adapter.alphas_ = Rules(reader, "alpha_pattern", file);
  if (reader.has("r")) adapter.rank_ = reader.integer_or({"r"}, 8, formats::kCountRange);
  adapter.ranks_ = Rules(reader, "rank_pattern", file);
  problems.throw_if_any(file.string());

  std::map<std::string, std::int64_t> ranks;
  adapter.read_tensors(formats::TensorArchive::open(weights_of(folder)), by_root, ranks);
  adapter.check_ranks(ranks, file.string());
  adapter.notes_.push_back("a LoRA adapter is merged: " + std::to_string(adapter.changes_.size()) +
                           " tensors of the base model are changed");
  return adapter;
}

Adapter::Rules::Rules(const formats::ConfigReader& reader, const std::string& key,
                      const std::filesystem::path& file)
    : where_(file.string() + ", " + key) {
  const auto section = reader.section(key);
  if (!section) return;
  KeyOrder order(file.string(), key);
  order.parse(formats::read_text_file(file));
  if (order.keys().size() > kMostRules) {
    reader.problem(key, "has more than " + std::to_string(kMostRules) + " entries");
    return;
  }
  for (const std::string& name : order.keys()) {
    if (!section->has(name)) section->problem(name, "must be a number, but is null");
    const double value = section->number({name}, formats::kPositiveRange).value_or(1);
    if (name.size() > kLongestRule) {
      section->problem(name, "is longer than " + std::to_string(kLongestRule) + " bytes");
    } else {
      list_.emplace_back(formats::Pattern::regex("^(.*\\.)?(" + name + ")$", where_), value);
    }
  }
}

std::optional<double> Adapter::Rules::find(const std::string& module) {
  const auto begin = std::chrono::steady_clock::now();
  const auto found = std::ranges::find_if(list_, [&](const auto& rule) {
    const auto parts = rule.first.parts(module);
    return parts.size() == 1 && parts[0].matches;
  });
  spent_ += std::chrono::steady_clock::now() - begin;
  if (spent_ > kTimeOfRules) {
    throw formats::bad_input("the regular expressions take too long to match", where_);
  }
  return found == list_.end() ? std::nullopt : std::optional(found->second);
}

void Adapter::read_tensors(const formats::TensorArchive& archive, bool by_root,
                           std::map<std::string, std::int64_t>& ranks) {
  for (const formats::TensorEntry& entry : archive.tensors()) {
    const AdapterName name = split_name(entry.name);
    const at::Tensor tensor = read_tensor(archive, entry);
    stored_.push_back({entry.name, entry.dtype_name,
                       std::string(formats::count_values(archive, entry).flag()), entry.shape});
    Change& change = changes_[name.tensor];
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
    const double alpha = alphas_.find(name.module).value_or(alpha_);
    change.scale = alpha / (by_root ? std::sqrt(rank) : rank);
  }
}

void Adapter::check_ranks(const std::map<std::string, std::int64_t>& by_module,
                          const std::string& where) {
  if (!rank_) return;
  std::string first;
  std::int64_t others = -1;
  for (const auto& [module, rank] : by_module) {
    const auto rule = ranks_.find(module);
    const std::int64_t said = rule ? static_cast<std::int64_t>(*rule) : *rank_;
    if (rank == said) continue;
    ++others;
    if (!first.empty()) continue;
    first = std::string(rule ? "rank_pattern" : "r") + " says the rank " + std::to_string(said) +
            ", but the matrices of " + module + " have the rank " + std::to_string(rank);
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

at::Tensor Adapter::merged(const std::string& name, const at::Tensor& tensor,
                           at::ScalarType dtype) const {
  const auto found = changes_.find(name);
  if (found == changes_.end()) return tensor.to(dtype);
  const Change& change = found->second;
  if (change.whole.defined()) return change.whole.to(dtype);
  const at::ScalarType computed = at::promote_types(dtype, at::kFloat);
  const at::Tensor added = delta(change, computed);
  const bool square = added.size(0) == added.size(1);
  const bool turned = square ? transposed_ || change.embedding : added.sizes() != tensor.sizes();
  return (tensor.to(computed) + (turned ? added.t() : added)).to(dtype);
}

}  // namespace phasescope::model
