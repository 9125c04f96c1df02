// The window rules against a second definition of them (tests/data/tasks/windows.jsonl).
#include "training/evals/eval_windows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/error.h"
#include "tests/golden_folder.h"

namespace phasescope::training {
namespace {

using nlohmann::json;

TEST(WindowRule, IsReadAndNamed) {
  EXPECT_EQ(WindowRule::read("disjoint").name(512), "disjoint");
  EXPECT_EQ(WindowRule::read("sliding").name(512), "sliding, stride 256");
  EXPECT_EQ(WindowRule::read("sliding:64").name(512), "sliding, stride 64");
  EXPECT_EQ(WindowRule::read("last_k:128").name(512), "last_k, k 128");
  EXPECT_EQ(WindowRule::read("per_position").name(512), "per_position");
  for (const char* bad : {"", "slidng", "sliding:", "sliding:0", "last_k:x", "disjoint:4"}) {
    EXPECT_THROW(WindowRule::read(bad), formats::Error) << bad;
  }
}

// A stride or a K larger than the window is the window, and is called so.
TEST(WindowRule, NamesTheStrideThatIsUsed) {  // 17.A6
  EXPECT_EQ(WindowRule::read("sliding:256").name(128), "sliding, stride 128");
  EXPECT_EQ(WindowRule::read("last_k:256").name(128), "last_k, k 128");
}

WindowRule rule_of(const json& example) {
  std::string text = example.at("rule");
  if (example.at("stride").is_number()) {
    text += ":" + std::to_string(example.at("stride").get<std::int64_t>());
  }
  return WindowRule::read(text);
}

TEST(WindowRule, WindowsAreThoseOfTheReference) {  // 17.A6
  std::ifstream file(golden_path("tasks/windows.jsonl"));
  int examples = 0;
  for (std::string line; std::getline(file, line);) {
    const json example = json::parse(line);
    if (example.at("kind") != "example") continue;
    std::vector<EvalWindow> expected;
    for (const json& window : example.at("windows")) {
      expected.push_back({window[0], window[1], window[2]});
    }
    const auto windows = windows_of(rule_of(example), example.at("tokens"), example.at("length"));
    EXPECT_EQ(windows, expected) << line;
    EXPECT_EQ(scored_tokens(windows), example.at("scored")) << line;
    ++examples;
  }
  EXPECT_GE(examples, 40);
}

// Each token exactly once, the tail among them.
TEST(WindowRule, SlidingCountsEachTokenOnce) {  // 17.A6
  for (const std::int64_t tokens : {23, 24, 29, 30, 31, 100}) {
    std::vector<int> counted(static_cast<std::size_t>(tokens), 0);
    for (const EvalWindow& window : windows_of(WindowRule::read("sliding:7"), tokens, 23)) {
      for (std::int64_t i = window.count_from; i < window.length; ++i) {
        ++counted.at(static_cast<std::size_t>(window.begin + i));
      }
    }
    EXPECT_EQ(counted, std::vector<int>(static_cast<std::size_t>(tokens), 1)) << tokens;
  }
}

}  // namespace
}  // namespace phasescope::training
