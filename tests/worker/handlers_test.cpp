#include "worker/handlers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/worker/fake_context.h"

namespace phasescope::worker {
namespace {

constexpr const char* kPage = PHASESCOPE_SOURCE "/docs/protocol.md";
constexpr const char* kBegin = "<!-- methods: made by ./dev docs, do not edit -->\n";
constexpr const char* kEnd = "<!-- end of methods -->\n";

std::string page() {
  std::ifstream file(kPage);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What stands between the two marks of the page.
std::pair<std::size_t, std::size_t> generated_part(const std::string& text) {
  const std::size_t begin = text.find(kBegin) + std::string(kBegin).size();
  return {begin, text.find(kEnd) - begin};
}

TEST(Handlers, AreUniqueAndHaveHelp) {
  std::set<std::string> names;
  for (const auto& handler : all_handlers()) {
    EXPECT_TRUE(names.insert(handler.name).second) << handler.name << " is there twice";
    EXPECT_FALSE(handler.help.empty()) << handler.name;
    EXPECT_TRUE(handler.run) << handler.name;
    for (const auto& field : handler.fields) {
      EXPECT_FALSE(field.help.empty()) << handler.name << " " << field.key;
    }
  }
  EXPECT_TRUE(names.contains("worker.info"));
  EXPECT_FALSE(names.contains("worker.crash"));
}

// The window and the notebook module have no options: every handler names its fields as they do.
TEST(Handlers, RefusalsNameFieldsByTheirKeys) {
  const nlohmann::json rope = {{"model", model_folder("rope")}, {"length", 8}};
  const auto refusal = [&](const std::string& method, nlohmann::json params) {
    params.update(rope);
    FakeContext context;
    protocol::ErrorInfo refused;
    try {
      ask(all_handlers(), method, params, context);
    } catch (const formats::Error& error) {
      refused = {error.code(), error.message(), error.where(), error.hint()};
    } catch (const protocol::RequestError& error) {
      refused = error.info();
    }
    EXPECT_EQ(refused.code, "bad_usage") << method;
    EXPECT_EQ(protocol::describe(refused).find("--"), std::string::npos)
        << protocol::describe(refused);
    return refused;
  };
  EXPECT_EQ(refusal("capture", {{"what", {"attn"}}, {"rows", {0, 99}}}).where, "rows");
  EXPECT_EQ(refusal("capture", {{"what", {"nothing"}}}).where, "what");
  EXPECT_EQ(refusal("patterns", {{"query", 99}}).where, "query");
  EXPECT_EQ(refusal("xray", {{"enough", 0.5}}).message,
            "`enough` means something only with `repair`");
  EXPECT_EQ(refusal("heads", {{"corpus", true}, {"input", {{"text", "x"}}}}).message,
            "`corpus` means nothing beside `input.text`, `input.prompt`, `input.ids`, "
            "`input.inputs` or `input.sample`");
}

// Answers that are lists, states and facts, and that of heads, which has a form of its own: no
// struct of theirs stands on the page of results.
const std::set<std::string> kWithoutStruct = {
    "heads",      "convert.list", "theory.list", "questions.list", "jobs.show",
    "jobs.start", "jobs.control", "jobs.log",    "worker.info",    "worker.sleep",
};

TEST(Handlers, EveryAnswerStandsOnThePageOfResults) {
  std::ifstream file(PHASESCOPE_SOURCE "/docs/results.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const auto& handler : all_handlers()) {
    const bool there = text.find("The answer to `" + handler.name + "`") != std::string::npos;
    EXPECT_NE(there, kWithoutStruct.contains(handler.name)) << handler.name;
  }
}

// 17.B12: the page of methods follows from the requests' fields. `./dev docs` makes it again.
TEST(Handlers, ThePageOfMethodsIsFresh) {
  std::vector<protocol::MethodInfo> methods;
  for (const auto& handler : all_handlers()) {
    methods.push_back({handler.name, handler.help, handler.fields});
  }
  const std::string made = protocol::page_of(methods);
  std::string text = page();
  ASSERT_NE(text.find(kBegin), std::string::npos);
  ASSERT_NE(text.find(kEnd), std::string::npos);
  const auto [begin, size] = generated_part(text);
  if (std::getenv("PHASESCOPE_WRITE_DOCS")) {
    std::ofstream(kPage) << text.replace(begin, size, made);
    return;
  }
  EXPECT_EQ(text.substr(begin, size), made) << "run ./dev docs";
}

}  // namespace
}  // namespace phasescope::worker
