#include "protocol/messages/doctor.h"

#include <algorithm>
#include <cstdlib>

#include "app/cli/doctor_facts.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "protocol/error_info.h"
#include "protocol/messages/worker.h"

namespace phasescope::app {

namespace {

using nlohmann::json;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string fact_words(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string words;
  for (const json& one : value) words += (words.empty() ? "" : ", ") + fact_words(one);
  return words;
}

// What worker.info says of another process, maybe on another host; its end in a sentence where it
// cannot be started.
std::vector<Fact> worker_facts(Run& run) {
  std::vector<Fact> facts;
  try {
    const json info = run.call(protocol::WorkerInfoRequest{}).result;
    for (const auto& [key, value] : info.items()) {
      if (key == "process_id") continue;
      std::string words = key;
      std::ranges::replace(words, '_', ' ');
      facts.push_back({"worker's " + words, fact_words(value)});
    }
  } catch (const protocol::RequestError& error) {
    facts.push_back({"worker", protocol::describe(error.info()),
                     "nothing but the window's recording works without it"});
  }
  return facts;
}

void add(std::vector<Fact>& all, const std::vector<Fact>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

class DoctorVerb : public Verb {
 public:
  std::string name() const override { return "doctor"; }
  std::string help() const override { return "what is there and what is missing, for bug reports"; }
  std::string example() const override { return "phasescope doctor --report"; }
  std::string missing_forms() const override { return kTablesAlone; }
  void declare(Options& options) override {
    options.flag("--report", report_, "a text for bug reports, without user names");
  }
  Output run(Run& run) override {
    std::vector<Fact> facts{{"version", PHASESCOPE_VERSION}};
    add(facts, program_facts());
    add(facts, machine_facts());
    add(facts, graphics_facts());
    add(facts, folder_facts());
    add(facts, worker_facts(run));
    add(facts, variable_facts());
    if (report_) hide_names(facts);
    return output_of(facts);
  }

 private:
  static void hide_names(std::vector<Fact>& facts) {
    std::string user = environment("USER");
    if (user.empty()) user = environment("LOGNAME");
    for (Fact& fact : facts) fact.found = without_names(fact.found, environment("HOME"), user);
  }

  Output output_of(const std::vector<Fact>& facts) const {
    Output output{.result = protocol::to_json_form(protocol::DoctorResult{facts})};
    Table table{.columns = {"what", "found"}};
    for (const Fact& fact : facts) {
      table.rows.push_back({{"what", fact.what}, {"found", fact.found}});
      if (!fact.hint.empty()) table.notes.push_back(fact.what + ": " + fact.hint);
      if (fact.what == "worker") output.status = 1;
      if (report_) output.text += fact.what + ": " + fact.found + "\n";
    }
    if (!report_) output.tables.push_back(std::move(table));
    if (report_) output.page = "```\n" + output.text + "```\n";
    return output;
  }

  bool report_ = false;
};

}  // namespace

std::unique_ptr<Verb> doctor_verb() { return std::make_unique<DoctorVerb>(); }

}  // namespace phasescope::app
