// 17.A7: no option is accepted and dropped. Every option of every verb's help, given beside the
// verb's own example, must change what is asked of the worker; what no candidate can change is a
// fault. Whether the worker then does with it what was asked is seen by
// command_line_dropped_test.py.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "app/verbs/verbs.h"
#include "app/verbs/view.h"
#include "cli_tools.h"
#include "fake_run.h"
#include "formats/error.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "tasks/named_sample.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// What these change is seen in what is printed, written or waited for, not in a request.
const std::set<std::string> kOfTheOutput = {
    "heads --sort",
    "heads --ascending",
    // How the answer is coloured, and maps that are asked for with the first one.
    "map --scale",
    "map --decades",
    "map --low",
    "map --high",
    "map --leave-out-first",
    "map --minus",
    "map --minus-head",
    "theory --list",
    "tokenize --jsonl",
    "compare --head",  // of maps that are asked for with the answer
    "tokenize --pre-tokens",
    "train --background",
    "bench --write",
    "bench --import",  // of another machine's times, in place of a request
    "bench --beside",  // what is trained while the window is measured
    "doctor --report",
    // How many jobs run at once, where, and whether any is started.
    "sweep --jobs",
    "sweep --kept",
    "sweep --table",
    "sweep --slurm",
    "sweep --sbatch",
    // What of the claims' own commands is kept where, and until when they are run.
    "reproduce --job",
    "reproduce --kept",
    "reproduce --budget",
};
// Options that are refused without another one.
const std::map<std::string, Words> kMeansNothingWithout = {
    {"bench --atomic-dq", {"--backend", "cuda-unverified"}},
    {"demand --steps", {"--fit"}},
    {"demand --start", {"--fit"}},
    {"xray --enough", {"--repair"}},
    {"generate --top", {"--head", "L0H0"}}};
// Options that mean nothing beside what the verb's example says, and what they are tried with.
const std::map<std::string, Words> kTriedWith = {{"view --record", {}},
                                                 {"data --check", {"missing_duplicate"}},
                                                 {"eval --generate", {"needle", "rope"}}};
// It becomes the worker, whose own options these are.
const std::string kBecomesTheWorker = "worker";

// The words of an example's line of this verb, without "phasescope" and the verb. Quotes are
// single.
Words words_of(const std::string& example, const std::string& verb) {
  Words words;
  std::string word;
  bool quoted = false, any = false;
  const std::string line = example.substr(example.find("phasescope " + verb));
  for (const char c : line.substr(0, line.find('\n')) + " ") {
    if (c == '\'') {
      quoted = !quoted, any = true;
    } else if (c == ' ' && !quoted) {
      if (any || !word.empty()) words.push_back(word);
      word.clear(), any = false;
    } else {
      word += c;
    }
  }
  words.erase(words.begin(), words.begin() + 2);
  return words;
}

// Without an option and its value, and without what cli.cpp declares for all verbs.
Words without(const Words& words, const std::set<std::string>& options) {
  Words kept;
  for (std::size_t n = 0; n < words.size(); ++n) {
    if (!options.contains(words[n])) {
      kept.push_back(words[n]);
    } else if (n + 1 < words.size() && !words[n + 1].starts_with("--")) {
      ++n;
    }
  }
  return kept;
}

std::string words_of(const WindowOptions& window) {
  return nlohmann::json::array({window.models, window.text_file, window.session.string(),
                                window.remote, window.screenshot.string(), window.worker_arguments,
                                window.frames, window.commands, window.record.string(),
                                window.theme, window.width, window.height})
      .dump();
}

// What the window was asked for by the last `view`.
std::string& asked_of_the_window() {
  static std::string words;
  return words;
}

std::unique_ptr<Verb> verb_named(const std::string& name) {
  if (name == "view") {
    return view_verb([](const WindowOptions& window) {
      asked_of_the_window() = words_of(window);
      return 0;
    });
  }
  for (auto& verb : all_verbs()) {
    if (verb->name() == name) return std::move(verb);
  }
  return nullptr;
}

// What a verb asks of the worker or the window, or finds without them; nothing where it refuses the
// words.
std::optional<std::string> requests_of(const std::string& name, const Words& words) {
  const auto verb = verb_named(name);
  CLI::App parser;
  Options options(parser);
  verb->declare(options);
  FakeRun run;
  run.options().out = (fs::path(testing::TempDir()) / "options_test").string();
  std::string found;
  asked_of_the_window().clear();
  try {
    parser.parse(Words(words.rbegin(), words.rend()));
    const Output output = verb->run(run);
    found = output.text + output.result.dump();
  } catch (const CLI::ParseError&) {
    return std::nullopt;
  } catch (const formats::Error&) {
    return std::nullopt;
  } catch (const protocol::RequestError& error) {
    // The worker that has no reply says bad_input; the rest was refused before it was asked.
    if (error.info().code != "bad_input") return std::nullopt;
  }
  std::ostringstream text;
  for (const auto& request : run.requests) text << request.method << " " << request.params << "\n";
  return text.str() + asked_of_the_window() + found;
}

Words options_of(const std::string& name) {
  CLI::App parser;
  Options options(parser);
  verb_named(name)->declare(options);
  Words names;
  for (const CLI::Option* option : parser.get_options()) {
    const std::string long_name = option->get_name();
    if (long_name.starts_with("--") && long_name != "--help") names.push_back(long_name);
  }
  return names;
}

// One of these is a value for every option there is.
const Words kCandidates = {"3",
                           "1",
                           "17:29",
                           "9x5",
                           "positional",
                           "max",
                           "plain",
                           "f64",
                           "ids",
                           "tape",
                           "encoding.base=5e4",
                           "sink",
                           "tape.shift",
                           "cpu",
                           "L1H0",
                           "enc",
                           "out/elsewhere",
                           "perplexity",
                           "last_k:3",
                           "logits",
                           "content",
                           "layer",
                           "clamp",
                           "interleaved",
                           "qk",
                           "no",
                           "yes",
                           "0.5",
                           "README.md",
                           "tests/data/formats/small.safetensors",
                           "tests/data/tasks/missing_duplicate.jsonl",
                           "out/ids.json",
                           "addition:1",
                           "dark",
                           "model",
                           "640x480"};

// Every option of the verb beside its example, and beside `more` where that is given too.
void expect_every_option_matters(const Verb& verb, const Words& more = {}) {
  const std::string name = verb.name();
  const Words example =
      without(words_of(verb.example(), name), {"--out", "--json", "--quiet", "--remote"});
  for (const std::string& option : options_of(name)) {
    const std::string of_verb = name + " " + option;
    if (kOfTheOutput.contains(of_verb) || std::ranges::count(more, option) > 0) continue;
    // Of these a verb takes one.
    static const std::set<std::string> inputs{"--text",   "--prompt", "--ids",  "--inputs",
                                              "--sample", "--corpus", "--texts"};
    Words base = without(example, inputs.contains(option) ? inputs : std::set<std::string>{option});
    if (kTriedWith.contains(of_verb)) base = kTriedWith.at(of_verb);
    if (kMeansNothingWithout.contains(of_verb)) {
      const Words& needed = kMeansNothingWithout.at(of_verb);
      base.insert(base.end(), needed.begin(), needed.end());
    }
    base.insert(base.end(), more.begin(), more.end());
    const auto plain = requests_of(name, base);
    const auto changes = [&](const Words& given) {
      Words words = base;
      words.insert(words.end(), given.begin(), given.end());
      const auto with = requests_of(name, words);
      return with && with != plain;
    };
    const bool matters = std::ranges::any_of(kCandidates, [&](const std::string& value) {
      return changes({option, value});
    });
    EXPECT_TRUE(matters || changes({option})) << name << " drops " << option;
  }
}

TEST(Options, EveryOptionChangesTheRequestOrIsRefused) {
  const fs::path before = fs::current_path();
  fs::current_path(PHASESCOPE_SOURCE);
  fs::create_directories("out");
  std::ofstream("out/ids.json") << "[1, 2, 3]";
  for (const auto& verb : all_verbs()) {
    if (verb->name() == kBecomesTheWorker) continue;
    expect_every_option_matters(*verb);
    if (verb->name() == "eval") expect_every_option_matters(*verb, {"--job", "out/an_eval"});
  }
  fs::current_path(before);
}

// 17.A10: what the help of an option says of others is said of options of the same verb.
TEST(Options, HelpNamesThoseThatThereAre) {
  const std::regex option("(?:^|[^\\w=-])(--[a-z][a-z-]*)");
  for (const auto& verb : all_verbs()) {
    CLI::App parser;
    Options options(parser);
    verb->declare(options);
    const Words own = options_of(verb->name());
    std::set<std::string> there(own.begin(), own.end());
    there.insert({"--help", "--out", "--json", "--quiet", "--remote"});
    const std::string help = parser.help();
    for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at) {
      EXPECT_TRUE(there.contains((*at)[1])) << verb->name() << " has no " << (*at)[1];
    }
  }
}

// What a verb does not take is no option of it: of those that all have in common, and those that
// configurations, jobs and the window have a word of their own for.
TEST(Options, OfOtherVerbsAreRefused) {
  const auto expect_refused = [](const std::string& verb, const std::string& option) {
    testing::internal::CaptureStdout();  // where --json has errors said
    std::string said = complaint({verb, option});
    said += testing::internal::GetCapturedStdout();
    EXPECT_NE(said.find(verb + " takes no"), std::string::npos) << said;
    EXPECT_NE(said.find(option), std::string::npos) << said;
  };
  int refused = 0;
  for (const auto& verb : all_verbs()) {
    const Verb::Takes takes = verb->takes();
    for (const auto& [option, taken] : {std::pair{"--out", takes.out},
                                        {"--json", takes.json},
                                        {"--quiet", takes.quiet},
                                        {"--remote", takes.remote}}) {
      if (taken) continue;
      expect_refused(verb->name(), option), ++refused;
    }
  }
  EXPECT_GE(refused, 2);
  for (const char* option : {"--seed", "--dtype", "--threads", "--backend"}) {
    expect_refused("train", option);
  }
  for (const char* option : {"--dtype", "--backend", "--seed"}) expect_refused("view", option);
}

// A sample of a task is its ids, or its prompt where it is a text, and named after what was asked.
TEST(Options, ASampleIsAnInput) {
  const auto asked = requests_of("text", {"rope", "--sample", "addition:7:1,1"});
  ASSERT_TRUE(asked);
  const auto named = tasks::named_sample("addition:7:1,1");
  EXPECT_NE(asked->find(nlohmann::json(named.sample.input).dump()), std::string::npos) << *asked;
  EXPECT_NE(asked->find("\"sample addition:7:1,1\""), std::string::npos) << *asked;
  const auto text = requests_of("text", {"rope", "--sample", "passkey:1:8"});
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("What is the pass key?"), std::string::npos) << *text;
  // Of a tree and an image a model reads more than ids: the worker draws them.
  for (const char* words : {"tree_copy:7", "shapes:1"}) {
    const auto more = requests_of("text", {"rope", "--sample", words});
    ASSERT_TRUE(more);
    EXPECT_NE(more->find("\"sample\":\"" + std::string(words)), std::string::npos) << *more;
  }
  EXPECT_FALSE(requests_of("text", {"rope", "--sample", "nothing"}));
  EXPECT_FALSE(requests_of("text", {"rope", "--sample", "addition:1", "--prompt", "a"}));
}

// Options that mean nothing together, or without another: one of them would be dropped.
TEST(Options, WhatWouldBeDroppedIsRefused) {
  const fs::path before = fs::current_path();
  fs::current_path(PHASESCOPE_SOURCE);
  const std::vector<Words> lines{
      {"heads", "rope", "--prompt", "abc", "--corpus", "/nonexistent"},
      {"heads", "rope", "--ascending"},
      {"map", "rope", "--decades", "3"},
      {"map", "rope", "--of", "score", "--scale", "log"},
      {"eval", "perplexity", "rope", "--prompt", "abc", "--corpus", "/nonexistent"},
      {"demand", "rope", "--steps", "3"},
      {"demand", "rope", "--start", "window:4"},
      {"demand", "rope", "--texts", "0:3:1", "--prompt", "abc"},
      {"xray", "rope", "--enough", "0.5"},
      {"generate", "rope", "--prompt", "abc", "--top", "5"},
      {"formula", "score = content", "--seed", "5"},
      {"theory", "tape", "--check", "tape.shift", "--dtype", "f64"},
      {"theory", "tape", "--check", "tape.shift", "--pairs", "0"},
      {"theory", "--list", "--check", "tape.shift"},
      {"theory", "tape", "--list"},
      {"theory", "--check", "cape.cost", "--prompt", "abc"},
      {"theory", "--check", "cape.cost", "--set", "a.b=3"},
      {"theory", "--check", "cape.cost", "--length", "4"},
      {"bench", "map", "--variants", "tape"},
      {"bench", "map", "--dtype", "bf16"},
      {"bench", "load", "--lengths", "4"},
      {"bench", "protocol", "--backend", "plain"},
      {"bench", "window", "--runs", "3"},
      {"bench", "step", "sample_configs/desk/rope.json", "--dims", "64"},
      {"bench", "step"},
      {"bench", "map", "--beside", "sample_configs/desk/rope.json"},
      {"bench", "kernels", "a.json", "b.json"},
      {"data", "even_pairs", "--check", "tests/data/tasks/even_pairs.jsonl", "--trials", "7"},
      {"data", "even_pairs", "--check", "tests/data/tasks/even_pairs.jsonl", "--length", "4"},
      {"data", "even_pairs", "--check", "tests/data/tasks/even_pairs.jsonl", "--seed", "9"},
      {"sweep", "sample_configs/sweeps/copy.json", "--table", "--jobs", "3"},
      {"view", "--record", "out/r", "--theme", "dark"},
      {"train", "--resume", "--job", "out/l", "--set", "train.steps=99"},
      {"tokenize", "rope", "--prompt", "x", "--pre-tokens"},
      {"tokenize", "rope", "--prompt", "x", "--jsonl"},
      {"view", "--set", "encoding.base=3"},
      {"view", "rope", "--frames", "7"},
      {"view", "rope", "--record", "out/r"},
      {"reproduce", "2501.00712", "--budget", "1"},
      {"reproduce", "2501.00712", "--kept", "no/such/folder"},
      {"eval", "perplexity", "rope", "--trials", "0"},
      {"eval", "perplexity", "rope", "--ids", "out/ids.json"},
      {"eval", "addition", "rope", "--window", "last_k:3"},
      {"eval", "addition", "rope", "--window", "disjoint"},  // as it is by default
      {"eval", "addition", "rope", "--metric", "bits_per_token"},
      {"eval", "addition", "rope", "--prompt", "abc"},
      {"eval", "addition", "rope", "--corpus"},
      {"heads", "rope", "--corpus", ""},  // an unset variable of a shell, not the bundled texts
      {"eval", "perplexity", "rope", "--corpus", ""},
      {"eval", "--corpus", "README.md", "addition", "rope"},
  };
  for (const Words& line : lines) {
    const auto made = requests_of(line[0], Words(line.begin() + 1, line.end()));
    EXPECT_FALSE(made) << testing::PrintToString(line);
  }
  fs::current_path(before);
}

// A value that was left out stands for the bundled texts; the help does not show what tells it.
TEST(Options, AValueMayBeLeftOut) {
  for (const Words& words : {Words{"rope", "--corpus"}, Words{"--corpus", "--seed", "1", "rope"}}) {
    const auto asked = requests_of("heads", words);
    ASSERT_TRUE(asked) << testing::PrintToString(words);
    EXPECT_NE(asked->find("\"corpus\":true"), std::string::npos) << *asked;
  }
  const auto named = requests_of("heads", {"rope", "--corpus", "README.md"});
  ASSERT_TRUE(named);
  EXPECT_NE(named->find("\"corpus\":\"README.md\""), std::string::npos) << *named;
  protocol::HeadsRequest request;
  CLI::App parser;
  Options(parser).request(request);
  EXPECT_NE(parser.help().find("--corpus [PATH] "), std::string::npos) << parser.help();
}

struct MapOfOneMore : protocol::MapRequest {
  double lowest = 0;
  template <class V>
  void fields(V& v) {
    MapRequest::fields(v);
    v("lowest", lowest,
      protocol::About{.help = "smaller weights are shown as 0", .low = 0, .high = 1});
  }
};

// 17.B12: the option that CONTRIBUTING.md adds to `map`: a field is its help, its range, its JSON
// both ways and its place in the command line.
TEST(Options, OneMoreIsALineInTheListOfFields) {
  MapOfOneMore request;
  CLI::App parser;
  Options(parser).request(request);
  EXPECT_NE(parser.help().find("smaller weights are shown as 0, from 0 to 1 (default: 0)"),
            std::string::npos)
      << parser.help();
  parser.parse(Words{"0.25", "--lowest", "rope"});  // the parser takes them from the end
  EXPECT_EQ(request.lowest, 0.25);
  const nlohmann::json params = protocol::params_of(request);
  EXPECT_EQ(params, nlohmann::json({{"model", "rope"}, {"lowest", 0.25}}));
  EXPECT_EQ(protocol::request_of<MapOfOneMore>(params).lowest, 0.25);
  EXPECT_EQ(protocol::command_line(request), "phasescope map rope --lowest 0.25");
  CLI::App again;
  Options(again).request(request);
  EXPECT_THROW(again.parse(Words{"2", "--lowest", "rope"}), protocol::RequestError);
}

// 17.B15: an option of one task is refused by its name, and the help of another has no such line.
TEST(Options, AreThoseOfTheTask) {
  EXPECT_TRUE(requests_of("eval", {"addition", "rope", "--trials", "3", "--lengths", "4"}));
  const auto parsed = [](const Words& words) {
    CLI::App parser;
    Options options(parser);
    const auto verb = verb_named("eval");
    verb->declare(options);
    try {
      parser.parse(Words(words.rbegin(), words.rend()));
    } catch (const CLI::CallForHelp&) {
      return parser.help();
    } catch (const protocol::RequestError& error) {
      return error.info().where + ": " + error.info().message;
    }
    return std::string();
  };
  EXPECT_EQ(parsed({"addition", "rope", "--window", "disjoint"}),
            "--window: --window is of the task perplexity alone; addition has no such option");
  EXPECT_EQ(parsed({"perplexity", "rope", "--window", "disjoint"}), "");
  const std::string of_perplexity = parsed({"perplexity", "--help"}),
                    of_addition = parsed({"addition", "--help"}), of_any = parsed({"--help"});
  for (const char* option : {"--window", "--metric", "--corpus", "--prompt", "--sample"}) {
    EXPECT_NE(of_perplexity.find(option), std::string::npos) << option;
    EXPECT_NE(of_any.find(option), std::string::npos) << option;
    EXPECT_EQ(of_addition.find(option), std::string::npos) << option;
  }
  for (const std::string& help : {of_perplexity, of_addition, of_any}) {  // it reads texts alone
    EXPECT_EQ(help.find("--ids"), std::string::npos) << help;
    EXPECT_EQ(help.find("--inputs"), std::string::npos) << help;
  }
  EXPECT_NE(of_any.find("of perplexity: which tokens count"), std::string::npos) << of_any;
  for (const char* option : {"--trials", "--lengths", "--seed", "--backend"}) {
    EXPECT_NE(of_addition.find(option), std::string::npos) << option;
  }
}

}  // namespace
}  // namespace phasescope::app
