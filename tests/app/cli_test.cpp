// The command line without a worker: parameters, verbs by made-up replies, exit statuses.
#include "app/cli/cli.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/given_input.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verbs.h"
#include "cli_tools.h"
#include "fake_run.h"
#include "formats/error.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/map.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(Options, Ranges) {
  EXPECT_EQ(integer_range("3:17", "--rows"), (std::vector<std::int64_t>{3, 17}));
  EXPECT_THROW(integer_range("3", "--rows"), formats::Error);
  EXPECT_THROW(integer_range("3:", "--rows"), formats::Error);
}

// 17.A10: refused before anything runs, with one sentence that names the option.
TEST(Options, NumbersThatMeanNothingAreRefused) {
  const std::vector<std::vector<std::string>> refused = {
      {"distance", "rope", "--pairs", "0"},
      {"distance", "rope", "--pairs", "-5"},
      {"eval", "perplexity", "rope", "--trials", "-1"},
      {"heads", "rope", "--metrics", ""},
      {"map", "rope", "--size", "999999x999999"},
      {"shift", "rope", "--by", ""},
      {"patterns", "rope", "--distances", "0"},
      {"view", "rope", "--size", "large"},
      {"view", "rope", "--size", "9x9"},
  };
  for (const std::vector<std::string>& words : refused) {
    const std::string said = complaint(words);
    EXPECT_NE(said.find(words[words.size() - 2]), std::string::npos) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
  // In the form that the option itself has.
  for (const std::string size : {"large", "1600", "1600x", "x900", "1600x900x2", "-5x5"}) {
    EXPECT_NE(
        complaint({"view", "rope", "--size", size}).find("expected WxH but got \"" + size + "\""),
        std::string::npos);
  }
}

// 17.A7: as a variable of the shell that is not set leaves them, which stood for the default.
TEST(Options, EmptyWordsAreRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"heads", "rope", "--out", ""}, "--out"},
      {{"heads", "rope", "--remote", ""}, "--remote"},
      {{"heads", "rope", "--device", ""}, "--device"},
      {{"eval", "passkey", "rope", "--job", ""}, "--job"},
      {{"train", "absent.json", "--job", ""}, "--job"},
      {{"duel", "rope", "alibi", "--job", ""}, "--job"},
      {{"view", "rope", "--text", ""}, "--text"},
      {{"view", "rope", "--screenshot", ""}, "--screenshot"},
      {{"view", "rope", "--command", ""}, "--command"},
      {{"view", ""}, "MODEL"},
      {{"import", "", "--out", "out/m"}, "FILE"},
      {{"jobs", "list", ""}, "JOB"},
      {{"heads", "rope", "--corpus="}, "--corpus"},
      {{"heads", "rope", "--out=", "--seed", "3"}, "--out"},
  };
  for (const auto& [words, option] : refused) {
    EXPECT_EQ(complaint(words), "phasescope: expected a word but got \"\" (" + option +
                                    "). give one or leave it out\n");
  }
}

// A verb with two options, whose request the worker refuses.
class RefusedVerb final : public Verb {
 public:
  explicit RefusedVerb(protocol::ErrorInfo error) : error_(std::move(error)) {}
  std::string name() const override { return "refused"; }
  std::string help() const override { return "is refused"; }
  std::string example() const override { return "phasescope refused"; }
  void declare(Options& options) override {
    options.option("--rows", rows_, "rows");
    options.option("--leave-out-first", first_, "first rows");
  }
  Output run(Run&) override { throw protocol::RequestError(error_); }

 private:
  protocol::ErrorInfo error_;
  std::string rows_, first_;
};

// The worker names the fields of a request, which the command line has as options.
TEST(Options, ARefusalOfTheWorkerNamesThem) {
  const auto said = [](const protocol::ErrorInfo& error) {
    Verbs verbs;
    verbs.push_back(std::make_unique<RefusedVerb>(error));
    std::string words[] = {"phasescope", "refused"};
    char* argv[] = {words[0].data(), words[1].data()};
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_program(2, argv, verbs), protocol::exit_status(error.code));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said({"bad_usage", "too many", "leave_out_first", "`rows` 0:4 would fit"}),
            "phasescope: too many (--leave-out-first). --rows 0:4 would fit\n");
  // What is no option of the verb stays, and so does a file of that name.
  EXPECT_EQ(said({"bad_input", "no `cols` and `rows`", "rows", "`"}),
            "phasescope: no `cols` and --rows (rows). `\n");
  EXPECT_EQ(said({"device_unavailable", "cuda:7 is not there", "leave_out_first", ""}),
            "phasescope: cuda:7 is not there (--leave-out-first)\n");
  // The end of a file's name is none, and a field of an input is one of its options.
  EXPECT_EQ(said({"bad_usage", "no sweep", "x.rows", "see `x.rows`"}),
            "phasescope: no sweep (x.rows). see `x.rows`\n");
  EXPECT_EQ(said({"bad_usage", "too many", "input.rows", ""}), "phasescope: too many (--rows)\n");
}

// A verb with such an option, whose answer has notes.
class NotingVerb final : public Verb {
 public:
  std::string name() const override { return "notes"; }
  std::string help() const override { return "has notes"; }
  std::string example() const override { return "phasescope notes"; }
  void declare(Options& options) override { options.option("--query", query_, "a query"); }
  Output run(Run&) override {
    const std::string note = "`query` changes nothing: the tables go as far as `distances` says";
    Output output{.result = {{"note", note}}};
    output.tables.push_back({.title = "t", .columns = {"a"}, .notes = {note}});
    output.figures.push_back({.id = "f", .notes = {note}});
    output.grids.push_back({.id = "g", .notes = {note}});
    return output;
  }

 private:
  std::string query_;
};

// What is no option of the verb stays as it is, as the document does.
TEST(Options, NotesOfAnAnswerNameThem) {
  Verbs verbs;
  verbs.push_back(std::make_unique<NotingVerb>());
  FakeRun run;
  const Output output = output_of(run, {"notes"}, verbs);
  const std::vector<std::string> told = {
      "--query changes nothing: the tables go as far as `distances` says"};
  EXPECT_EQ(output.tables.at(0).notes, told);
  EXPECT_EQ(output.figures.at(0).notes, told);
  EXPECT_EQ(output.grids.at(0).notes, told);
  EXPECT_TRUE(output.result["note"].get<std::string>().starts_with("`query`"));
}

TEST(Options, OfAnInputAreOfOneList) {
  const std::string said = complaint({"map", "rope", "--prompt", "a", "--sample", "addition"});
  EXPECT_NE(said.find("give --text, --prompt, --ids, --inputs or --sample, not several"),
            std::string::npos)
      << said;
  const std::string of_texts =
      complaint({"eval", "perplexity", "rope", "--prompt", "a", "--sample", "passkey"});
  EXPECT_NE(of_texts.find("give --text, --prompt or --sample, not several"), std::string::npos)
      << of_texts;
}

// 17.A10: help is a result too.
TEST(Output, HelpThatCannotBeWrittenIsAnError) {
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  const int full = ::open("/dev/full", O_WRONLY);
  ::dup2(full, STDOUT_FILENO);
  const std::string said = complaint({"models", "--help"});
  ::dup2(before, STDOUT_FILENO);
  ::close(before), ::close(full);
  std::clearerr(stdout);
  EXPECT_NE(said.find("the result could not be written: No space left"), std::string::npos) << said;
}

TEST(Verbs, CompareTellsAnAbsentLoss) {
  FakeRun run;
  protocol::CompareResult compare{.a = "bert", .b = "roformer"};
  compare.loss = {{"a", std::nan("")}, {"b", 2.5}, {"difference", std::nan("")}};
  compare.provenance.note = "bert has no loss";
  run.replies["compare"] = {protocol::to_json_form(compare), {}};
  const Output output = compare_verb()->run(run);
  ASSERT_EQ(output.tables.size(), 2u);
  const std::string text = text_of(output.tables[1]);
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_NE(text.find("bert           -    -     -"), std::string::npos) << text;
  EXPECT_NE(text.find("bert has no loss"), std::string::npos) << text;
}

// Two models of other trained lengths: the longer map is asked for again, as long as the shorter.
TEST(Verbs, MapsOfDifferentLengthsAreComparedAsFarAsBothGo) {
  class Lengths final : public FakeRun {
   public:
    protocol::Reply call(const std::string& method, json params) override {
      FakeRun::replies["map"] =
          reply(params.value("model", "") == "long" ? params.value("length", 128) : 64);
      return FakeRun::call(method, std::move(params));
    }

   private:
    static protocol::Reply reply(std::int64_t tokens) {
      protocol::MapResult map;
      map.tokens = map.row_end = map.column_end = map.height = map.width = tokens;
      protocol::Reply out{protocol::to_json_form(map), {}};
      out.tensors.push_back(protocol::TensorRef::own<float>(
          "map", {tokens, tokens}, std::vector<float>(std::size_t(tokens * tokens))));
      return out;
    }
  };
  Lengths run;
  protocol::CompareResult compare;
  compare.heads = {{0, 1, 0.25}};
  const auto plot = largest_difference(run, compare, {.a = "long", .b = "short"});
  ASSERT_TRUE(plot.has_value());
  EXPECT_EQ(plot->map->rows, 64);
  ASSERT_EQ(run.requests.size(), 3u);
  EXPECT_EQ(run.requests[2].params["model"], "long");
  EXPECT_EQ(run.requests[2].params["length"], 64);
}

TEST(Verbs, GenerateWithoutATokenizerPrintsIds) {
  FakeRun run;
  protocol::GenerateResult written{.model = "x", .ids = {5, 17, 3}};
  written.provenance.note = "ids alone";
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  EXPECT_EQ(generate_verb()->run(run).text, "5 17 3\n");
  ASSERT_EQ(run.said.size(), 1u);
  EXPECT_EQ(run.said[0], "ids alone");
  written.text = "words";
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  EXPECT_EQ(generate_verb()->run(run).text, "words\n");
  written.seconds = {0.02, 0.002, 0.0035, 0.003}, written.cache = "yes";
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  generate_verb()->run(run);
  EXPECT_EQ(run.said.back(),
            "3 ms a token (median), 20 ms the first one with the prompt; cache: yes");
  // Those that fill the cache again have a median of their own; without a cache all are alike.
  written.seconds = {0.02, 0.002, 0.04, 0.03, 0.05}, written.cache = "so";
  written.begun_at = {2, 4}, written.cached = 5;
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  generate_verb()->run(run);
  EXPECT_EQ(run.said.back(),
            "30 ms a token (median), 50 ms each of 2 for which the last tokens of a full context "
            "were read again, 20 ms the first one with the prompt; cache: so");
  written.cached = 0;
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  generate_verb()->run(run);
  EXPECT_EQ(run.said.back(),
            "40 ms a token (median), 20 ms the first one with the prompt; cache: so");
  // Tenths of twenty tokens behind the first are two each.
  written.seconds.assign(21, 0.004), written.begun_at.clear();
  written.seconds[1] = written.seconds[2] = 0.001;
  written.seconds[10] = written.seconds[11] = 0.002;
  written.seconds[19] = written.seconds[20] = 0.003;
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  generate_verb()->run(run);
  EXPECT_EQ(run.said.back(),
            "by token: 1 ms in the first tenth of them, 2 ms in the middle one, 3 ms in the last "
            "(medians)");
  written.head = "L2H1";
  written.tokens = {{.id = 5,
                     .text = "was",
                     .keys = {3, 0},
                     .words = {"it", "And"},
                     .weights = {0.75, 0.125},
                     .sink = {}}};
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  const Output output = generate_verb()->run(run);
  ASSERT_EQ(output.tables.size(), 1u);
  EXPECT_EQ(output.tables[0].rows[0]["key"], "3 it");
  EXPECT_EQ(output.tables[0].rows[0]["weight"], 0.75);
  EXPECT_EQ(output.tables[0].rows[0]["further"], "0 And (0.125)");
}

// Of a sweep: every training, and the evals of what is trained.
TEST(Verbs, TrainAndSweepTakeADevice) {
  const std::string configs = std::string(PHASESCOPE_SOURCE) + "/sample_configs/";
  FakeRun run;
  run.replies["jobs.start"] = {protocol::to_json_form(protocol::JobStatus{}), {}};
  output_of(run, {"train", configs + "desk/rope.json", "--background", "--device", "cuda:1"},
            all_verbs());
  ASSERT_EQ(run.requests.size(), 1u);
  EXPECT_EQ(run.requests[0].params["device"], "cuda:1");
  // It ends with what it is answered.
  EXPECT_THROW(
      output_of(run, {"sweep", configs + "sweeps/copy.json", "--device", "cuda:1"}, all_verbs()),
      protocol::RequestError);
  ASSERT_EQ(run.requests.size(), 2u);
  const json& cells = run.requests[1].params.at("cells");
  ASSERT_GT(cells.size(), 1u);
  for (const json& cell : cells) {
    EXPECT_EQ(cell.at("config").at("train").at("device"), "cuda:1");
    EXPECT_EQ(cell.at("eval").at("device"), "cuda:1");
  }
}

TEST(Verbs, DistanceSendsEveryModelAndTablesEveryHistogram) {
  FakeRun run;
  run.replies["distance"] = {protocol::to_json_form(two_models()), {}};
  const auto verb = distance_verb();
  // declare() fills the verb's members; without a parser the models come by the defaults, so the
  // request is checked through the program's own parser in the process tests.
  const Output output = verb->run(run);
  ASSERT_EQ(run.requests.size(), 1u);
  EXPECT_EQ(run.requests[0].method, "distance");
  ASSERT_EQ(output.tables.size(), 1u);
  EXPECT_EQ(output.tables[0].rows.size(), 4u);
}

TEST(Verbs, NamesAndExamplesFitTogether) {
  for (const auto& verb : all_verbs()) {
    // Whether they run: command_line_test.py.
    EXPECT_NE(verb->example().find("phasescope " + verb->name()), std::string::npos)
        << verb->name();
    EXPECT_FALSE(verb->help().empty()) << verb->name();
  }
}

TEST(Program, BadUsageGivesStatusTwo) {
  EXPECT_EQ(run_words({"info"}), 2);
  EXPECT_EQ(run_words({"map", "rope", "--of", "nonsense"}), 2);
  EXPECT_EQ(run_words({"capture", "rope", "--nonsense"}), 2);
  EXPECT_EQ(run_words({"heads", "rope", "--text", "no-such-file.txt"}), 2);
  EXPECT_EQ(run_words({"heads", "rope", "--prompt", "a", "--text", "b"}), 2);
  EXPECT_EQ(run_words({"heads", "rope", "--prompt", ""}), 2);
  EXPECT_EQ(run_words({"train"}), 2);
}

TEST(Program, ThePlaceOfABenchmarkIsNamedOnceAndLookedAtFirst) {
  EXPECT_EQ(run_words({"bench", "kernels", "--json", "/nowhere/at/all/k.parquet"}), 2);
  EXPECT_EQ(run_words({"bench", "kernels", "a.json", "--out", "b.json"}), 2);
  // Whoever may write anywhere may not write there.
  EXPECT_NE(complaint({"bench", "kernels", "--out", "/proc/x/k.json"}).find("cannot be written to"),
            std::string::npos);
  EXPECT_NE(complaint({"bench", "kernels", "--out", "k.npy"}).find("nothing to write as .npy"),
            std::string::npos);
  EXPECT_NE(complaint({"bench", "load", "--out", "k.png"}).find("nothing to write as .png"),
            std::string::npos);
}

TEST(Program, ABenchmarkRunsAtLeastOnce) {
  for (const char* what : {"kernels", "load", "map", "protocol"}) {
    EXPECT_NE(complaint({"bench", what, "--runs", "0"}).find("from 1 to"), std::string::npos);
    EXPECT_EQ(run_words({"bench", what, "--runs", "-1"}), 2);
  }
}

TEST(Program, ThePageOfABenchmarkIsLookedAtFirst) {
  const TemporaryFolder folder;
  const std::string other = folder / "other.md", data = folder / "data.json";
  std::ofstream(other) << "{}\n";
  std::ofstream(data) << "# Benchmarks\n";
  const auto refused = [](const std::string& page) {
    return complaint({"bench", "kernels", "--write", page});
  };
  EXPECT_NE(refused(other).find("no page of benchmarks"), std::string::npos);
  EXPECT_EQ(content(other), "{}\n");
  EXPECT_NE(refused(data).find("is a .md file"), std::string::npos);
  EXPECT_NE(refused("/proc/x/page.md").find("cannot be written to"), std::string::npos);
  EXPECT_NE(refused(data + "/page.md").find("a folder is needed"), std::string::npos);
  const std::string page = folder / "page.md";
  EXPECT_NE(complaint({"bench", "map", "--write", page}).find("has no page"), std::string::npos);
}

TEST(Program, NumbersAreReadWholeOrRefused) {
  // Clamped to the largest integer, it would read everything and say so nowhere.
  EXPECT_NE(complaint({"heads", "rope", "--length", "99999999999999999999"}).find("--length"),
            std::string::npos);
  EXPECT_NE(complaint({"heads", "rope", "--seed", "1e3"}).find("whole number"), std::string::npos);
  EXPECT_NE(complaint({"info", "rope", "--threads", "0"}).find("from 1 to 1024"),
            std::string::npos);
  EXPECT_NE(complaint({"generate", "rope", "--temperature", "nan"}).find("finite"),
            std::string::npos);
}

// JSON carries UTF-8 alone; a model of bytes reads what it is given (command_line_test.py).
TEST(Input, TextThatIsNotUtf8TravelsAsBase64) {
  const TemporaryFolder folder;
  const std::string path = folder / "latin1.txt";
  std::ofstream(path) << "caf\xe9";
  // base64(1)'s words
  EXPECT_EQ(input_of_file(path), (json{{"base64", "Y2Fm6Q=="}, {"name", path}}));
  EXPECT_EQ(input_of_prompt("caf\xc3\xa9"), (json{{"prompt", "caf\xc3\xa9"}}));
}

TEST(Program, AToleranceIsAboveZero) {
  for (const char* value : {"0", "-1"}) {
    const std::string said =
        complaint({"check", "rope", "--reference", "x.safetensors", "--tolerance", value});
    EXPECT_NE(said.find("a tolerance must be above 0"), std::string::npos) << said;
  }
}

TEST(Program, ALengthIsOneOfAText) {
  for (const char* verb : {"capture", "heads", "info", "cost"}) {
    for (const char* value : {"0", "-1", "99999999999999999"}) {
      const std::string said = complaint({verb, "rope", "--length", value});
      EXPECT_NE(said.find("expected a number from 1 to 1099511627776 but got"), std::string::npos)
          << said;
    }
  }
}

TEST(Program, ATextThatNeverEndsIsRefused) {
  const std::string said = complaint({"heads", "rope", "--text", "/dev/zero"});
  EXPECT_NE(said.find("this is a device"), std::string::npos) << said;
}

TEST(Program, NamesWhatItDoesNotKnow) {
  EXPECT_NE(complaint({"heads", "rope", "--foo", "1"}).find("heads takes no \"--foo\""),
            std::string::npos);
  EXPECT_NE(complaint({"distanc", "rope"}).find("did you mean distance"), std::string::npos);
  EXPECT_NE(complaint({"report", "rope"}).find("--out"), std::string::npos);
}

TEST(Program, HelpIsNoError) {
  EXPECT_EQ(run_words({"--help"}), 0);
  for (const auto& verb : all_verbs()) EXPECT_EQ(run_words({verb->name(), "--help"}), 0);
}

}  // namespace
}  // namespace phasescope::app
