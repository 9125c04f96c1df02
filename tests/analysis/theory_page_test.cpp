// docs/theory.md follows from the list of checks. PHASESCOPE_WRITE_DOCS makes it again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "analysis/theory/check.h"
#include "analysis/theory/page.h"

namespace phasescope::analysis {
namespace {

constexpr const char* kPage = PHASESCOPE_SOURCE "/docs/theory.md";
const std::string kBegin = "<!-- checks: made by the test TheoryPage.IsFresh, do not edit -->\n";
const std::string kEnd = "<!-- end of checks -->\n";

TEST(TheoryPage, IsFresh) {
  std::ifstream file(kPage);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + kBegin.size();
  const std::string made = page_of_checks();
  if (std::getenv("PHASESCOPE_WRITE_DOCS")) {
    std::ofstream(kPage) << text.replace(from, end - from, made);
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), made) << "run it with PHASESCOPE_WRITE_DOCS=1";
}

TEST(TheoryPage, EveryCheckSaysWhatItNeedsAndHowItJudges) {
  for (const TheoryCheck& check : theory_checks()) {
    for (const std::string* text : {&check.info.title, &check.info.statement, &check.info.source,
                                    &check.info.needs, &check.info.rule}) {
      EXPECT_FALSE(text->empty()) << check.info.id;
    }
  }
}

}  // namespace
}  // namespace phasescope::analysis
