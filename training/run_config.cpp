#include "training/run_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "formats/error.h"
#include "formats/hf_config.h"
#include "formats/json.h"
#include "formats/near_names.h"
#include "protocol/json_form.h"
#include "protocol/request.h"
#include "tasks/named_sample.h"
#include "tasks/vocabulary.h"

namespace phasescope::training {
namespace {

using nlohmann::json;

json schema() {
  static const RunConfig defaults;
  return protocol::to_json_form(defaults);
}

// Near keys are looked for in the key's own section first, then in the others: "train.context"
// finds "model.context", and "train.batch" train.batch_tokens before task.batch.
std::string unknown_key_sentence(const std::string& key) {
  const std::vector<std::string> known = known_keys();
  const std::string name = key.substr(key.rfind('.') + 1);
  // The right name in the wrong section, which may be in several.
  std::string longer, elsewhere;
  for (const std::string& one : known) {
    if (one.starts_with(key + "_")) longer += one + ", ";
    if (one.substr(one.rfind('.') + 1) == name) elsewhere += (elsewhere.empty() ? "" : ", ") + one;
  }
  if (!elsewhere.empty()) return "no such key; near: " + longer + elsewhere;
  const std::string own = formats::near_names(key, known);
  if (own.find("near:") != own.npos) return "no such key" + own;
  for (const char* section :
       {"model.", "start.", "encoding.", "positions.", "data.", "task.", "train.", "eval."}) {
    const std::string near = formats::near_names(section + name, known);
    if (near.find("near:") != near.npos) return "no such key" + near;
  }
  return "no such key";
}

// A whole number that is what was written: 64 bits hold it, and of those with a point or an
// exponent a double tells it from its neighbours.
bool is_held(const json& given) {
  constexpr double kMostOfDouble = 9007199254740992;  // 2^53
  if (given.is_number_unsigned()) {
    return given.get<std::uint64_t>() <=
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  return given.is_number_integer() || std::abs(given.get<double>()) <= kMostOfDouble;
}

// What a value should have been, by the type of the schema's own; empty where it fits.
std::string wrong_type(const json& expected, const json& given) {
  if (expected.is_number_integer()) {
    const bool whole =
        given.is_number_integer() ||
        (given.is_number() && std::floor(given.get<double>()) == given.get<double>());
    if (!whole) return "a whole number";
    return is_held(given) ? ""
                          : "a whole number of at most 64 bits (2^53 where it has an exponent)";
  }
  if (expected.is_number()) return given.is_number() ? "" : "a number";
  if (expected.is_string()) return given.is_string() ? "" : "a text";
  if (expected.is_boolean()) return given.is_boolean() ? "" : "true or false";
  if (expected.is_array()) return given.is_array() ? "" : "a list";
  return given.is_object() ? "" : "an object";
}

class Checker {
 public:
  explicit Checker(formats::ConfigProblems& problems) : problems_(problems) {}

  void object(const json& expected, const json& given, const std::string& prefix) {
    for (const auto& [name, value] : given.items()) {
      const std::string key = prefix + name;
      if (!expected.contains(name)) {
        problems_.add(key, unknown_key_sentence(key));
      } else {
        member(expected.at(name), value, key);
      }
    }
  }

 private:
  void member(const json& expected, const json& given, const std::string& key) {
    const std::string wanted = wrong_type(expected, given);
    if (!wanted.empty()) {
      problems_.add(key, "expected " + wanted + " but got " + given.dump());
    } else if (key == "train.curriculum") {
      stages(given, key);
    } else if (expected.is_array()) {
      const json one = key == "train.keep_steps" ? json(0) : json("");
      for (std::size_t i = 0; i < given.size(); ++i) {
        member(one, given[i], key + "[" + std::to_string(i) + "]");
      }
    } else if (expected.is_object() && key != "encoding") {
      object(expected, given, key + ".");
    }
  }

  void stages(const json& given, const std::string& key) {
    const json expected = protocol::to_json_form(CurriculumStage{});
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::string place = key + "[" + std::to_string(i) + "]";
      if (given[i].is_object()) {
        object(expected, given[i], place + ".");
      } else {
        problems_.add(place, "expected {\"length\": ..., \"share\": ...}");
      }
    }
  }

  formats::ConfigProblems& problems_;
};

std::string range_words(const protocol::About& about) {
  const auto words = [](double end) { return json(static_cast<std::int64_t>(end)).dump(); };
  if (about.high < std::numeric_limits<double>::infinity()) {
    return "must be " + words(about.low) + " to " + words(about.high);
  }
  return about.low == 0 ? "must be 0 or more" : "must be at least " + words(about.low);
}

// "f32 or bf16", "auto, fused or plain".
std::string choice_words(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  }
  return text;
}

// What the ranges and choices in the list of fields do not take.
class FieldChecker {
 public:
  FieldChecker(formats::ConfigProblems& problems, std::string prefix)
      : problems_(problems), prefix_(std::move(prefix)) {}
  template <class T>
  void operator()(const char* name, T& value, const protocol::About& about = {}) {
    const std::string key = prefix_ + name;
    if constexpr (protocol::detail::HasFields<T>) {
      FieldChecker inner(problems_, key + ".");
      value.fields(inner);
    } else if constexpr (std::is_arithmetic_v<T>) {
      const auto number = static_cast<double>(value);
      if (!(number >= about.low && number <= about.high)) problems_.add(key, range_words(about));
    } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        (*this)((name + ("[" + std::to_string(i) + "]")).c_str(), value[i], about);
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      const auto choices = protocol::choices_of(about);
      const bool known = choices.empty() || std::ranges::find(choices, value) != choices.end();
      if (!known) problems_.add(key, "must be " + choice_words(choices));
    }
  }

 private:
  formats::ConfigProblems& problems_;
  std::string prefix_;
};

// What follows from several fields, or has an end that is not allowed itself.
class RangeChecker {
 public:
  explicit RangeChecker(formats::ConfigProblems& problems) : problems_(problems) {}

  void check(const RunConfig& c) {
    model(c);
    start(c);
    train(c);
    task(c);
    need(c.data.bos < c.model.vocab_size, "data.bos", "must be an id below model.vocab_size");
    need(!c.data.corpus.empty(), "data.corpus", "must name a text, or be desk");
    need(!c.data.validation.empty(), "data.validation", "must name texts, or be desk");
    const bool named = c.encoding.contains("key") && c.encoding.at("key").is_string();
    need(named, "encoding.key", "must name an encoding");
  }

 private:
  void need(bool holds, const char* key, const std::string& sentence) {
    if (!holds) problems_.add(key, sentence);
  }

  void model(const RunConfig& config) {
    const ModelSection& m = config.model;
    const tasks::Task* own = tasks::find_task(config.task.name);
    const bool bytes =
        config.data.tokenizer.empty() && (own == nullptr || !tasks::has_own_ids(*own));
    need(!bytes || m.vocab_size >= 256, "model.vocab_size",
         "must be at least 256, since bytes are tokens");
    need(config.from_model() || m.heads < 1 || m.width % m.heads == 0, "model.width",
         "must be a multiple of model.heads");
    need(m.kv_heads < 1 || m.heads % m.kv_heads == 0, "model.kv_heads", "must divide model.heads");
    need(m.norm_eps > 0, "model.norm_eps", "must be above 0");
    need(m.init_std > 0, "model.init_std", "must be above 0");
    need(m.embedding_scale > 0, "model.embedding_scale", "must be above 0");
  }

  void start(const RunConfig& c) {
    const StartSection& s = c.start;
    const StartSection none;
    need(c.from_model() || (s.context == 0 && s.lora_rank == 0 && s.model_sha256.empty()),
         "start.model", "must name the model that the other keys are about");
    need(!c.from_model() || c.data.tokenizer.empty(), "data.tokenizer",
         "is the opened model's own");
    need(s.lora_rank > 0 || (s.lora_alpha == 0 && s.lora == none.lora && s.lora_save == "merged"),
         "start.lora_rank", "must be above 0 for the keys of lora to count");
    need(s.lora_rank == 0 || c.train.average == 0, "train.average",
         "must be 0 with start.lora_rank, whose two factors have no mean");
  }

  void task(const RunConfig& c) {
    if (c.of_text()) {
      need(c.task == TaskSection(), "task.name",
           "must name the task that the other keys are about");
      need(c.model.causal, "model.causal", "must be true for a text's next token to be learnt");
      need(c.model.encoder_layers == 0, "model.encoder_layers", "must be 0 where text is learnt");
      need(c.model.patch_side == 0 && c.model.pool == "none", "model.patch_side",
           "must be 0, and model.pool none, where text is learnt");
      return;
    }
    const tasks::Task* task = tasks::find_task(c.task.name);
    if (task == nullptr) {
      return problems_.add("task.name", "no such task" + near_tasks(c.task.name));
    }
    model_of_task(c.model, *task);
    encoding_of_task(c.encoding, *task);
    lengths(c.task, task->info());
    need((c.task.crop == 0 && !c.task.flip) || task->info().form == tasks::Form::image, "task.crop",
         "is of images, as task.flip is, and " + task->info().key + " is none");
    // What is about text alone would be passed over.
    const DataSection none;
    need(c.data.corpus == none.corpus && c.data.validation == none.validation &&
             c.data.tokenizer == none.tokenizer && c.data.documents == none.documents,
         "data", "is about texts, of which a task reads none");
    need(c.data.bos == 0 || !tasks::has_own_ids(*task), "data.bos", "is the task's own");
    need(c.train.curriculum.empty(), "train.curriculum",
         "is of windows of text, and must be [] for a task, whose lengths grow by task.growth");
    need(c.train.batch_tokens == TrainSection().batch_tokens, "train.batch_tokens",
         "is of windows of text; a step of a task has task.batch samples");
  }

  static std::string near_tasks(const std::string& name) {
    std::vector<std::string> known;
    for (const auto& one : tasks::all_tasks()) known.push_back(one->info().key);
    return formats::near_names(name, known);
  }

  void model_of_task(const ModelSection& m, const tasks::Task& task) {
    const tasks::TaskInfo& info = task.info();
    const bool image = info.form == tasks::Form::image;
    const bool shaped = m.patch_side == info.image.side && m.patch_kernel == info.image.kernel &&
                        m.patch_channels == info.image.channels;
    need(shaped, "model.patch_side",
         image ? "must be " + std::to_string(info.image.side) + ", with a patch_kernel of " +
                     std::to_string(info.image.kernel) + " and patch_channels of " +
                     std::to_string(info.image.channels) + ", for " + info.key
               : "must be 0 for " + info.key + ", which is no image");
    need((m.pool == "softmax") == image, "model.pool",
         std::string("must be ") + (image ? "softmax" : "none") + " for " + info.key);
    const bool both_ways = tasks::sees_both_ways(task);
    need(m.causal != both_ways, "model.causal",
         both_ways ? "must be false, since " + info.key + " is read both ways"
                   : "must be true for " + info.key);
    const bool encoder = info.form == tasks::Form::encoder_decoder;
    need((m.encoder_layers > 0) == encoder, "model.encoder_layers",
         encoder ? "must be at least 1, since " + info.key + " is for encoder-decoders"
                 : "must be 0 for " + info.key);
    if (!tasks::has_own_ids(task)) return;
    const std::string ids = std::to_string(task.vocabulary());
    need(m.vocab_size == task.vocabulary(), "model.vocab_size",
         "must be " + ids + ", the ids of " + info.key);
  }

  // Places of nodes are those of a tree of two branches, counted level by level.
  void encoding_of_task(const json& encoding, const tasks::Task& task) {
    const std::string key = encoding.value("key", json("")).is_string()
                                ? encoding.value("key", std::string())
                                : std::string();
    if (key != "ape_tree") return;
    const bool tree = !task.draw(0, tasks::shown_length(task), 0).input_places.empty();
    need(!tree || encoding.value("branches", json(2)) == 2, "encoding.branches",
         "must be 2 for the nodes of " + task.info().key);
    need(!tree || encoding.value("numbering", json("breadth_first")) == "breadth_first",
         "encoding.numbering", "must be breadth_first for the nodes of " + task.info().key);
  }

  void lengths(const TaskSection& t, const tasks::TaskInfo& info) {
    const auto within = [&](std::int64_t length) {
      return length >= info.shortest && length <= info.longest;
    };
    const std::string range = "must be " + std::to_string(info.shortest) + " to " +
                              std::to_string(info.longest) + " " + info.length_unit;
    need(within(t.shortest), "task.shortest", range);
    need(within(t.longest) && t.longest >= t.shortest, "task.longest",
         range + ", and no less than task.shortest");
    const bool grows = t.longest_at_first != 0 || t.growth != 0;
    need(!grows ||
             (t.longest_at_first >= t.shortest && t.longest_at_first <= t.longest && t.growth > 0),
         "task.longest_at_first", "must be task.shortest to task.longest, with a task.growth");
    need((t.mean > 0) == (t.deviation > 0), "task.mean", "goes with a task.deviation above 0");
    const bool tested = t.validation_shortest != 0 || t.validation_longest != 0;
    need(!tested || (within(t.validation_shortest) && within(t.validation_longest) &&
                     t.validation_shortest <= t.validation_longest),
         "task.validation_longest", range + ", and no less than task.validation_shortest");
  }

  void train(const RunConfig& config) {
    const TrainSection& t = config.train;
    const std::int64_t context = config.model.context;
    need(!config.of_text() || t.batch_tokens >= context, "train.batch_tokens",
         "must hold at least one window of model.context tokens");
    // With windows of model.context; the shorter ones of a curriculum are more.
    const std::int64_t rows =
        config.of_text() ? t.batch_tokens / std::max<std::int64_t>(context, 1) : config.task.batch;
    need(rows < 1 || t.accumulate <= rows, "train.accumulate",
         "must be at most " + std::to_string(rows) + ", the rows of a step");
    need(t.learning_rate > 0, "train.learning_rate", "must be above 0");
    need(t.beta1 < 1, "train.beta1", "must be 0 to below 1");
    need(t.beta2 < 1, "train.beta2", "must be 0 to below 1");
    need(t.epsilon > 0, "train.epsilon", "must be above 0");
    need(t.average < 1, "train.average", "must be 0 to below 1");
    need(t.dropout < 1, "train.dropout", "must be 0 to below 1");
    need(t.embedding_dropout < 1, "train.embedding_dropout", "must be 0 to below 1");
    need(t.score_dropout < 1, "train.score_dropout", "must be 0 to below 1");
    const std::int64_t last = std::max(config.model.layers, config.model.encoder_layers) - 1;
    need(t.drop_path * static_cast<double>(last) < 1, "train.drop_path",
         "must be below 1 / " + std::to_string(last) + ", since layer n is passed over with " +
             "probability n times this");
    need(t.spike_above > 1, "train.spike_above", "must be above 1");
    need(t.patience == 0 || config.eval.every > 0, "train.patience", "needs eval.every above 0");
    need(t.keep_best == "off" || config.eval.every > 0, "train.keep_best",
         "needs eval.every above 0");
    need(t.keep_best != "right" || !config.of_text(), "train.keep_best",
         "must be off or bits where text is learnt");
    need(config.of_text() || config.eval.probe_every == 0, "eval.probe_every",
         "must be 0 for a task: heads are measured on a text");
    curriculum(t, context);
  }

  void curriculum(const TrainSection& t, std::int64_t context) {
    double sum = 0;
    for (const CurriculumStage& stage : t.curriculum) {
      need(stage.length >= 1 && stage.length <= context, "train.curriculum",
           "a length of " + std::to_string(stage.length) + " must be 1 to model.context, " +
               std::to_string(context) + "; train.curriculum=[] leaves all windows at that");
      need(stage.share >= 0, "train.curriculum", "shares must be 0 or more");
      sum += stage.share;
    }
    need(sum <= 1 + 1e-9, "train.curriculum", "shares must not add up to more than 1");
  }

  formats::ConfigProblems& problems_;
};

// The fields of a section and its own, with their values in `given`.
class FieldLister {
 public:
  FieldLister(const json& given, std::string prefix, std::vector<protocol::ConfigField>& fields)
      : given_(given), prefix_(std::move(prefix)), fields_(fields) {}
  template <class T>
  void operator()(const char* name, T& fallback, const protocol::About& about = {}) {
    static const json nothing;
    const bool there = given_.is_object() && given_.contains(name);
    const json& own = there ? given_.at(name) : nothing;
    if constexpr (protocol::detail::HasFields<T>) {
      FieldLister inner(own, prefix_ + name + ".", fields_);
      fallback.fields(inner);
    } else if (std::string_view(name) != "encoding") {
      protocol::ConfigField field{.key = prefix_ + name, .help = about.help};
      if (*about.unit) field.help += std::string(" (") + about.unit + ")";
      field.choices = protocol::choices_of(about);
      field.fallback = protocol::to_json_form(fallback);
      field.value = own.is_null() ? field.fallback : own;
      if (std::isfinite(about.low)) field.low = about.low;
      if (std::isfinite(about.high)) field.high = about.high;
      fields_.push_back(std::move(field));
    }
  }

 private:
  const json& given_;
  std::string prefix_;
  std::vector<protocol::ConfigField>& fields_;
};

void collect_keys(const json& object, const std::string& prefix, std::vector<std::string>& keys) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      collect_keys(value, prefix + name + ".", keys);
    } else {
      keys.push_back(prefix + name);
    }
  }
}

json read_value(std::string_view text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json(std::string(text)) : value;
}

}  // namespace

RunConfig run_config_from_json(const json& given, const std::string& where) {
  if (!given.is_object()) {
    throw formats::bad_input("a run configuration must be a JSON object", where);
  }
  formats::ConfigProblems problems;
  Checker(problems).object(schema(), given, "");
  problems.throw_if_any(where);
  RunConfig config = protocol::from_json_form<RunConfig>(given);
  FieldChecker checker(problems, "");
  config.fields(checker);
  RangeChecker(problems).check(config);
  problems.throw_if_any(where);
  return config;
}

std::string note_of_atomic_dq(const TrainSection& train) {
  const bool on_device = train.device != "cpu" || train.backend == "cuda-unverified";
  if (!train.atomic_dq || (on_device && train.backend != "plain")) return {};
  return "train.atomic_dq changes nothing here: the CUDA kernels alone add gradients up atomically";
}

json to_json(const RunConfig& config) { return protocol::to_json_form(config); }

json with_defaults(const json& config) {
  json whole = schema();
  whole.merge_patch(config);
  return whole;
}

json as_noted(const json& config) {
  json whole = with_defaults(config);
  json& device = whole["train"]["device"];
  if (!device.is_string()) return whole;
  const auto name = device.get<std::string>();
  device = name.substr(0, name.find(':'));
  return whole;
}

RunConfig run_config_from_file(const std::filesystem::path& path) {
  formats::JsonRules rules;
  rules.duplicate_keys = formats::DuplicateKeys::refuse;
  return run_config_from_json(formats::json_from_file(path, rules), path.string());
}

void apply_setting(json& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos || equals == 0) {
    throw formats::bad_usage("a setting must have the form key=value", std::string(assignment),
                             "for example --set train.steps=200");
  }
  const std::string key(assignment.substr(0, equals));
  const bool option_of_encoding = key.starts_with("encoding.") && key.size() > 9;
  const auto keys = known_keys();
  if (!option_of_encoding && std::find(keys.begin(), keys.end(), key) == keys.end()) {
    throw formats::bad_usage(unknown_key_sentence(key), key);
  }
  const std::size_t dot = key.find('.');
  json& section = config[key.substr(0, dot)];
  if (section.is_null()) section = json::object();
  section[key.substr(dot + 1)] = read_value(assignment.substr(equals + 1));
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  json object = schema();
  object["encoding"] = {{"key", ""}};
  collect_keys(object, "", keys);
  return keys;
}

std::vector<protocol::ConfigField> fields_of_config(const json& given) {
  std::vector<protocol::ConfigField> fields;
  RunConfig defaults;
  FieldLister lister(given, "", fields);
  defaults.fields(lister);
  return fields;
}

std::vector<std::string> differing_keys(const json& a, const json& b) {
  std::set<std::string> keys;
  const std::function<void(const json&, const json&, const std::string&)> compare =
      [&](const json& x, const json& y, const std::string& key) {
        if (!x.is_object() || !y.is_object()) {
          if (x != y) keys.insert(key);
          return;
        }
        const std::string prefix = key.empty() ? "" : key + ".";
        for (const auto& [name, value] : x.items()) {
          compare(value, y.contains(name) ? y.at(name) : json(), prefix + name);
        }
        for (const auto& [name, value] : y.items()) {
          if (!x.contains(name)) keys.insert(prefix + name);
        }
      };
  compare(a, b, "");
  return {keys.begin(), keys.end()};
}

}  // namespace phasescope::training
