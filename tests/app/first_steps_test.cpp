// What a newcomer gets wrong is told at once: before a worker is started and waited for.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/doctor_facts.h"
#include "app/verbs/factories.h"
#include "app/verbs/view.h"
#include "app/window/session_file.h"
#include "cli_tools.h"
#include "fake_run.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "protocol/messages/models.h"

namespace phasescope::app {
namespace {

bool has_words(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(FirstSteps, FormsThatAVerbNeverHasAreRefusedBeforeItRuns) {
  const std::vector<std::vector<std::string>> commands = {
      {"models", "--out", "m.svg"},
      {"info", "rope", "--out", "i.npy"},
      {"check", "rope", "--reference", "r.safetensors", "--out", "c.pdf"},
      {"generate", "rope", "--prompt", "a", "--out", "g.csv"},
      {"cost", "rope", "--out", "c.npy"},
      {"theory", "--list", "--out", "t.svg"},
      {"theory", "tape", "--out", "t.safetensors"},
      {"prove", "proof-sink", "--out", "p.npy"},
      {"tokenize", "rope", "--prompt", "a", "--out", "t.csv"},
      {"formula", "score = content", "--out", "f.png"},
      {"text", "rope", "--prompt", "a", "--out", "t.npy"},
      {"capture", "rope", "--prompt", "a", "--out", "c.svg"},
      {"map", "rope", "--prompt", "a", "--out", "m.md"},
      {"shift", "rope", "--out", "s.npy"},
      {"acuity", "rope", "--out", "a.safetensors"},
      {"ablate", "rope", "--out", "a.npy"},
      {"demand", "rope", "--out", "d.safetensors"},
  };
  for (const std::vector<std::string>& words : commands) {
    EXPECT_TRUE(has_words(complaint(words), "has nothing to write as")) << words[0];
  }
  // What is there is named, and what is not is not.
  const std::string said = complaint({"tokenize", "rope", "--prompt", "a", "--out", "t.csv"});
  EXPECT_TRUE(has_words(said, "use .json or a folder")) << said;
  // Where a head looks is a table.
  const auto verb = generate_verb();
  EXPECT_TRUE(has_words(verb->missing_forms(), ".csv"));
}

// A model, or the text that is read, is not lost to the result.
TEST(FirstSteps, WhatIsReadIsNotWrittenOver) {
  const TemporaryFolder folder;
  const std::string text = (folder.path() / "text.md").string();
  const std::string model = (folder.path() / "model").string();
  const std::string weights = model + "/model.safetensors", config = model + "/config.json";
  std::filesystem::create_directory(model);
  for (const std::string& file : {text, weights, config}) std::ofstream(file) << "{}";
  const std::string over = "would be written over";
  EXPECT_TRUE(has_words(complaint({"heads", "rope", "--text", text, "--out", text}), over));
  for (const std::string& out : {weights, config}) {
    EXPECT_TRUE(has_words(complaint({"capture", model, "--prompt", "a", "--out", out}), over));
  }
  // With settings it is the model all the same, and texts are read here whatever the host.
  EXPECT_TRUE(has_words(complaint({"heads", model + " (yarn x2)", "--out", config}), over));
  EXPECT_TRUE(has_words(
      complaint({"heads", "rope", "--text", text, "--out", text, "--remote", "nowhere"}), over));
  // A result that lies in the model's folder is written again; this one fails by its form alone.
  const std::string result = model + "/model_heads.npy";
  std::ofstream(result) << "";
  EXPECT_FALSE(has_words(complaint({"ablate", model, "--out", result}), over));
  EXPECT_EQ(std::filesystem::file_size(weights), 2u);
  EXPECT_TRUE(has_words(complaint({"heads", "rope", "--out", "-"}), "not standard output"));
}

TEST(FirstSteps, APictureThatCannotBeWrittenIsToldBeforeAnythingIsDrawn) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "file").string();
  std::ofstream(file) << "x";
  EXPECT_TRUE(has_words(complaint({"view", "rope", "--screenshot", file}), "a folder is needed"));
  EXPECT_TRUE(has_words(complaint({"view", "rope", "--screenshot", file + "/a.png"}),
                        "a folder is needed"));
  const std::string other = (folder.path() / "window.JPG").string();
  EXPECT_TRUE(has_words(complaint({"view", "rope", "--screenshot", other}), "is a .png"));
  EXPECT_FALSE(std::filesystem::exists(other));
}

// 17.A9: what is no file is neither read to an end that never comes nor moved away as a session
// that cannot be read is.
TEST(FirstSteps, ASessionIsAFile) {
  const TemporaryFolder folder;
  const auto device = folder.path() / "device.phasescope", pipe = folder.path() / "pipe.phasescope";
  std::filesystem::create_symlink("/dev/null", device);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string picture = (folder.path() / "window.png").string();
  EXPECT_TRUE(has_words(complaint({"view", "--session", device}), "this is a device"));
  EXPECT_TRUE(has_words(complaint({"view", "--session", device, "--screenshot", picture}),
                        "this is a device"));
  EXPECT_TRUE(has_words(complaint({"view", "--session", pipe}), "this is a pipe"));
  EXPECT_TRUE(std::filesystem::is_symlink(device));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

// What `view` with these words is refused for where no window can be opened.
std::string refusal_without_a_display(FakeRun& run, std::vector<std::string> words) {
  const auto verb = view_verb([](const WindowOptions&) -> int {
    throw formats::bad_usage("no window can be opened here");
  });
  CLI::App parser;
  Options options(parser);
  verb->declare(options);
  std::ranges::reverse(words);
  parser.parse(words);
  try {
    verb->run(run);
  } catch (const protocol::RequestError& error) {
    return error.info().message;
  } catch (const formats::Error& error) {
    return error.message();
  }
  return "";
}

TEST(FirstSteps, AnUnknownModelIsToldOfBeforeAMissingDisplay) {
  const std::string no_window = "no window can be opened here";
  FakeRun unknown, known;  // the first worker has no reply, which is "bad_input"
  known.replies["models.find"] = {{{"models", {"rope"}}}, {}};
  EXPECT_EQ(refusal_without_a_display(unknown, {"rpoe"}), "no reply for models.find");
  EXPECT_EQ(unknown.requests.at(0).params.dump(), R"({"models":["rpoe"]})");
  EXPECT_EQ(refusal_without_a_display(known, {"rope"}), no_window);
  FakeRun unasked;
  EXPECT_EQ(refusal_without_a_display(unasked, {}), no_window);
  EXPECT_EQ(refusal_without_a_display(unasked, {"rpoe", "--screenshot", "a.png"}), no_window);
  EXPECT_TRUE(unasked.requests.empty());
}

TEST(FirstSteps, HelpAndVersionHaveTheNamesThatOtherProgramsGiveThem) {
  const auto said = [](std::vector<std::string> words) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_words(std::move(words)), 0);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(said({"help"}), said({"--help"}));
  EXPECT_EQ(said({"help", "map"}), said({"map", "--help"}));
  EXPECT_EQ(said({"version"}), said({"--version"}));
  EXPECT_EQ(said({"-V"}), said({"--version"}));
}

// "phasescope rope" opens the window with it.
TEST(FirstSteps, TheFirstWordMayBeAModel) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_words({"--completion", "bash"}), 0);
  const std::string script = testing::internal::GetCapturedStdout();
  const std::string first_words = script.substr(0, script.find("return"));
  EXPECT_TRUE(has_words(first_words, " rope ")) << first_words;
}

TEST(FirstSteps, AFolderOfModelsThatIsNotThereIsNamed) {
  ::setenv("PHASESCOPE_ASSETS", "/nowhere", 1);
  FakeRun run;
  run.replies["models.list"] = {{{"models", nlohmann::json::array()}}, {}};
  ::setenv("XDG_STATE_HOME", "/nowhere", 1);
  const Output output = models_verb()->run(run);
  ::unsetenv("XDG_STATE_HOME");
  const std::vector<Fact> facts = folder_facts();
  ::unsetenv("PHASESCOPE_ASSETS");
  ASSERT_EQ(output.tables.size(), 1u);
  EXPECT_EQ(output.tables[0].notes,
            std::vector<std::string>{"the folder of the bundled models is not there: /nowhere"});
  EXPECT_EQ(facts[0].hint, "PHASESCOPE_ASSETS names it");
}

// cli.md: bundled and recent models; a session that cannot be read is the window's to tell of.
TEST(FirstSteps, ModelsThatTheWindowHasOpenedAreListed) {
  const TemporaryFolder folder;
  ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1);
  Session session = default_session();
  session.recent = {"/data/newest", "/data/older"};
  std::filesystem::create_directories(default_session_path().parent_path());
  save_session(formats::real_file_system(), default_session_path(), session);
  FakeRun run;
  run.replies["models.list"] = {{{"models", nlohmann::json::array()}}, {}};
  const Output listed = models_verb()->run(run);
  std::ofstream(default_session_path()) << "{";
  const Output broken = models_verb()->run(run);
  ::unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(listed.result["recent"], nlohmann::json({"/data/newest", "/data/older"}));
  ASSERT_EQ(listed.tables.size(), 2u);
  EXPECT_TRUE(has_words(text_of(listed.tables[1]), "/data/newest\n/data/older\n"));
  EXPECT_EQ(broken.result["recent"], nlohmann::json::array());
  EXPECT_EQ(broken.tables.size(), 1u);
}

TEST(FirstSteps, AnOptionThatIsGivenTwiceIsNamed) {
  const std::string said = complaint({"map", "rope", "--head", "L0H0", "--head", "L1H1"});
  EXPECT_TRUE(has_words(said, "--head was given more than once")) << said;
}

TEST(FirstSteps, ABugReportNamesTheCommit) {
  const TemporaryFolder folder;
  const auto write = [&](const std::filesystem::path& file, const std::string& line) {
    std::filesystem::create_directories((folder.path() / file).parent_path());
    std::ofstream(folder.path() / file) << line << "\n";
  };
  const std::filesystem::path assets = folder.path() / "assets";
  EXPECT_EQ(source_revision(assets), "");
  write(".git/HEAD", "0123456789abcdef0123456789abcdef01234567");
  EXPECT_EQ(source_revision(assets), "0123456789ab");
  write(".git/HEAD", "ref: refs/heads/main");
  EXPECT_EQ(source_revision(assets), "");
  write(".git/refs/heads/main", "fedcba9876543210fedcba9876543210fedcba98");
  EXPECT_EQ(source_revision(assets), "fedcba987654");
  write("assets/revision", "fedcba987654-dirty");
  EXPECT_EQ(source_revision(assets), "fedcba987654-dirty");
  EXPECT_TRUE(has_words(version_text(), "\nsource: "));
}

// The signal that ends who writes past it is not sent to the tests' own program.
TEST(FirstSteps, AFileAboveALimitIsAnErrorAndNotTheEnd) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "samples.json").string();
  const auto write_much = [&] {
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(run_words({"data", "missing_duplicate", "--trials", "20", "--out", file}));
  };
  EXPECT_EXIT(write_much(), testing::ExitedWithCode(2), "File too large");
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(FirstSteps, AModelWhoseNameIsNoTextIsRefusedAndNotCalledAbsent) {
  const std::string said = complaint({"info", "m\xff"});
  EXPECT_TRUE(has_words(said, "is asked in UTF-8, and this name is not")) << said;
  EXPECT_TRUE(has_words(said, "m\\xff")) << said;
}

}  // namespace
}  // namespace phasescope::app
