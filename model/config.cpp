#include "model/config.h"

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "formats/error.h"
#include "model/encoding.h"
#include "model/near_names.h"

namespace phasescope::model {
namespace {

using Member = std::variant<std::int64_t ModelConfig::*, double ModelConfig::*,
                            bool ModelConfig::*, std::string ModelConfig::*>;

struct Field {
  const char* own;
  const char* file;  // the name in Hugging Face's files, and in what we write
  Member member;
};

const std::vector<Field>& fields() {
  static const std::vector<Field> list = {
      {"vocab_size", "vocab_size", &ModelConfig::vocab_size},
      {"width", "hidden_size", &ModelConfig::width},
      {"layers", "num_hidden_layers", &ModelConfig::layers},
      {"heads", "num_attention_heads", &ModelConfig::heads},
      {"kv_heads", "num_key_value_heads", &ModelConfig::kv_heads},
      {"head_dim", "head_dim", &ModelConfig::head_dim},
      {"ffn_width", "intermediate_size", &ModelConfig::ffn_width},
      {"context", "max_position_embeddings", &ModelConfig::context},
      {"activation", "hidden_act", &ModelConfig::activation},
      {"norm_eps", "rms_norm_eps", &ModelConfig::norm_eps},
      {"tie_embeddings", "tie_word_embeddings", &ModelConfig::tie_embeddings},
      {"attention_bias", "attention_bias", &ModelConfig::attention_bias},
      {"mlp_bias", "mlp_bias", &ModelConfig::mlp_bias},
      {"init_std", "initializer_range", &ModelConfig::init_std},
      {"family", "family", &ModelConfig::family},
      {"note", "note", &ModelConfig::note},
  };
  return list;
}

void read_field(const formats::ConfigReader& reader, const Field& field, ModelConfig& config) {
  if (auto member = std::get_if<std::int64_t ModelConfig::*>(&field.member)) {
    config.*(*member) = reader.integer_or({field.file, field.own}, config.*(*member),
                                          formats::kCountRange);
  } else if (auto number = std::get_if<double ModelConfig::*>(&field.member)) {
    config.*(*number) =
        reader.number_or({field.file, field.own}, config.*(*number), formats::kPositiveRange);
  } else if (auto flag = std::get_if<bool ModelConfig::*>(&field.member)) {
    config.*(*flag) = reader.boolean_or({field.file, field.own}, config.*(*flag));
  } else if (auto text = std::get_if<std::string ModelConfig::*>(&field.member)) {
    config.*(*text) = reader.text_or({field.file, field.own}, config.*(*text));
  }
}

std::vector<std::string> known_keys() {
  std::vector<std::string> names = {"model_type", "encoding", "tokenizer", "dtype"};
  for (const Field& field : fields()) {
    names.emplace_back(field.own);
    if (field.own != std::string(field.file)) names.emplace_back(field.file);
  }
  return names;
}

void refuse_unknown_keys(const Json& object, formats::ConfigProblems& problems) {
  const std::vector<std::string> known = known_keys();
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      problems.add(key, "unknown key" + near_names(key, known));
    }
  }
}

EncodingConfig read_encoding(const Json& value, formats::ConfigProblems& problems) {
  EncodingConfig encoding;
  if (value.is_string()) {
    encoding.key = value.get<std::string>();
  } else if (value.is_object()) {
    encoding.options = value;
    encoding.options.erase("key");
    if (value.contains("key") && value["key"].is_string()) {
      encoding.key = value["key"].get<std::string>();
    } else {
      problems.add("encoding.key", "is missing or no text");
    }
  } else {
    problems.add("encoding", "expected an object with a \"key\", or the key alone");
  }
  return encoding;
}

// What follows from other fields where it is left out.
void fill_in(const formats::ConfigReader& reader, ModelConfig& config) {
  if (!reader.has("num_key_value_heads") && !reader.has("kv_heads")) {
    config.kv_heads = config.heads;
  }
  if (!reader.has("head_dim") && config.heads > 0) config.head_dim = config.width / config.heads;
}

std::vector<std::string> settable_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const Field& field : fields()) names.emplace_back(field.own);
  if (const EncodingEntry* entry = find_encoding(config.encoding.key)) {
    for (const OptionInfo& option : entry->info->options) {
      names.push_back("encoding." + option.key);
    }
  }
  return names;
}

Json parsed_value(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

const Field* find_field(const std::string& name) {
  for (const Field& field : fields()) {
    if (name == field.own || name == field.file) return &field;
  }
  return nullptr;
}

void set_encoding_option(ModelConfig& config, const std::string& option, const Json& value) {
  if (option == "key") {
    config.encoding = {value.is_string() ? value.get<std::string>() : value.dump(),
                       Json::object()};
  } else {
    config.encoding.options[option] = value;
  }
}

}  // namespace

ModelConfig read_model_config(const Json& object, const std::string& where) {
  formats::ConfigProblems problems;
  const formats::ConfigReader reader(object, problems);
  ModelConfig config;
  if (object.is_object()) {
    refuse_unknown_keys(object, problems);
    for (const Field& field : fields()) read_field(reader, field, config);
    fill_in(reader, config);
    if (const Json* encoding = reader.raw("encoding")) {
      config.encoding = read_encoding(*encoding, problems);
    }
    if (const Json* tokenizer = reader.raw("tokenizer")) config.tokenizer = *tokenizer;
  }
  if (problems.empty()) check_model_config(config, problems);
  problems.throw_if_any(where);
  return config;
}

Json write_model_config(const ModelConfig& config) {
  Json object = {{"model_type", "phasescope"}};
  for (const Field& field : fields()) {
    std::visit([&](auto member) { object[field.file] = config.*member; }, field.member);
  }
  if (config.note.empty()) object.erase("note");
  object["encoding"] = config.encoding.options;
  object["encoding"]["key"] = config.encoding.key;
  if (!config.tokenizer.is_null()) object["tokenizer"] = config.tokenizer;
  return object;
}

void check_model_config(const ModelConfig& config, formats::ConfigProblems& problems) {
  formats::check_heads(problems, config.heads * config.head_dim, config.heads, config.kv_heads,
                       config.head_dim);
  if (config.layers > formats::kLayerRange.max) {
    problems.add("num_hidden_layers", "at most " + std::to_string(formats::kLayerRange.max) +
                                          " layers can be read, this says " +
                                          std::to_string(config.layers));
  }
  static const std::set<std::string> activations = {"silu", "gelu", "gelu_tanh", "relu"};
  if (!activations.contains(config.activation)) {
    problems.add("hidden_act", "\"" + config.activation +
                                   "\" is not known; known: silu, gelu, gelu_tanh, relu");
  }
  if (!problems.empty()) return;
  try {
    make_encoding(config);
  } catch (const formats::Error& error) {
    problems.add("encoding", error.message());
  }
}

void set_field(ModelConfig& config, const std::string& name, const std::string& value) {
  const Json parsed = parsed_value(value);
  const std::size_t dot = name.find('.');
  const std::string head = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string rest = dot == std::string::npos ? name : name.substr(dot + 1);
  const Field* field = head.empty() || head == "model" ? find_field(rest) : nullptr;
  if (field != nullptr) {
    formats::ConfigProblems problems;
    const Json object = {{field->file, parsed}};
    read_field(formats::ConfigReader(object, problems), *field, config);
    problems.throw_if_any("--set " + name);
  } else if (head == "encoding" || head == config.encoding.key) {
    set_encoding_option(config, rest, parsed);
  } else {
    throw formats::bad_usage("\"" + name + "\" is no field of this model" +
                                 near_names(name, settable_names(config)),
                             "--set");
  }
  formats::ConfigProblems problems;
  check_model_config(config, problems);
  problems.throw_if_any("--set " + name + "=" + value);
}

}  // namespace phasescope::model
