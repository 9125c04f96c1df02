#include "training/start/lora.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/counter_random.h"
#include "model/checkpoints/tensor_io.h"
#include "training/start/name_pattern.h"

namespace phasescope::training {
namespace {

constexpr std::uint64_t kLoraStream = 9;
constexpr std::string_view kWeight = ".weight";

// "model.layers.0.self_attn.q_proj" of its weight.
std::string module_of(const std::string& name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

}  // namespace

Lora::Lora(const StartSection& start, const model::Decoder& decoder, std::uint64_t seed)
    : rank_(start.lora_rank), alpha_(start.lora_alpha) {
  if (rank_ == 0) return;
  if (alpha_ == 0) alpha_ = 2 * static_cast<double>(rank_);
  const formats::CounterRandom seeds(seed, kLoraStream);
  std::vector<std::string> matrices;
  for (const auto& [name, tensor] :
       model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    if (tensor.dim() != 2) continue;
    matrices.push_back(name);
    if (!matches_any(start.lora, name)) continue;
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seeds.bits(changes_.size()));
    const double bound = 1 / std::sqrt(static_cast<double>(tensor.size(1)));
    Change change{name, tensor.detach(), {}, {}};
    change.a = at::empty({rank_, tensor.size(1)}, at::kFloat).uniform_(-bound, bound, generator);
    change.a = change.a.to(tensor.device());
    change.b = at::zeros({tensor.size(0), rank_}, change.a.options());
    change.a.set_requires_grad(true), change.b.set_requires_grad(true);
    changes_.push_back(std::move(change));
  }
  require_matches(start.lora, matrices, "matrix", "start.lora");
}

bool Lora::changes(const std::string& name) const {
  return std::ranges::any_of(changes_, [&](const Change& one) { return one.name == name; });
}

std::vector<AdamW::Parameter> Lora::parameters() const {
  std::vector<AdamW::Parameter> list;
  for (const Change& one : changes_) {
    list.push_back({one.name + ".lora_A", one.a, true});
    list.push_back({one.name + ".lora_B", one.b, true});
  }
  return list;
}

void Lora::apply(model::Weights& weights) const {
  const double scale = alpha_ / static_cast<double>(rank_ == 0 ? 1 : rank_);
  for (const Change& one : changes_) {
    model::tensor_at(weights, one.name) = one.w + at::mm(one.b, one.a) * scale;
  }
}

model::NamedTensors Lora::tensors() const {
  model::NamedTensors list;
  for (const AdamW::Parameter& one : parameters()) list.emplace_back(one.name, one.value);
  return list;
}

std::string Lora::name_in_adapter(const std::string& name) { return "base_model.model." + name; }

void Lora::write_adapter(formats::FileSystem& fs, const std::filesystem::path& folder,
                         const std::string& base, const model::NamedTensors& whole) const {
  model::NamedTensors tensors;
  for (const auto& [name, tensor] : whole) tensors.emplace_back(name_in_adapter(name), tensor);
  std::set<std::string> modules;
  for (const Change& one : changes_) {
    const std::string module = module_of(one.name);
    modules.insert(module);
    tensors.emplace_back(name_in_adapter(module + ".lora_A.weight"), one.a.detach());
    tensors.emplace_back(name_in_adapter(module + ".lora_B.weight"), one.b.detach());
  }
  model::write_tensors(fs, folder / kAdapterFile, tensors, {{"format", "pt"}});
  const nlohmann::json config = {{"peft_type", "LORA"},
                                 {"base_model_name_or_path", base},
                                 {"r", rank_},
                                 {"lora_alpha", alpha_},
                                 {"lora_dropout", 0.0},
                                 {"bias", "none"},
                                 {"fan_in_fan_out", false},
                                 {"target_modules", modules}};
  formats::write_file_atomically(fs, folder / "adapter_config.json", config.dump(1) + "\n");
}

}  // namespace phasescope::training
