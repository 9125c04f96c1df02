#include "model/checkpoints/import_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <regex>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/tensors/npy.h"
#include "formats/tensors/safetensors.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::model {

namespace {

// A row of maps in 16 bits sums to 1 within some hundredths.
constexpr double kRowTolerance = 0.05;

// Layers by number, of each kind of tensor: attn, q, k.
using ByNumber = std::map<std::int64_t, at::Tensor>;
using ByKind = std::map<std::string, ByNumber>;

// What was read, and what has to be said of it.
struct Read {
  ByKind kinds;
  std::vector<std::string> notes;

  void note(const std::string& line) {
    if (std::ranges::find(notes, line) == notes.end()) notes.push_back(line);
  }
};

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

constexpr const char* kNoNumbers =
    "names without layer numbers are layers in the order in which they were given";

void put_one(Read& read, const std::string& kind, std::int64_t number, const at::Tensor& x,
             const std::string& name) {
  if (read.kinds[kind].emplace(number, x).second) return;
  throw formats::bad_input(name + " is layer " + std::to_string(number) + " of " + kind +
                           ", and there is one already");
}

void put(Read& read, const std::string& kind, std::optional<std::int64_t> layer,
         const at::Tensor& x, const std::string& name) {
  const std::vector<at::Tensor> layers = layers_of(x, name);
  if (layer && layers.size() > 1) {
    throw formats::bad_input(name + " holds " + std::to_string(layers.size()) +
                             " layers where its name says one");
  }
  const ByNumber& there = read.kinds[kind];
  if (!layer && !there.empty()) read.note(kNoNumbers);
  std::int64_t number = layer ? *layer : there.empty() ? 0 : there.rbegin()->first + 1;
  for (const at::Tensor& one : layers) put_one(read, kind, number++, one, name);
}

void read_safetensors(const std::filesystem::path& path, Read& read) {
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
    put(read, kind, layer, read_tensor(file, entry), path.string() + ": " + entry.name);
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

// ---- Layers of .npy files -----------------------------------------------------------------------

using Paths = std::vector<std::filesystem::path>;
using Numbers = std::vector<std::optional<std::int64_t>>;  // one a file, none where it has none

// "3" of "layer3_q", "block-03", "L3.attn", "layers.3.k".
std::optional<std::int64_t> number_behind_a_word(const std::string& name) {
  static const std::regex form("(?:^|[^a-zA-Z])(?:[lL]ayers?|[bB]locks?|[lL])[-_.]?([0-9]{1,6})");
  std::smatch parts;
  if (!std::regex_search(name, parts, form)) return {};
  return std::stoll(parts[1].str());
}

// A name with its numbers taken out of it.
struct Pattern {
  std::string words;
  std::vector<std::int64_t> numbers;
};
Pattern pattern_of(const std::string& name) {
  static const std::regex digits("[0-9]{1,9}");
  Pattern pattern{std::regex_replace(name, digits, "#"), {}};
  for (std::sregex_iterator it(name.begin(), name.end(), digits), end; it != end; ++it) {
    pattern.numbers.push_back(std::stoll(it->str()));
  }
  return pattern;
}

// The one number by which names that are the same otherwise differ; all none where there is no such
// number.
Numbers numbers_that_differ(const Paths& files) {
  std::vector<Pattern> patterns;
  for (const std::filesystem::path& path : files) {
    patterns.push_back(pattern_of(path.stem().string()));
    if (patterns.back().words != patterns.front().words) return Numbers(files.size());
  }
  std::optional<std::size_t> place;
  for (std::size_t n = 0; n < patterns.front().numbers.size(); ++n) {
    const auto same = [&](const Pattern& one) {
      return one.numbers[n] == patterns.front().numbers[n];
    };
    if (std::ranges::all_of(patterns, same)) continue;
    if (place) return Numbers(files.size());
    place = n;
  }
  if (!place) return Numbers(files.size());
  Numbers numbers;
  for (const Pattern& pattern : patterns) numbers.emplace_back(pattern.numbers[*place]);
  return numbers;
}

// The layers that the names of files of one kind say.
Numbers layer_numbers(const Paths& files) {
  Numbers numbers;
  for (const std::filesystem::path& path : files) {
    numbers.push_back(number_behind_a_word(path.stem().string()));
  }
  const auto silent = [](const auto& number) { return !number.has_value(); };
  if (std::ranges::all_of(numbers, silent)) return numbers_that_differ(files);
  if (std::ranges::none_of(numbers, silent)) return numbers;
  const auto without = std::ranges::find_if(numbers, silent) - numbers.begin();
  throw formats::bad_input("the names of other files say their layers, and this one's does not",
                           files[static_cast<std::size_t>(without)].string());
}

void read_npy(const std::string& kind, const Paths& files, Read& read) {
  std::vector<at::Tensor> tensors;
  bool single = true;  // each file is one layer
  for (const std::filesystem::path& path : files) {
    tensors.push_back(npy_tensor(path));
    single = single && layers_of(tensors.back(), path.string()).size() == 1;
  }
  const Numbers numbers = single ? layer_numbers(files) : Numbers(files.size());
  for (std::size_t n = 0; n < files.size(); ++n) {
    put(read, kind, numbers[n], tensors[n], files[n].string());
  }
}

Read read_all(const Paths& files, const std::string& as) {
  Read read;
  std::map<std::string, Paths> arrays;  // .npy files by kind
  for (const std::filesystem::path& path : files) {
    if (path.extension() == ".npy") {
      arrays[kind_of_file(path, as)].push_back(path);
    } else if (path.extension() == ".safetensors") {
      read_safetensors(path, read);
    } else {
      throw formats::bad_input(".npy and .safetensors files are imported", path.string());
    }
  }
  for (const auto& [kind, paths] : arrays) read_npy(kind, paths, read);
  return read;
}

// ---- The model ----------------------------------------------------------------------------------

std::string list_of(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t kMostNamed = 8;
  std::string text;
  for (std::size_t n = 0; n < std::min(numbers.size(), kMostNamed); ++n) {
    text += (n > 0 ? ", " : "") + std::to_string(numbers[n]);
  }
  return numbers.size() > kMostNamed ? text + ", ..." : text;
}

// Layers that are not there have no map that could be shown: they are refused, or where `renumber`
// is asked for those that are there are counted from 0, and which they are is said.
void check_numbers(Read& read, const std::string& kind, bool renumber) {
  const auto found = read.kinds.find(kind);
  if (found == read.kinds.end() || found->second.empty()) return;
  std::vector<std::int64_t> there, absent;
  for (const auto& [number, layer] : found->second) there.push_back(number);
  for (std::int64_t n = 0; n < there.back() && absent.size() < 9; ++n) {
    if (!found->second.contains(n)) absent.push_back(n);
  }
  if (absent.empty()) return;
  if (!renumber) {
    throw formats::bad_input(
        kind + " has layers " + list_of(there) + " and none of " + list_of(absent), "",
        "give the others too, or --renumber to count those that are there from 0");
  }
  ByNumber counted;
  for (std::size_t n = 0; n < there.size(); ++n) {
    counted.emplace(static_cast<std::int64_t>(n), found->second.at(there[n]));
  }
  read.note("layers 0, 1, .. of the model are layers " + list_of(there) + " of the files");
  found->second = std::move(counted);
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

// A pair that is hidden is -infinity where this program writes a map (others have NaN there), and
// weighs nothing. The other weights of its row sum to 1, which is looked at later, so that no other
// NaN gets through.
void hidden_to_zero(Read& read) {
  bool any = false;
  for (auto& [number, map] : read.kinds.at("attn")) {
    const at::Tensor hidden = map.isnan().logical_or(map.isneginf());
    if (!hidden.any().item<bool>()) continue;
    map = map.masked_fill(hidden, 0), any = true;
  }
  if (any) read.note("what is no number in a map is a pair that is hidden, and weighs 0");
}

Imported import_maps(formats::FileSystem& fs, Read& read, const std::filesystem::path& folder,
                     const ImportOptions& options) {
  if (options.scale != 0) {
    throw formats::bad_usage("these are maps, and a scale is of queries and keys", "scale",
                             "leave it out, or give q and k with --as qk");
  }
  check_numbers(read, "attn", options.renumber);
  if (read.kinds.contains("attn")) hidden_to_zero(read);
  const std::vector<at::Tensor> maps = ordered(read.kinds, "attn");
  std::vector<Parameters> layers;
  for (std::size_t n = 0; n < maps.size(); ++n) {
    check_map(maps[n], n);
    layers.push_back({{"map", maps[n]}});
  }
  Imported out{import_config(maps[0], maps.size()), read.notes};
  const bool later = any_later(maps);
  if (later && options.causal == "yes") {
    throw formats::bad_input("some weight lies on a later key, so the maps are not causal",
                             "causal");
  }
  out.config.attention.causal = options.causal == "yes" || (options.causal == "auto" && !later);
  out.config.encoding = {"imported", {{"tensors", "maps"}, {"tokens", maps[0].size(1)}}};
  for (const char* kind : {"q", "k", "v"}) {
    if (!read.kinds.contains(kind)) continue;
    out.notes.push_back(std::string(kind) + " was left out: the maps are there");
  }
  write(fs, folder, out.config, layers);
  return out;
}

// Queries and keys have to be of the same layers before they are counted from 0.
void check_pairs(const ByKind& all) {
  const auto q = all.find("q"), k = all.find("k");
  if (q == all.end() || k == all.end()) return;
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::ranges::equal(q->second, k->second, same)) return;
  std::vector<std::int64_t> of_q, of_k;
  for (const auto& [number, layer] : q->second) of_q.push_back(number);
  for (const auto& [number, layer] : k->second) of_k.push_back(number);
  throw formats::bad_input("queries are of layers " + list_of(of_q) + " and keys of layers " +
                           list_of(of_k));
}

Imported import_products(formats::FileSystem& fs, Read& read, const std::filesystem::path& folder,
                         const ImportOptions& options) {
  check_pairs(read.kinds);
  for (const char* kind : {"q", "k"}) check_numbers(read, kind, options.renumber);
  const std::vector<at::Tensor> q = ordered(read.kinds, "q"), k = ordered(read.kinds, "k");
  const bool fits = q[0].size(1) == k[0].size(1) && q[0].size(2) == k[0].size(2) &&
                    q[0].size(0) % k[0].size(0) == 0;
  if (!fits) {
    throw formats::bad_input("queries " + shape_text(q[0]) + " and keys " + shape_text(k[0]) +
                             " do not fit");
  }
  std::vector<Parameters> layers;
  for (std::size_t n = 0; n < q.size(); ++n) layers.push_back({{"q", q[n]}, {"k", k[n]}});
  Imported out{import_config(q[0], q.size()), read.notes};
  out.config.kv_heads = k[0].size(0), out.config.head_dim = q[0].size(2);
  out.config.attention.scale = options.scale;
  out.config.attention.causal = options.causal != "no";
  out.config.encoding = {"imported", {{"tensors", "qk"}, {"tokens", q[0].size(1)}}};
  if (options.causal == "auto") out.notes.push_back("taken to be causal; `causal` no says not");
  if (read.kinds.contains("v")) {
    out.notes.push_back("v was left out: maps and scores have no part of it");
  }
  write(fs, folder, out.config, layers);
  return out;
}

// A model that is no import would be lost.
void refuse_other_models(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / "config.json";
  const bool described = std::filesystem::exists(config);
  if (!described && !std::filesystem::exists(folder / "model.safetensors")) return;
  const formats::Json there = described ? formats::json_from_file(config) : formats::Json();
  const formats::Json::json_pointer key("/encoding/key");
  if (there.contains(key) && there.at(key) == "imported") return;
  throw formats::bad_usage("another model is in " + folder.string() + ", and is not written over",
                           "out", "name another folder");
}

}  // namespace

Imported import_tensors(formats::FileSystem& fs, const std::vector<std::filesystem::path>& files,
                        const std::filesystem::path& folder, const ImportOptions& options) {
  refuse_other_models(folder);
  const at::NoGradGuard no_grad;
  Read read = read_all(files, options.as);
  const bool maps = read.kinds.contains("attn");
  const bool products = options.as == "qk" || (options.as == "auto" && !maps);
  return products ? import_products(fs, read, folder, options)
                  : import_maps(fs, read, folder, options);
}

}  // namespace phasescope::model
