#include "app/claims/desk_runs.h"

#include <stdlib.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "app/cli/cli.h"
#include "app/verbs/sweep_plan.h"
#include "app/verbs/verbs.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "protocol/error_info.h"
#include "protocol/json_form.h"
#include "protocol/shell_word.h"

namespace phasescope::app {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kNotRun = "it has not been run";

// With the minutes that one seed of all takes on one core.
constexpr const char* kSweepsInOrder[] = {
    "even_pairs",         // 12
    "missing_duplicate",  // 50
    "s5",                 // 50
    "tuning",             // 10
    "addition",           // 95
    "copy_encodings",     // 65
    "tree_rotate",        // 20
    "perplexity",         // 115
    "desk_tasks",         // 105
    "tapa_phase",         // 25
    "cape_forms",         // 50
    "tape_switches",      // 95
};

// The outer run, without its own --out, interrupted at a time too.
class TimedRun : public Run {
 public:
  TimedRun(Run& outer, std::string command, std::optional<Clock::time_point> until)
      : outer_(outer), command_(std::move(command)), until_(until) {
    common_.quiet = outer.common().quiet, common_.remote = outer.common().remote;
  }
  const CommonOptions& common() const override { return common_; }
  protocol::Reply call(const std::string& method, json params) override {
    return outer_.call(method, std::move(params));
  }
  void tell_fallback(const protocol::Provenance& provenance) override {
    outer_.tell_fallback(provenance);
  }
  void say(const std::string& line) override { outer_.say(line); }
  void show_progress(double fraction, const std::string& text) override {
    outer_.show_progress(fraction, text);
  }
  bool interrupted() const override {
    return outer_.interrupted() || (until_ && Clock::now() >= *until_);
  }
  const std::string& command() const override { return command_; }

 private:
  Run& outer_;
  CommonOptions common_;
  std::string command_;
  std::optional<Clock::time_point> until_;
};

bool is_sweep(const std::vector<std::string>& words) { return words.front() == "sweep"; }

// What another file of the same name would make another command.
std::string file_hash(const std::string& word) {
  const bool file = word.ends_with(".json") && formats::is_file(word);
  return file ? formats::sha256_of_file(word) : "";
}

// What a sweep trains and evaluates, bases and all; of a file that is no sweep its own hash.
std::string plan_hash(const std::string& file) {
  try {
    const SweepPlan plan = sweep_plan(file);
    std::string all = plan.eval.dump();
    for (const SweepJob& job : plan.jobs) all += "\n" + job.name + job.config.dump();
    return formats::sha256_hex(all);
  } catch (const formats::Error&) {
    return file_hash(file);
  }
}

std::size_t seeds_of(const std::string& file) {
  std::size_t seeds = 1;
  try {
    for (const SweepJob& job : sweep_plan(file).jobs) seeds = std::max(seeds, job.seed + 1);
  } catch (const formats::Error&) {  // the sweep tells, when it is run
  }
  return seeds;
}

// The objects of a .jsonl file; none where it is not there. Throws Error "bad_input".
std::vector<json> lines_of_json(const std::string& file) {
  std::vector<json> lines;
  if (!formats::is_file(file)) return lines;
  std::istringstream stream(formats::real_file_system().read(file));
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(formats::parse_json(line, file));
  }
  return lines;
}

// An empty folder that is removed with all that is in it.
std::shared_ptr<const fs::path> folder_for_a_while() {
  std::string name = (fs::temp_directory_path() / "phasescope-kept-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw formats::internal_error("no folder can be made to read what is kept in", name);
  }
  return {new fs::path(name), [](const fs::path* path) {
            std::error_code ignored;
            fs::remove_all(*path, ignored);
            delete path;
          }};
}

}  // namespace

void order_sweeps(std::vector<std::vector<std::string>>& sweeps) {
  std::ranges::stable_sort(sweeps, {}, [](const std::vector<std::string>& words) {
    const std::string name = words.size() < 2 ? "" : fs::path(words[1]).stem().string();
    return std::ranges::find(kSweepsInOrder, name) - std::begin(kSweepsInOrder);
  });
}

DeskRuns::DeskRuns(Run& run, DeskRunOptions options) : run_(run), options_(std::move(options)) {
  place_ = options_.kept_alone ? folder_for_a_while()
                               : std::make_shared<const fs::path>(options_.folder);
}

std::vector<std::string> DeskRuns::whole_command(std::vector<std::string> words,
                                                 const fs::path& folder) const {
  if (!is_sweep(words) || words.size() < 2) return words;
  words.insert(words.end(), {"--job", (folder / "jobs" / fs::path(words[1]).stem()).string()});
  if (!options_.kept.empty()) {
    const std::string name = fs::path(words[1]).stem().string() + ".jsonl";
    words.insert(words.end(), {"--kept", (options_.kept / name).string()});
  }
  return words;
}

std::string DeskRuns::line_of(const std::vector<std::string>& words) const {
  std::string line = "phasescope";
  for (const std::string& word : whole_command(words, options_.folder)) {
    line += " " + protocol::shell_word(word);
  }
  return line;
}

fs::path DeskRuns::kept_at(const std::vector<std::string>& words) const {
  std::string all = PHASESCOPE_VERSION;
  for (const std::string& word : words) {
    const bool plan = is_sweep(words) && word.ends_with(".json");
    all += "\n" + word + (plan ? plan_hash(word) : file_hash(word));
  }
  return options_.folder / "results" / (formats::sha256_hex(all).substr(0, 16) + ".json");
}

DeskRun DeskRuns::kept(const fs::path& file) const {
  if (!formats::is_file(file)) return {.problem = kNotRun};
  try {
    DeskRun run = protocol::from_json_form<DeskRun>(formats::json_from_file(file));
    if (!run.result.is_null()) return run;
  } catch (const std::exception&) {  // cut short or written by another hand: it is run again
  }
  return {.problem = kNotRun};
}

bool DeskRuns::may_run() const {
  const bool late = options_.until && Clock::now() >= *options_.until;
  return options_.run_missing && !options_.kept_alone && !late && !run_.interrupted();
}

std::string DeskRuns::file_of_kept() const { return (options_.kept / "commands.jsonl").string(); }

// Which line of the file is a command's: the same words, of the same files.
json DeskRuns::key_of(const std::vector<std::string>& words) const {
  json hashes = json::object();
  for (const std::string& word : words) {
    if (const std::string hash = file_hash(word); !hash.empty()) hashes[word] = hash;
  }
  return {{"words", words}, {"files", std::move(hashes)}};
}

DeskRun DeskRuns::kept_elsewhere(const std::vector<std::string>& words) const {
  if (options_.kept.empty() || is_sweep(words)) return {.problem = kNotRun};
  const json key = key_of(words);
  for (const json& line : lines_of_json(file_of_kept())) {
    if (line.value("of", json()) != key) continue;
    DeskRun run = protocol::from_json_form<DeskRun>(line);
    if (!run.result.is_null()) return run;
  }
  return {.problem = kNotRun};
}

// One line in place of that of the same command, in the order of the commands.
void DeskRuns::keep_elsewhere(const std::vector<std::string>& words, const DeskRun& known) const {
  if (options_.kept.empty() || is_sweep(words) || !known.whole) return;
  std::map<std::string, json> lines;
  for (json& line : lines_of_json(file_of_kept())) {
    std::string command = line.value("command", "");
    lines[std::move(command)] = std::move(line);
  }
  DeskRun small = known;
  if (options_.needed) small.result = options_.needed(words, known.result);
  json line = protocol::to_json_form(small);
  line["of"] = key_of(words), line["version"] = PHASESCOPE_VERSION;
  lines[known.command] = std::move(line);
  std::string text;
  for (const auto& [command, one] : lines) text += one.dump() + "\n";
  formats::make_directories(formats::real_file_system(), options_.kept);
  formats::write_file_atomically(formats::real_file_system(), file_of_kept(), text);
}

void DeskRuns::run_by_seeds(const std::vector<std::vector<std::string>>& sweeps) {
  std::size_t most = 0;
  for (const std::vector<std::string>& words : sweeps) most = std::max(most, seeds_of(words.at(1)));
  for (std::size_t seeds = 1; seeds <= most; ++seeds) {
    for (const std::vector<std::string>& words : sweeps) {
      if (may_run() && seeds <= seeds_of(words.at(1))) run_first_seeds(words, seeds);
    }
  }
}

void DeskRuns::run_first_seeds(const std::vector<std::string>& words, std::size_t seeds) {
  std::vector<std::string> command = whole_command(words, *place_);
  command.insert(command.end(), {"--seeds", std::to_string(seeds)});
  const auto begun = Clock::now();
  try {
    TimedRun run(run_, line_of(words), options_.until);
    run_.say(line_of(words) + ", seed " + std::to_string(seeds));
    output_of(run, command, all_verbs());
  } catch (const protocol::RequestError& error) {
    if (error.info().code == protocol::error_code::cancelled) throw;
    run_.say(protocol::describe(error.info()));
  } catch (const formats::Error& error) {
    run_.say(error.full_text());
  }
  before_[words] += std::chrono::duration<double>(Clock::now() - begun).count();
}

void DeskRuns::run_now(const std::vector<std::string>& words, DeskRun& known) const {
  std::vector<std::string> command = whole_command(words, *place_);
  const bool reading = !may_run();
  if (reading && !is_sweep(words)) return;
  if (reading) command.emplace_back("--table");
  known.tried = true;
  const auto begun = Clock::now();
  try {
    TimedRun run(run_, line_of(words), options_.until);
    if (!reading) run_.say(line_of(words));
    Output output = output_of(run, command, all_verbs());
    known.result = std::move(output.result);
    known.whole = output.whole;
    known.problem = output.whole ? "" : "it has not been run to its end";
  } catch (const protocol::RequestError& error) {
    if (error.info().code == protocol::error_code::cancelled) throw;
    known.problem = protocol::describe(error.info());
  } catch (const formats::Error& error) {
    known.problem = error.full_text();
  }
  if (!reading) known.seconds += std::chrono::duration<double>(Clock::now() - begun).count();
}

const DeskRun& DeskRuns::of(const std::vector<std::string>& words) {
  if (const auto found = done_.find(words); found != done_.end()) return found->second;
  const fs::path file = kept_at(words);
  DeskRun known = options_.kept_alone ? DeskRun{.problem = kNotRun} : kept(file);
  if (!known.whole) {
    if (DeskRun other = kept_elsewhere(words); other.whole) known = std::move(other);
  }
  const double before = known.seconds;
  known.seconds += before_[words];
  if (!known.whole) run_now(words, known);
  if (!known.result.is_null() && known.seconds > before) {
    known.command = line_of(words);
    formats::make_directories(formats::real_file_system(), file.parent_path());
    formats::write_file_atomically(
        formats::real_file_system(), file,
        protocol::to_json_form(known).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
    keep_elsewhere(words, known);
  }
  return done_.emplace(words, std::move(known)).first->second;
}

}  // namespace phasescope::app
