#include "app/verbs/sweep_plan.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/near_names.h"
#include "formats/utf8.h"

namespace phasescope::app {

namespace {

using nlohmann::json;

constexpr std::size_t kMostJobs = 10'000;
constexpr formats::JsonRules kEachKeyOnce{.duplicate_keys = formats::DuplicateKeys::refuse};
constexpr const char* kSeed = "train.seed";

void require_known_keys(const json& plan, const std::string& where) {
  static const std::vector<std::string> known = {"base", "runs", "set", "grid", "jobs", "eval"};
  for (const auto& [key, value] : plan.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    throw formats::bad_input("no such key of a sweep" + formats::near_names(key, known),
                             where + ", key " + key);
  }
}

// Sets "train.steps" of a run configuration; "encoding" takes an encoding's name or its object.
void set_key(json& config, const std::string& key, const json& value) {
  if (key == "encoding") {
    config[key] = value.is_string() ? json{{"key", value}} : value;
    return;
  }
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == key.size()) {
    throw formats::bad_input(
        "a sweep sets \"encoding\" or keys like train.steps, not " + formats::in_quotes(key),
        "key " + key);
  }
  json& section = config[key.substr(0, dot)];
  if (section.is_null()) section = json::object();
  section[key.substr(dot + 1)] = value;
}

// "rope", "tapa phase_gain 0.1", "3".
std::string words_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return value.dump();
  std::string words = value.value("key", "");
  for (const auto& [name, option] : value.items()) {
    if (name != "key") words += (words.empty() ? "" : " ") + name + " " + words_of(option);
  }
  return words;
}

// Letters, digits, dots and dashes alone.
std::string as_name(std::string text) {
  for (char& c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  return text;
}

// The same seed twice would count as two trainings.
void require_once(const json& values, const std::string& where) {
  for (const json& value : values) {
    if (std::ranges::count(values, value) == 1) continue;
    throw formats::bad_input("a value stands twice in its list: " + value.dump(), where);
  }
}

using Choice = std::vector<std::pair<std::string, json>>;  // a value for each key of the grid

std::vector<Choice> choices_of(const json& grid, const std::string& where) {
  std::vector<Choice> choices(1);
  for (const auto& [key, values] : grid.items()) {
    if (!values.is_array() || values.empty()) {
      throw formats::bad_input("a grid has a list of values for each key", where + ", key " + key);
    }
    require_once(values, where + ", key " + key);
    std::vector<Choice> longer;
    for (const Choice& choice : choices) {
      for (const json& value : values) {
        longer.push_back(choice);
        longer.back().emplace_back(key, value);
      }
    }
    choices = std::move(longer);
    if (choices.size() > kMostJobs) {
      throw formats::bad_input("a sweep has at most 10000 jobs", where + ", key grid");
    }
  }
  return choices;
}

// Which value of its list the choice has for the seed.
std::size_t seed_of(const Choice& choice, const json& grid) {
  const auto chosen = std::ranges::find(choice, kSeed, &Choice::value_type::first);
  if (chosen == choice.end()) return 0;
  const json& seeds = grid.at(kSeed);
  return static_cast<std::size_t>(std::ranges::find(seeds, chosen->second) - seeds.begin());
}

// A seed of everything goes before the next seed of anything: a half-finished table compares like
// with like.
void order_by_seed(std::vector<Choice>& choices, const json& grid) {
  if (!grid.contains(kSeed)) return;
  std::ranges::stable_sort(choices, {}, [&](const Choice& one) { return seed_of(one, grid); });
}

// A configuration that the grid is laid over; the only one of a sweep has no name.
struct SweepBase {
  std::string name;
  json config;
};

SweepJob job_of(const SweepBase& base, const Choice& choice) {
  SweepJob job{.name = as_name(base.name), .group = base.name, .config = base.config};
  for (const auto& [key, value] : choice) {
    set_key(job.config, key, value);
    job.name += (job.name.empty() ? "" : "_") + as_name(key + "-" + words_of(value));
    if (key == kSeed) continue;
    const std::string words = key == "encoding" ? words_of(value) : key + " " + words_of(value);
    job.group += (job.group.empty() ? "" : ", ") + words;
  }
  if (job.name.empty()) job.name = "run";
  if (job.group.empty()) job.group = "all";
  return job;
}

// Gives the last job a folder of its own. What was written in two ways, "rope" and {"key": "rope"},
// is one training all the same.
void tell_apart(std::vector<SweepJob>& jobs, const std::string& where) {
  SweepJob& last = jobs.back();
  const std::string name = last.name;
  for (const SweepJob& job : jobs) {
    if (&job == &last || (job.name != name && !job.name.starts_with(name + "_"))) continue;
    if (job.group != last.group || job.config != last.config) continue;
    throw formats::bad_input("two jobs of the sweep are the same: " + job.name,
                             where + ", key grid");
  }
  for (int n = 2; std::ranges::count(jobs, last.name, &SweepJob::name) > 1; ++n) {
    last.name = name + "_" + std::to_string(n);
  }
}

json base_of(const json& plan, const std::filesystem::path& file) {
  const json base = plan.value("base", json());
  if (base.is_object()) return base;
  if (base.is_string()) {
    return formats::json_from_file(file.parent_path() / base.get<std::string>(), kEachKeyOnce);
  }
  throw formats::bad_input("a sweep has a base: a run configuration or its path",
                           file.string() + ", key base");
}

void set_all(json& config, const json& set, const std::string& where) {
  if (!set.is_object()) throw formats::bad_input("must be an object", where + ", key set");
  for (const auto& [key, value] : set.items()) set_key(config, key, value);
}

std::vector<SweepBase> bases_of(const json& plan, const std::filesystem::path& file) {
  if (!plan.contains("runs")) return {{"", base_of(plan, file)}};
  const std::string where = file.string() + ", key runs";
  if (plan.contains("base") || !plan.at("runs").is_array() || plan.at("runs").empty()) {
    throw formats::bad_input("\"runs\" is a list in place of \"base\"", where);
  }
  std::vector<SweepBase> bases;
  for (const json& run : plan.at("runs")) {
    if (!run.is_object() || run.value("name", "").empty()) {
      throw formats::bad_input("each run has a \"name\" and a \"base\"", where);
    }
    const std::string name = run.at("name").get<std::string>();
    if (std::ranges::find(bases, name, &SweepBase::name) != bases.end()) {
      throw formats::bad_input("two runs have one name: " + formats::in_quotes(name), where);
    }
    bases.push_back({name, base_of(run, file)});
    set_all(bases.back().config, run.value("set", json::object()), where);
  }
  return bases;
}

}  // namespace

SweepPlan sweep_plan(const std::filesystem::path& file) {
  const json plan = formats::json_from_file(file, kEachKeyOnce);
  const std::string where = file.string();
  if (!plan.is_object()) throw formats::bad_input("a sweep is a JSON object", where);
  require_known_keys(plan, where);
  std::vector<SweepBase> bases = bases_of(plan, file);
  const json grid = plan.value("grid", json::object());
  if (!grid.is_object()) throw formats::bad_input("must be an object", where + ", key grid");
  for (SweepBase& base : bases) set_all(base.config, plan.value("set", json::object()), where);
  SweepPlan sweep{.eval = plan.value("eval", json())};
  const json jobs = plan.value("jobs", json(1));
  if (!jobs.is_number_integer() || jobs < 1 || jobs > 1024) {
    throw formats::bad_input("must be a whole number from 1 to 1024", where + ", key jobs");
  }
  sweep.at_once = jobs.get<std::int64_t>();
  if (!sweep.eval.is_null() && (!sweep.eval.is_object() || !sweep.eval.contains("task"))) {
    throw formats::bad_input("must be an object with a \"task\"", where + ", key eval");
  }
  std::vector<Choice> choices = choices_of(grid, where);
  order_by_seed(choices, grid);
  for (const Choice& choice : choices) {
    for (const SweepBase& base : bases) {
      sweep.jobs.push_back(job_of(base, choice));
      sweep.jobs.back().seed = seed_of(choice, grid);
      tell_apart(sweep.jobs, where);
    }
  }
  return sweep;
}

}  // namespace phasescope::app
