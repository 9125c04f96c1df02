// docs/verbs.md follows from what verbs declare. PHASESCOPE_WRITE_DOCS makes it again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "app/cli/cli.h"
#include "app/verbs/verbs.h"

namespace phasescope::app {
namespace {

constexpr const char* kVerbsPage = PHASESCOPE_SOURCE "/docs/verbs.md";
const std::string kVerbsBegin = "<!-- verbs: made by the test VerbsPage.IsFresh, do not edit -->\n";
const std::string kVerbsEnd = "<!-- end of verbs -->\n";

TEST(VerbsPage, IsFresh) {
  std::ifstream file(kVerbsPage);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find(kVerbsBegin), end = text.find(kVerbsEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + kVerbsBegin.size();
  const std::string made = page_of_verbs(all_verbs());
  if (std::getenv("PHASESCOPE_WRITE_DOCS")) {
    std::ofstream(kVerbsPage) << text.replace(from, end - from, made);
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), made) << "run it with PHASESCOPE_WRITE_DOCS=1";
}

// What is said of a verb by its own class, without the parser.
TEST(VerbsPage, HasEveryVerbWithHelpAndExample) {
  const std::string page = page_of_verbs(all_verbs());
  for (const auto& verb : all_verbs()) {
    EXPECT_NE(page.find("\n## " + verb->name() + "\n"), std::string::npos) << verb->name();
    EXPECT_NE(page.find("\n```\n" + verb->example() + "\n```\n"), std::string::npos)
        << verb->name();
  }
}

TEST(VerbsPage, TellsOfASharedOptionOnce) {
  const std::string page = page_of_verbs(all_verbs()), line = "- `--remote TEXT`: ";
  const std::size_t first = page.find(line);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(page.find(line, first + 1), std::string::npos);
  EXPECT_GT(first, page.find("## Options of many verbs"));
}

}  // namespace
}  // namespace phasescope::app
