#include "formats/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "formats/error.h"
#include "formats/hf_config.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// ---- Architectures ------------------------------------------------------------------------------

struct Architecture {
  std::string_view key;      // general.architecture
  const char* model_type;    // of the Hugging Face family
  const char* architecture;  // its class
  // llama.cpp turns pairs (2i, 2i + 1) for these; its converter puts the rows of q and k in that
  // order (LlamaModel.permute of convert_hf_to_gguf.py).
  bool rows_in_pairs;
};

constexpr Architecture kArchitectures[] = {
    {"llama", "llama", "LlamaForCausalLM", true},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false},
};

const Architecture& architecture_of(const Json& keys, const std::string& where) {
  const auto found = keys.find("general.architecture");
  const std::string name =
      found != keys.end() && found->is_string() ? found->get<std::string>() : "";
  if (name.empty()) {
    throw bad_input("the GGUF file has no general.architecture, which says what model it is",
                    where);
  }
  std::string known;
  for (const Architecture& one : kArchitectures) {
    if (one.key == name) return one;
    known += (known.empty() ? "" : ", ") + std::string(one.key);
  }
  throw bad_input("general.architecture is " + in_quotes(name) + ", which cannot be read",
                  where + ", key general.architecture", "known: " + known);
}

// ---- Names --------------------------------------------------------------------------------------

struct NamePair {
  std::string_view gguf, plain;
};
constexpr NamePair kOutside[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr NamePair kInLayer[] = {
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"attn_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
};

template <std::size_t Count>
std::optional<std::string> in_table(const NamePair (&table)[Count], std::string_view name) {
  for (const NamePair& pair : table) {
    if (pair.gguf == name) return std::string(pair.plain);
  }
  return std::nullopt;
}

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; a name that is not known
// stays.
std::string plain_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return name;
  const std::string module = name.substr(0, dot), ending = name.substr(dot);
  if (const auto plain = in_table(kOutside, module)) return *plain + ending;
  constexpr std::string_view kBlock = "blk.";
  const std::size_t after = module.find('.', kBlock.size());
  if (!module.starts_with(kBlock) || after == std::string::npos) return name;
  const auto plain = in_table(kInLayer, std::string_view(module).substr(after + 1));
  if (!plain) return name;
  const std::string layer = module.substr(kBlock.size(), after - kBlock.size());
  return "model.layers." + layer + "." + *plain + ending;
}

// ---- Configuration ------------------------------------------------------------------------------

constexpr const char* kRopeFactors = "rope_freqs.weight";

// What the keys of the architecture mean; collects problems, as reading a config.json does.
class ConfigOfKeys {
 public:
  ConfigOfKeys(const GgufFile& file, const Architecture& architecture)
      : file_(file),
        architecture_(architecture),
        prefix_(std::string(architecture.key) + "."),
        reader_(file.keys(), problems_) {}

  GgufModel read() {
    config_["model_type"] = architecture_.model_type;
    config_["architectures"] = {architecture_.architecture};
    read_sizes();
    read_rope();
    read_windows();
    note_other_keys();
    problems_.throw_if_any(file_.path().string());
    GgufModel model;
    model.config = std::move(config_);
    model.keys = file_.keys();
    model.quirks = std::move(quirks_);
    model.warnings = std::move(warnings_);
    return model;
  }

  // Rows of q and k of so many are a head's.
  std::int64_t head_dim() const { return head_dim_; }

 private:
  std::string key(const std::string& name) {
    known_.push_back(prefix_ + name);
    return known_.back();
  }

  std::optional<std::int64_t> integer(const std::string& name,
                                      IntegerRange range = {1, std::int64_t{1} << 31}) {
    const std::string full = key(name);
    const Json* value = reader_.raw(full);
    // Some architectures say it layer by layer.
    if (value != nullptr && value->is_array() && !value->empty()) {
      const bool same = std::all_of(value->begin(), value->end(),
                                    [&](const Json& one) { return one == value->front(); });
      if (same) return integer_of(full, value->front(), range);
      problems_.add(full, "differs from layer to layer, which cannot be read");
      return std::nullopt;
    }
    return reader_.integer({full}, range);
  }

  // One of a list, checked as a value by itself.
  std::optional<std::int64_t> integer_of(const std::string& full, const Json& value,
                                         IntegerRange range) {
    const Json alone = {{full, value}};
    return ConfigReader(alone, problems_).integer({full}, range);
  }

  std::int64_t required(const std::string& name) {
    const auto value = integer(name);
    if (!value && !reader_.has(prefix_ + name)) problems_.add(prefix_ + name, "is missing");
    return value.value_or(1);
  }

  std::optional<double> number(const std::string& name, NumberRange range = kPositiveRange) {
    return reader_.number({key(name)}, range);
  }

  void read_sizes() {
    const std::int64_t width = required("embedding_length"),
                       heads = required("attention.head_count");
    config_["hidden_size"] = width;
    config_["num_hidden_layers"] = required("block_count");
    config_["intermediate_size"] = required("feed_forward_length");
    config_["num_attention_heads"] = heads;
    config_["num_key_value_heads"] = integer("attention.head_count_kv").value_or(heads);
    config_["max_position_embeddings"] = required("context_length");
    if (const auto eps = number("attention.layer_norm_rms_epsilon")) {
      config_["rms_norm_eps"] = *eps;
    } else if (!reader_.has(prefix_ + "attention.layer_norm_rms_epsilon")) {
      problems_.add(prefix_ + "attention.layer_norm_rms_epsilon", "is missing");
    }
    head_dim_ = integer("attention.key_length").value_or(width / heads);
    if (head_dim_ < 1) {
      problems_.add(prefix_ + "attention.head_count",
                    "is " + std::to_string(heads) + ", more than the " + std::to_string(width) +
                        " channels there are");
    }
    config_["head_dim"] = head_dim_;
    const std::int64_t values = integer("attention.value_length").value_or(head_dim_);
    if (values != head_dim_) {
      problems_.add(prefix_ + "attention.value_length",
                    "is " + std::to_string(values) + ", and heads of " + std::to_string(head_dim_) +
                        " dimensions have values as long");
    }
    if (integer("expert_count", {0, 1 << 20}).value_or(0) > 0) {
      problems_.add(prefix_ + "expert_count", "a mixture of experts cannot be read from GGUF");
    }
    key("expert_used_count");
    if (!reader_.boolean_or({key("attention.causal")}, true)) {
      problems_.add(prefix_ + "attention.causal",
                    "is false: attention to both sides cannot be read");
    }
    read_embedding();
    config_["hidden_act"] = "silu";
    const bool bias = file_.find("blk.0.attn_q.bias") != nullptr;
    if (architecture_.key != "qwen2") config_["attention_bias"] = bias;
  }

  void read_embedding() {
    const TensorEntry* embedding = file_.find("token_embd.weight");
    const std::int64_t rows =
        embedding != nullptr && embedding->shape.size() == 2 ? embedding->shape[0] : 0;
    const auto stated = integer("vocab_size");
    if (rows == 0) {
      problems_.add("token_embd.weight", "the embedding is missing, or is no matrix");
    } else if (stated && *stated != rows) {
      problems_.add(prefix_ + "vocab_size", "is " + std::to_string(*stated) +
                                                ", but the embedding has " + std::to_string(rows) +
                                                " rows");
    }
    config_["vocab_size"] = std::max<std::int64_t>(rows, 1);
    const bool tied = file_.find("output.weight") == nullptr;
    config_["tie_word_embeddings"] = tied;
  }

  void read_rope() {
    Json rope = {{"rope_type", "default"}};
    rope["rope_theta"] = number("rope.freq_base").value_or(10000.0);
    const auto turned = integer("rope.dimension_count");
    if (turned && *turned != head_dim_) {
      problems_.add(prefix_ + "rope.dimension_count",
                    "is " + std::to_string(*turned) + " of the " + std::to_string(head_dim_) +
                        " dimensions of a head, and whole heads alone can be read");
    }
    read_scaling(rope);
    read_factors(rope);
    config_["rope_parameters"] = std::move(rope);
  }

  void read_scaling(Json& rope) {
    const std::string type = reader_.text_or({key("rope.scaling.type")}, "none");
    const auto factor = number("rope.scaling.factor");
    const auto older = number("rope.scale_linear");
    const auto trained = integer("rope.scaling.original_context_length");
    const auto attention = number("rope.scaling.attn_factor");
    const auto fast = number("rope.scaling.yarn_beta_fast");
    const auto slow = number("rope.scaling.yarn_beta_slow");
    key("rope.scaling.finetuned");
    if (type == "yarn") {
      const double f = factor.value_or(1);
      rope["rope_type"] = "yarn";
      rope["factor"] = f;
      if (trained) rope["original_max_position_embeddings"] = *trained;
      if (fast) rope["beta_fast"] = *fast;
      if (slow) rope["beta_slow"] = *slow;
      // llama.cpp multiplies the factor of YaRN by this one.
      if (attention) rope["attention_factor"] = *attention * (0.1 * std::log(f) + 1);
    } else if (type == "linear" || (type == "none" && older)) {
      rope["rope_type"] = "linear";
      rope["factor"] = factor.value_or(older.value_or(1));
    } else if (type != "none") {
      problems_.add(prefix_ + "rope.scaling.type",
                    "is " + in_quotes(type) + ", which cannot be read; known: none, linear, yarn");
    } else if (factor && *factor != 1) {
      problems_.add(prefix_ + "rope.scaling.factor", "is there, but rope.scaling.type is \"none\"");
    }
  }

  // A tensor of divisors of the frequencies, which is how Llama 3's scaling is kept. Longrope with
  // both lists alike and no factor of attention computes just that.
  void read_factors(Json& rope) {
    const TensorEntry* entry = file_.find(kRopeFactors);
    if (entry == nullptr) return;
    const auto planes = static_cast<std::size_t>(head_dim_ / 2);
    if (entry->dtype != DType::f32 || entry->element_count() != head_dim_ / 2) {
      problems_.add(kRopeFactors, "must be " + std::to_string(planes) + " numbers in F32");
      return;
    }
    std::vector<float> divisors(planes);
    file_.read(*entry, std::as_writable_bytes(std::span(divisors)));
    if (std::all_of(divisors.begin(), divisors.end(), [](float x) { return x == 1; })) return;
    if (rope["rope_type"] != "default") {
      problems_.add(kRopeFactors,
                    "divides the frequencies besides rope.scaling.type, which cannot be read");
      return;
    }
    rope["rope_type"] = "longrope";
    rope["short_factor"] = divisors;
    rope["long_factor"] = divisors;
    rope["attention_factor"] = 1.0;
    rope["original_max_position_embeddings"] = config_["max_position_embeddings"];
    quirks_.push_back(
        "the file's rope_freqs divide the rope's frequencies, in texts of any length");
  }

  void read_windows() {
    const auto window = integer("attention.sliding_window", {0, std::int64_t{1} << 31});
    if (window.value_or(0) == 0) {
      quirks_.push_back("GGUF files seldom say that layers slide a window: none does here");
    } else if (architecture_.key == "llama") {
      config_["model_type"] = "mistral";
      config_["architectures"] = {"MistralForCausalLM"};
      config_["sliding_window"] = *window;
    } else {
      problems_.add(prefix_ + "attention.sliding_window",
                    "is " + std::to_string(*window) + ", but nothing says which layers slide");
    }
  }

  // Nothing that may change the maths is passed over in silence.
  void note_other_keys() {
    for (const auto& [name, value] : file_.keys().items()) {
      if (!name.starts_with(prefix_)) continue;
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      warnings_.push_back("the file's key " + shortened(name) + " is not known, and not followed");
    }
  }

  const GgufFile& file_;
  const Architecture& architecture_;
  std::string prefix_;
  ConfigProblems problems_;
  ConfigReader reader_;
  Json config_ = Json::object();
  std::int64_t head_dim_ = 1;
  std::vector<std::string> known_, quirks_, warnings_;
};

// ---- Tensors ------------------------------------------------------------------------------------

// The file's tensors under their plain names, rows of q and k back in their order.
class RenamedTensors : public TensorFile {
 public:
  RenamedTensors(GgufFile file, bool rows_in_pairs, std::int64_t head_dim)
      : file_(std::move(file)), head_dim_(static_cast<std::uint64_t>(head_dim)) {
    for (const TensorEntry& raw : file_.tensors()) {
      if (raw.name == kRopeFactors) continue;  // it is in the configuration
      TensorEntry entry = raw;
      entry.name = plain_name(raw.name);
      const bool turned =
          rows_in_pairs && (entry.name.find(".self_attn.q_proj.") != entry.name.npos ||
                            entry.name.find(".self_attn.k_proj.") != entry.name.npos);
      if (turned) check_heads_of(entry);
      raw_.push_back(&raw);
      turned_.push_back(turned);
      entries_.push_back(std::move(entry));
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!by_name_.emplace(entries_[i].name, i).second) {
        throw bad_input("two tensors of the file mean " + in_quotes(entries_[i].name),
                        path().string());
      }
    }
  }

  const std::filesystem::path& path() const override { return file_.path(); }
  const std::vector<TensorEntry>& tensors() const override { return entries_; }
  const TensorEntry* find(std::string_view name) const override {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &entries_[it->second];
  }
  const std::map<std::string, std::string>& metadata() const override { return file_.metadata(); }

  void read_part(const TensorEntry& entry, std::uint64_t begin,
                 std::span<std::byte> out) const override {
    check_part(entry, begin, out.size());
    const std::size_t at = by_name_.at(entry.name);
    if (!turned_[at]) return file_.read_part(*raw_[at], begin, out);
    const std::uint64_t row_bytes = entry.size / static_cast<std::uint64_t>(entry.shape[0]);
    while (!out.empty()) {
      const std::uint64_t row = begin / row_bytes, within = begin % row_bytes;
      const auto part = out.first(std::min<std::uint64_t>(row_bytes - within, out.size()));
      file_.read_part(*raw_[at], row_in_file(row) * row_bytes + within, part);
      out = out.subspan(part.size());
      begin += part.size();
    }
  }

  void visit(const TensorEntry& entry, const Visit& visit) const override {
    file_.visit(*raw_[by_name_.at(entry.name)], visit);
  }

 private:
  void check_heads_of(const TensorEntry& entry) const {
    const auto rows = entry.shape.empty() ? 0 : static_cast<std::uint64_t>(entry.shape[0]);
    const bool halves = head_dim_ > 0 && head_dim_ % 2 == 0;
    if (rows > 0 && entry.size > 0 && halves && rows % head_dim_ == 0) return;
    throw bad_input("tensor " + in_quotes(entry.name) + " has the shape " +
                        shape_text(entry.shape) + ", no whole heads of " +
                        std::to_string(head_dim_) + " rows",
                    path().string());
  }

  // Plain row h d + s d/2 + i is row h d + 2i + s of the file.
  std::uint64_t row_in_file(std::uint64_t row) const {
    const std::uint64_t half = head_dim_ / 2, in_head = row % head_dim_;
    return row - in_head + 2 * (in_head % half) + in_head / half;
  }

  GgufFile file_;
  std::uint64_t head_dim_;
  std::vector<TensorEntry> entries_;
  std::vector<const TensorEntry*> raw_;
  std::vector<bool> turned_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

// Refuses a model that is cut into several files, each of which has some of its tensors.
void refuse_split(const GgufFile& file) {
  const auto found = file.keys().find("split.count");
  if (found == file.keys().end() || !found->is_number_integer() || *found <= 1) return;
  throw bad_input("the file is one of " + found->dump() + " of a model", file.path().string(),
                  "join them with llama.cpp's gguf-split --merge");
}

}  // namespace

GgufModel open_gguf_model(const std::filesystem::path& path, const OpenOptions& options) {
  GgufFile file = GgufFile::open(path, options);
  refuse_split(file);
  const Architecture& architecture = architecture_of(file.keys(), path.string());
  ConfigOfKeys keys(file, architecture);
  GgufModel model = keys.read();
  model.tensors = std::make_unique<RenamedTensors>(std::move(file), architecture.rows_in_pairs,
                                                   keys.head_dim());
  return model;
}

}  // namespace phasescope::formats
