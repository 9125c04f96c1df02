#include "model/checkpoints/import_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <tuple>

#include "formats/error.h"
#include "formats/tensors/npy.h"
#include "formats/tensors/safetensors.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::model {

namespace {

// A row of maps in 16 bits sums to 1 within some hundredths.
constexpr double kRowTolerance = 0.05;

// Layers by number, of each kind of tensor: attn, q, k.
using ByKind = std::map<std::string, std::map<std::int64_t, at::Tensor>>;

std::string shape_text(const at::Tensor& x) {
  std::string text = "(";
  for (const std::int64_t n : x.sizes()) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + ")";
}

at::Tensor npy_tensor(const std::filesystem::path& path) {
  const formats::NpyFile file(path);
  const formats::NpyHeader& header = file.header();
  std::vector<std::int64_t> shape = header.shape;
  if (header.fortran_order) std::reverse(shape.begin(), shape.end());
  at::Tensor tensor = at::empty(shape, at::TensorOptions(scalar_type(header.dtype)));
  file.read({static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
  if (!header.fortran_order) return tensor;
  std::vector<std::int64_t> turned;
  for (std::int64_t n = tensor.dim(); n-- > 0;) turned.push_back(n);
  return tensor.permute(turned);
}

// (heads, N, ..) of every layer in a tensor; `layers` says how many there are of one number.
std::vector<at::Tensor> layers_of(at::Tensor x, const std::string& name) {
  if (!at::isFloatingType(x.scalar_type())) x = x.to(at::kFloat);
  if (x.dim() == 5 && x.size(1) == 1) x = x.squeeze(1);  // (layers, 1 text, heads, ..)
  if (x.dim() == 2) x = x.unsqueeze(0);
  if (x.dim() == 3) x = x.unsqueeze(0);
  if (x.dim() != 4 || x.numel() == 0) {
    throw formats::bad_input(name + " has the shape " + shape_text(x) +
                             "; maps are (layers, heads, N, N), queries and keys (layers, heads, "
                             "N, d), with less before N where there is one");
  }
  std::vector<at::Tensor> layers;
  for (std::int64_t n = 0; n < x.size(0); ++n) layers.push_back(x.select(0, n));
  return layers;
}

std::string kind_named(const std::string& name) {
  static const std::map<std::string, std::string> kinds = {
      {"attn", "attn"}, {"attention", "attn"}, {"attentions", "attn"},
      {"map", "attn"},  {"maps", "attn"},      {"weights", "attn"},
      {"q", "q"},       {"query", "q"},        {"queries", "q"},
      {"k", "k"},       {"key", "k"},          {"keys", "k"},
      {"v", "v"},       {"value", "v"},        {"values", "v"}};
  const auto found = kinds.find(name);
  return found == kinds.end() ? "" : found->second;
}

void put(ByKind& all, const std::string& kind, std::optional<std::int64_t> layer,
         const at::Tensor& x, const std::string& name) {
  const std::vector<at::Tensor> layers = layers_of(x, name);
  if (layer && layers.size() > 1) {
    throw formats::bad_input(name + " holds " + std::to_string(layers.size()) +
                             " layers where its name says one");
  }
  std::int64_t number = layer ? *layer : static_cast<std::int64_t>(all[kind].size());
  for (const at::Tensor& one : layers) all[kind][number++] = one;
}

void read_safetensors(const std::filesystem::path& path, ByKind& all) {
  static const std::regex numbered("([a-z]+)\\.([0-9]{1,6})(\\.rotated)?");
  const auto file = formats::SafetensorsFile::open(path);
  bool rotated = false;
  for (const formats::TensorEntry& entry : file.tensors()) {
    rotated = rotated || entry.name.ends_with(".rotated");
  }
  for (const formats::TensorEntry& entry : file.tensors()) {
    std::smatch parts;
    const bool with_number = std::regex_match(entry.name, parts, numbered);
    const std::string kind = kind_named(with_number ? parts[1].str() : entry.name);
    if (kind.empty()) continue;
    // Scores are made of what was rotated, where both are there.
    if (rotated && (kind == "q" || kind == "k") && !(with_number && parts[3].matched)) continue;
    std::optional<std::int64_t> layer;
    if (with_number) layer = std::stoll(parts[2]);
    put(all, kind, layer, read_tensor(file, entry), path.string() + ": " + entry.name);
  }
}

// What a .npy file holds: as it is called ("layer3_q.npy"), or as was said.
std::string kind_of_file(const std::filesystem::path& path, const std::string& as) {
  static const std::regex words("[a-z]+");
  const std::string name = path.stem().string();
  std::string kind;
  for (std::sregex_iterator it(name.begin(), name.end(), words), end; it != end; ++it) {
    const std::string here = kind_named(it->str());
    if (!here.empty()) kind = here;
  }
  if (kind.empty() && as != "qk") return "attn";
  if (kind.empty()) {
    throw formats::bad_input("a file of queries or keys has q or k in its name", path.string());
  }
  return kind;
}

ByKind read_all(const std::vector<std::filesystem::path>& files, const std::string& as) {
  ByKind all;
  for (const std::filesystem::path& path : files) {
    if (path.extension() == ".npy") {
      put(all, kind_of_file(path, as), {}, npy_tensor(path), path.string());
    } else if (path.extension() == ".safetensors") {
      read_safetensors(path, all);
    } else {
      throw formats::bad_input(".npy and .safetensors files are imported", path.string());
    }
  }
  return all;
}

// The layers in their order, all of one shape.
std::vector<at::Tensor> ordered(const ByKind& all, const std::string& kind) {
  const auto found = all.find(kind);
  if (found == all.end()) {
    throw formats::bad_input("there is no tensor called " + kind, "",
                             "maps are called attn, attn.0, ...; queries and keys q and k");
  }
  std::vector<at::Tensor> layers;
  for (const auto& [number, layer] : found->second) {
    if (!layers.empty() && layer.sizes() != layers[0].sizes()) {
      throw formats::bad_input(kind + " of layer " + std::to_string(number) + " has the shape " +
                               shape_text(layer) + ", the first one " + shape_text(layers[0]));
    }
    if (!layer.isfinite().all().item<bool>()) {
      throw formats::bad_input(kind + " of layer " + std::to_string(number) +
                               " holds a NaN or an infinity");
    }
    layers.push_back(layer.to(at::kFloat));
  }
  return layers;
}

void check_map(const at::Tensor& map, std::size_t layer) {
  const std::string name = "the map of layer " + std::to_string(layer);
  if (map.size(1) != map.size(2)) {
    throw formats::bad_input(name + " has the shape " + shape_text(map) +
                             ", and a map has as many keys as queries");
  }
  if (map.min().item<double>() < 0) throw formats::bad_input(name + " has a weight below 0");
  const at::Tensor off = (map.sum(-1, false, at::kDouble) - 1).abs();
  if (off.max().item<double>() <= kRowTolerance) return;
  const std::int64_t worst = off.argmax().item<std::int64_t>();
  throw formats::bad_input(
      name + " does not sum to 1 in head " + std::to_string(worst / map.size(1)) + ", row " +
      std::to_string(worst % map.size(1)) + ": " +
      std::to_string(map.sum(-1, false, at::kDouble).flatten()[worst].item<double>()));
}

bool any_later(const std::vector<at::Tensor>& maps) {
  return std::ranges::any_of(
      maps, [](const at::Tensor& map) { return map.triu(1).max().item<double>() > 0; });
}

// Nothing but the encoding's tensors means anything.
ModelConfig import_config(const at::Tensor& first, std::size_t layers) {
  ModelConfig config;
  config.layers = static_cast<std::int64_t>(layers);
  config.heads = config.kv_heads = first.size(0);
  config.width = 8, config.ffn_width = 1, config.vocab_size = 256, config.head_dim = 2;
  config.context = first.size(1);
  config.head.present = false;
  config.note = "imported: its attention was computed elsewhere, and it has nothing else";
  return config;
}

void write(formats::FileSystem& fs, const std::filesystem::path& folder, const ModelConfig& config,
           const std::vector<Parameters>& layers) {
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  Weights weights = init_weights(config, *encoding, 1);
  for (auto [name, tensor] : named_tensors(config, *encoding, weights)) tensor.zero_();
  for (std::size_t n = 0; n < layers.size(); ++n) weights.layers[n].encoding = layers[n];
  std::filesystem::create_directories(folder);
  save_model(fs, folder, config, *encoding, weights);
}

Imported import_maps(formats::FileSystem& fs, const ByKind& all,
                     const std::filesystem::path& folder, const ImportOptions& options) {
  const std::vector<at::Tensor> maps = ordered(all, "attn");
  std::vector<Parameters> layers;
  for (std::size_t n = 0; n < maps.size(); ++n) {
    check_map(maps[n], n);
    layers.push_back({{"map", maps[n]}});
  }
  Imported out{import_config(maps[0], maps.size()), {}};
  const bool later = any_later(maps);
  if (later && options.causal == "yes") {
    throw formats::bad_input("some weight lies on a later key, so the maps are not causal",
                             "causal");
  }
  out.config.attention.causal = options.causal == "yes" || (options.causal == "auto" && !later);
  out.config.encoding = {"imported", {{"tensors", "maps"}, {"tokens", maps[0].size(1)}}};
  write(fs, folder, out.config, layers);
  return out;
}

Imported import_products(formats::FileSystem& fs, const ByKind& all,
                         const std::filesystem::path& folder, const ImportOptions& options) {
  const std::vector<at::Tensor> q = ordered(all, "q"), k = ordered(all, "k");
  const bool fits = q.size() == k.size() && q[0].size(1) == k[0].size(1) &&
                    q[0].size(2) == k[0].size(2) && q[0].size(0) % k[0].size(0) == 0;
  if (!fits) {
    throw formats::bad_input("queries of " + std::to_string(q.size()) + " layers " +
                             shape_text(q[0]) + " and keys of " + std::to_string(k.size()) +
                             " layers " + shape_text(k[0]) + " do not fit");
  }
  std::vector<Parameters> layers;
  for (std::size_t n = 0; n < q.size(); ++n) layers.push_back({{"q", q[n]}, {"k", k[n]}});
  Imported out{import_config(q[0], q.size()), {}};
  out.config.kv_heads = k[0].size(0), out.config.head_dim = q[0].size(2);
  out.config.attention.scale = options.scale;
  out.config.attention.causal = options.causal != "no";
  out.config.encoding = {"imported", {{"tensors", "qk"}, {"tokens", q[0].size(1)}}};
  if (options.causal == "auto") out.notes.push_back("taken to be causal; --causal no says not");
  if (all.contains("v")) out.notes.push_back("v was left out: maps and scores have no part of it");
  write(fs, folder, out.config, layers);
  return out;
}

}  // namespace

Imported import_tensors(formats::FileSystem& fs, const std::vector<std::filesystem::path>& files,
                        const std::filesystem::path& folder, const ImportOptions& options) {
  const at::NoGradGuard no_grad;
  const ByKind all = read_all(files, options.as);
  const bool products = options.as == "qk" || (options.as == "auto" && !all.contains("attn"));
  return products ? import_products(fs, all, folder, options)
                  : import_maps(fs, all, folder, options);
}

}  // namespace phasescope::model
