#include "app/claims/desk_runs.h"

#include <algorithm>

#include "app/cli/cli.h"
#include "formats/error.h"
#include "formats/file_system.h"
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
  std::error_code error;
  const bool file = word.ends_with(".json") && fs::is_regular_file(word, error);
  return file ? formats::sha256_of_file(word) : "";
}

}  // namespace

std::vector<std::string> DeskRuns::whole_command(std::vector<std::string> words) const {
  if (!is_sweep(words) || words.size() < 2) return words;
  words.insert(words.end(),
               {"--job", (options_.folder / "jobs" / fs::path(words[1]).stem()).string()});
  return words;
}

std::string DeskRuns::line_of(const std::vector<std::string>& words) const {
  std::string line = "phasescope";
  for (const std::string& word : whole_command(words)) line += " " + protocol::shell_word(word);
  return line;
}

fs::path DeskRuns::kept_at(const std::vector<std::string>& words) const {
  std::string all = PHASESCOPE_VERSION;
  for (const std::string& word : words) all += "\n" + word + file_hash(word);
  return options_.folder / "results" / (formats::sha256_hex(all).substr(0, 16) + ".json");
}

DeskRun DeskRuns::kept(const fs::path& file) const {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {.problem = kNotRun};
  try {
    DeskRun run = protocol::from_json_form<DeskRun>(formats::json_from_file(file));
    if (!run.result.is_null()) return run;
  } catch (const std::exception&) {  // cut short or written by another hand: it is run again
  }
  return {.problem = kNotRun};
}

void DeskRuns::run_now(const std::vector<std::string>& words, DeskRun& known) const {
  std::vector<std::string> command = whole_command(words);
  const bool late = options_.until && Clock::now() >= *options_.until;
  const bool reading = !options_.run_missing || late || run_.interrupted();
  if (reading && !is_sweep(words)) return;
  if (reading) command.emplace_back("--table");
  known.tried = true;
  const auto begun = Clock::now();
  try {
    TimedRun run(run_, line_of(words), options_.until);
    if (!reading) run_.say(line_of(words));
    Output output = output_of(run, command);
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
  DeskRun known = kept(file);
  const double before = known.seconds;
  if (!known.whole) run_now(words, known);
  if (!known.result.is_null() && known.seconds > before) {
    known.command = line_of(words);
    formats::make_directories(formats::real_file_system(), file.parent_path());
    formats::write_file_atomically(
        formats::real_file_system(), file,
        protocol::to_json_form(known).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  }
  return done_.emplace(words, std::move(known)).first->second;
}

}  // namespace phasescope::app
