#include "protocol/messages/reproduce.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "app/claims/claim_sheet.h"
#include "app/claims/desk_runs.h"
#include "app/claims/verdict.h"
#include "app/figures/intervals.h"
#include "app/outputs/paper_table.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "app/window/session.h"
#include "formats/error.h"
#include "formats/folder_listing.h"
#include "protocol/error_info.h"
#include "protocol/messages/sweep.h"

namespace phasescope::app {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::About;
using protocol::ClaimRow;
using protocol::MeasuredNumber;
using protocol::ReproduceResult;

// What is asked of a paper's claims. No request of the worker: their commands are.
struct ReproduceRequest {
  static constexpr const char* method = "reproduce";
  static constexpr const char* verb = "reproduce";
  std::string paper, only;
  std::string job = "out/reproduce", kept;
  bool desk = false;
  double budget = 0;
  template <class V>
  void fields(V& v) {
    v("paper", paper,
      About{.help = "arXiv number or name, e.g. 2509.12635 (default: all papers)",
            .argument = "PAPER"});
    v("desk", desk,
      About{.help =
                "run the desk forms that are missing, on the cpu as those that are kept were; a "
                "claim's own command can be given a device (otherwise what is there is read)"});
    v("only", only, About{.help = "claims whose item has these words, e.g. 'Table 2'"});
    v("job", job,
      About{.help = "folder that keeps what was measured and trained; the same command goes on "
                    "there"});
    v("kept", kept,
      About{.help = "folder of what was measured, small enough to be kept with the sources: what "
                    "stands there from other days counts, and what is measured is added; without "
                    "--desk it alone counts, whatever this machine has in --job"});
    v("budget", budget,
      About{.help = "minutes after which nothing is begun and trainings are saved (0: none)",
            .low = 0,
            .high = 1e6});
  }
};

std::string number_words(const MeasuredNumber& number) {
  if (!number.words.empty()) return number.name + " " + number.words;
  const bool exact = number.low == protocol::IntervalEnd(number.value) && number.n == 0;
  return number.name + " " +
         (exact ? widgets::short_number(number.value)
                : with_ends(number.value, number.low, number.high) +
                      (number.n > 0 ? ", n " + std::to_string(number.n) : ""));
}

std::string list_of(const std::vector<MeasuredNumber>& numbers) {
  std::string words;
  for (const MeasuredNumber& one : numbers) {
    words += (words.empty() ? "" : "; ") + number_words(one);
  }
  return words;
}

json cells_of(const ClaimRow& row) {
  std::string published;
  for (const protocol::PublishedNumber& one : row.published) {
    published +=
        (published.empty() ? "" : "; ") + one.name + " " + widgets::short_number(one.value);
  }
  std::string measured = list_of(row.measured);
  if (!row.differences.empty()) measured += "; " + list_of(row.differences);
  return {{"paper", row.paper},     {"item", row.item},     {"claim", row.claim},
          {"published", published}, {"measured", measured}, {"verdict", row.verdict},
          {"why", row.why},         {"limits", row.limits}, {"command", row.command},
          {"seconds", row.seconds}};
}

Table claims_table(std::string title, const std::vector<ClaimRow>& rows,
                   std::vector<std::string> columns) {
  Table table{.title = std::move(title), .columns = std::move(columns)};
  for (const ClaimRow& row : rows) table.rows.push_back(cells_of(row));
  return table;
}

// As a page has it, and, narrower, the terminal.
Table paper_table(const std::string& title, const std::vector<ClaimRow>& rows, bool page) {
  std::vector<std::string> columns = {"item", "claim", "published", "measured", "verdict", "why"};
  if (!page) std::erase(columns, "claim");
  Table table = claims_table(title, rows, std::move(columns));
  table.notes = {"published numbers are the paper's own, of its models, data and tokens"};
  return table;
}

// All of it, for files.
Table whole_table(const std::vector<ClaimRow>& rows) {
  Table table = claims_table("claims", rows,
                             {"paper", "item", "claim", "published", "measured", "verdict", "why",
                              "limits", "command", "seconds"});
  table.for_files = true;
  return table;
}

// What no table holds: the limits and the commands, with the items that have them.
std::string details_of(const std::vector<ClaimRow>& rows) {
  std::vector<std::pair<std::string, std::string>> details;  // and their items
  for (const ClaimRow& row : rows) {
    std::string words = row.limits;
    if (!row.command.empty()) {
      words += (row.limits.empty() ? "`" : " `") + row.command + "`";
      if (row.seconds > 0) words += ", " + widgets::short_number(row.seconds) + " s";
    }
    const auto known = std::ranges::find(details, words, &decltype(details)::value_type::first);
    if (known == details.end()) {
      details.emplace_back(std::move(words), row.item);
    } else {
      known->second += "; " + row.item;
    }
  }
  std::string text;
  for (const auto& [words, items] : details) text += "- **" + items + "**: " + words + ".\n";
  return text;
}

void count(ReproduceResult& result) {
  const auto of = [&](const char* verdict) {
    return std::ranges::count(result.rows, std::string(verdict), &ClaimRow::verdict);
  };
  result.agrees = of("agrees"), result.disagrees = of("disagrees");
  result.cannot_tell = of("cannot tell"), result.not_run = of("not run");
}

std::string counts_in_words(const ReproduceResult& result) {
  return std::to_string(result.agrees) + " agree, " + std::to_string(result.disagrees) +
         " disagree, " + std::to_string(result.cannot_tell) + " cannot be told, " +
         std::to_string(result.not_run) + " were not run";
}

// Which tasks of experiments at desk size are learnt at all.
constexpr const char* kTaskSweep = "sample_configs/sweeps/desk_tasks.json";

std::string minutes(double seconds) { return widgets::short_number(seconds / 60) + " min"; }

// A row for each task: what guessing gets, what training comes to, and when it is below.
Table tasks_table(const protocol::SweepResult& sweep) {
  Table table{.title = "tasks at desk size: is the loss below that of the blind guesser?",
              .columns = {"task", "step", "of", "time", "blind guesser, bits", "loss, bits",
                          "blind guesser, right", "right", "below from"}};
  for (const protocol::SweepCell& cell : sweep.cells) {
    if (cell.step == 0) continue;
    const std::string from = cell.below_blind_step
                                 ? "step " + std::to_string(*cell.below_blind_step) + ", " +
                                       minutes(cell.below_blind_seconds.value_or(0))
                                 : std::string(cell.blind_bits ? "not yet" : "no such guesser");
    json row = {{"task", cell.group},
                {"step", cell.step},
                {"of", cell.steps},
                {"time", minutes(cell.seconds)},
                {"below from", from}};
    const auto add = [&row](const char* name, const std::optional<double>& value) {
      if (value) row[name] = *value;
    };
    add("blind guesser, bits", cell.blind_bits), add("loss, bits", cell.validation_bits);
    add("blind guesser, right", cell.blind_right), add("right", cell.validation_right);
    if (cell.state == "done" && cell.blind_bits && !cell.below_blind_step) {
      row["below from"] = "never, in these steps";
    }
    table.rows.push_back(std::move(row));
  }
  table.notes = {
      "the blind guesser knows a sample's length and each answer's place, and not the "
      "input; losses are of validation samples, which are not trained on"};
  return table;
}

// A row for a sweep: how many of its trainings, and their evals, are done.
json progress_of(const std::string& name, const protocol::SweepResult& sweep, bool evaluates) {
  std::int64_t done = 0;
  double seconds = 0;
  for (const protocol::SweepCell& cell : sweep.cells) {
    done += cell.state == "done" && (!evaluates || cell.evaluated == "done") ? 1 : 0;
    seconds += cell.seconds;
  }
  return {{"sweep", name},
          {"done", done},
          {"of", sweep.cells.size()},
          {"core hours", std::round(seconds / 36) / 100}};
}

// Where a sweep agrees with the published order, and where not.
std::string sentence_of(const std::vector<const ClaimRow*>& rows) {
  std::map<std::string, std::string> items;  // by verdict
  for (const ClaimRow* row : rows) {
    std::string& list = items[row->verdict];
    list += (list.empty() ? "" : "; ") + row->paper + ", " + row->item + " (" + row->claim;
    list += row->verdict == "cannot tell" ? ": " + row->why + ")" : ")";
  }
  std::string text;
  for (const auto& [verdict, words] : {std::pair("agrees", "It agrees with "),
                                       {"disagrees", "It disagrees with "},
                                       {"cannot tell", "It cannot tell "},
                                       {"not run", "Not measured yet: "}}) {
    if (items.contains(verdict)) text += words + items[verdict] + ". ";
  }
  return text.empty() ? text : text + "\n";
}

class ReproduceVerb : public Verb {
 public:
  std::string name() const override { return "reproduce"; }
  std::string help() const override {
    return "a paper's claims: published, measured here, and whether they agree";
  }
  std::string example() const override {
    return "phasescope reproduce 2501.00712 --desk --only 'Table 3' --out out/claims\n"
           "phasescope reproduce --out out/claims/all.md";
  }
  std::string missing_forms() const override { return ".svg .pdf .png .npy .safetensors"; }
  void declare(Options& options) override {
    options.request(request_, Options::Arguments::optional);
  }

  Output run(Run& run) override {
    if (request_.budget > 0 && !request_.desk) {
      throw formats::bad_usage("nothing is run that could take long", "--budget", "add --desk");
    }
    if (kept_alone() && !run.common().remote.empty()) {
      throw formats::bad_usage("what is kept is read on this machine", "--remote",
                               "leave it out, or add --desk");
    }
    if (kept_alone() && !fs::is_directory(request_.kept)) {
      throw formats::bad_input("there is no such folder, and nothing was kept: " + request_.kept,
                               "--kept", "check the path, or add --desk, which makes it");
    }
    sheets_ = claim_sheets(assets_folder() / "claims", request_.paper);
    DeskRuns desk(run, desk_options());
    Output output;
    run_missing(desk);
    ReproduceResult result;
    for (const ClaimSheet& sheet : sheets_) add_paper(sheet, desk, run, result, output);
    for (const auto& words : wanted_sweeps()) {
      if (words[1] != kTaskSweep) add_sweep(words, desk, result.rows, output);
    }
    if (output.tables.empty()) {
      throw formats::bad_usage("no claim's item has these words", "--only",
                               "reproduce without it lists all");
    }
    count(result);
    std::ranges::move(measured_, std::back_inserter(output.tables));
    if (wants_tasks()) add_tasks(desk, output);
    output.page = "# Claims of the papers, beside what was measured here\n\nOf the claims " +
                  counts_in_words(result) + ".\n" + markdown_of_progress() + sweeps_ + output.page;
    output.tables.insert(output.tables.begin(), whole_table(result.rows));
    output.result = protocol::to_json_form(result);
    output.text = counts_in_words(result) + "\n";
    output.status = cancelled_ || run.interrupted() ? 130 : 0;
    return output;
  }

 private:
  bool kept_alone() const { return !request_.kept.empty() && !request_.desk; }

  std::string markdown_of_progress() const {
    return progress_.rows.empty() ? "" : "\n" + markdown_of(progress_);
  }

  DeskRunOptions desk_options() const {
    DeskRunOptions options{.folder = request_.job, .run_missing = request_.desk};
    options.kept = request_.kept, options.kept_alone = kept_alone();
    options.needed = [this](const std::vector<std::string>& words, const json& result) {
      std::vector<const Claim*> claims;
      for (const ClaimSheet& sheet : sheets_) {
        for (const Claim& claim : sheet.claims) {
          if (claim.desk == words) claims.push_back(&claim);
        }
      }
      return needed_of(result, claims);
    };
    if (request_.budget > 0) {
      options.until =
          std::chrono::steady_clock::now() +
          std::chrono::milliseconds(static_cast<std::int64_t>(60'000 * request_.budget));
    }
    return options;
  }

  // What is no training takes minutes in all and goes before what takes hours.
  void run_missing(DeskRuns& desk) {
    if (!request_.desk) return;
    try {
      for (const ClaimSheet& sheet : sheets_) {
        for (const Claim& claim : sheet.claims) {
          if (is_wanted(claim) && !claim.desk.empty() && !is_sweep(claim)) desk.of(claim.desk);
        }
      }
      desk.run_by_seeds(wanted_sweeps());
    } catch (const protocol::RequestError& error) {
      if (error.info().code != protocol::error_code::cancelled) throw;
      cancelled_ = true;  // what there is is shown
    }
  }

  static bool is_sweep(const Claim& claim) {
    return !claim.desk.empty() && claim.desk[0] == "sweep";
  }

  bool is_wanted(const Claim& claim) const {
    return claim.item.find(request_.only) != std::string::npos;
  }

  // What no paper's claim is about is shown where everything is.
  bool wants_tasks() const { return request_.only.empty() && request_.paper.empty(); }

  // The sweeps of the claims that are asked for, each once, and the tasks, in the order of their
  // runs.
  std::vector<std::vector<std::string>> wanted_sweeps() const {
    std::vector<std::vector<std::string>> sweeps;
    for (const ClaimSheet& sheet : sheets_) {
      for (const Claim& claim : sheet.claims) {
        const bool sweep = is_wanted(claim) && is_sweep(claim);
        if (sweep && std::ranges::find(sweeps, claim.desk) == sweeps.end()) {
          sweeps.push_back(claim.desk);
        }
      }
    }
    if (wants_tasks()) sweeps.push_back({"sweep", kTaskSweep});
    order_sweeps(sweeps);
    return sweeps;
  }

  void add_tasks(DeskRuns& desk, Output& output) {
    if (!formats::is_file(kTaskSweep)) return;  // not the project's folder
    const DeskRun& measured = desk.of({"sweep", kTaskSweep});
    output.whole = output.whole && measured.whole;
    if (!measured.result.is_object()) return;
    const auto sweep = protocol::from_json_form<protocol::SweepResult>(measured.result);
    progress_.rows.push_back(progress_of(kTaskSweep, sweep, false));
    Table table = tasks_table(sweep);
    if (table.rows.empty()) return;
    sweeps_ += "\n" + markdown_of(table) + "\n`" + desk.line_of({"sweep", kTaskSweep}) + "`\n";
    measured_.push_back(std::move(table));
  }

  void add_paper(const ClaimSheet& sheet, DeskRuns& desk, Run& run, ReproduceResult& result,
                 Output& output) {
    std::vector<ClaimRow> rows;
    for (const Claim& claim : sheet.claims) {
      if (!is_wanted(claim)) continue;
      run.show_progress(-1, sheet.paper + ", " + claim.item);
      rows.push_back(row_of(sheet, claim, desk, output));
    }
    if (rows.empty()) return;
    const std::string title = sheet.paper + ": " + sheet.title;
    output.tables.push_back(paper_table(title, rows, false));
    output.page += "\n" + markdown_of(paper_table(title, rows, true)) + "\n" + details_of(rows);
    std::ranges::move(rows, std::back_inserter(result.rows));
  }

  // What a sweep has come to, and what that says of these claims, of whichever papers.
  void add_sweep(const std::vector<std::string>& words, DeskRuns& desk,
                 const std::vector<ClaimRow>& rows, Output& output) {
    const json& result = desk.of(words).result;
    if (!result.is_object()) return;
    const auto measured = protocol::from_json_form<protocol::SweepResult>(result);
    progress_.rows.push_back(progress_of(words[1], measured, true));
    const protocol::EvalResult& eval = measured.eval;
    Table table = results_table(eval, names_in(eval));
    if (table.rows.empty()) return;
    table.title = words[1] + ": " + table.title;
    std::vector<const ClaimRow*> about;
    for (const ClaimRow& row : rows) {
      if (row.command == desk.line_of(words)) about.push_back(&row);
    }
    sweeps_ += "\n" + markdown_of(table) + "\n" + sentence_of(about);
    output.figures.push_back(eval_figure(eval, names_in(eval)));
    output.figures.back().id += "_" + fs::path(words[1]).stem().string();
    measured_.push_back(std::move(table));
  }

  ClaimRow row_of(const ClaimSheet& sheet, const Claim& claim, DeskRuns& desk, Output& output) {
    ClaimRow row{.paper = sheet.paper,
                 .item = claim.item,
                 .claim = claim.claim,
                 .unit = claim.unit,
                 .published = claim.published,
                 .limits = claim.limits};
    if (claim.desk.empty()) {
      row.verdict = "cannot tell", row.why = "no command here measures it";
      return row;
    }
    row.command = desk.line_of(claim.desk);
    fill(claim, desk, row, output);
    return row;
  }

  void fill(const Claim& claim, DeskRuns& desk, ClaimRow& row, Output& output) {
    try {
      const DeskRun& measured = desk.of(claim.desk);
      row.why = measured.problem, row.seconds = measured.seconds;
      output.whole = output.whole && measured.whole;
      if (measured.result.is_null()) {
        if (measured.tried) row.verdict = "cannot tell";
        return;
      }
      judge(claim, measured.result, row);
      if (!measured.whole && row.measured.size() < claim.measured.size()) row.verdict = "not run";
      if (!measured.problem.empty()) row.why += "; " + measured.problem;
    } catch (const protocol::RequestError& error) {
      if (error.info().code != protocol::error_code::cancelled) throw;
      cancelled_ = true;
    }
  }

  ReproduceRequest request_;
  std::vector<ClaimSheet> sheets_;
  std::vector<Table> measured_;
  Table progress_{.title = "How far the trainings are",
                  .columns = {"sweep", "done", "of", "core hours"},
                  .notes = {"core hours: of steps alone, on a core each; the next run goes on"}};
  std::string sweeps_;  // Markdown
  bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<Verb> reproduce_verb() { return std::make_unique<ReproduceVerb>(); }

}  // namespace phasescope::app
