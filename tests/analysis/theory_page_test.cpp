// What is said of checks: docs/theory.md follows from their list (PHASESCOPE_WRITE_DOCS makes it
// again), and a check that cannot be made is a row.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "analysis/theory/check.h"
#include "analysis/theory/page.h"
#include "formats/error.h"

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

// A check that cannot be made is a row of its own; what is of the whole request ends it.
template <const char* code>
CheckResult broken_off(const CheckContext&) {
  throw formats::Error(code, "no room for the sums", "sums");
}
constexpr char kBadInput[] = "bad_input", kNotApplicable[] = "not_applicable",
               kInternal[] = "internal", kCancelled[] = "cancelled", kBadUsage[] = "bad_usage",
               kOutOfMemory[] = "out_of_memory";

TEST(TheoryRows, ACheckThatCannotBeMadeIsARowAmongOthers) {
  TheoryCheck check = select_checks({"rope.lemma"}).at(0);
  check.on = On::construction;
  CheckContext context;
  context.seed = 5;
  for (const auto run_one :
       {&broken_off<kBadInput>, &broken_off<kNotApplicable>, &broken_off<kInternal>}) {
    check.run = run_one;
    EXPECT_THROW(run_check(check, context), formats::Error);
    const CheckResult row = run_check_among_others(check, context);
    EXPECT_EQ(row.id, "rope.lemma");
    EXPECT_EQ(row.model, "construction");
    EXPECT_EQ(row.seed, 5);
    EXPECT_EQ(row.verdict, "undecided");
    EXPECT_FALSE(row.value.has_value());
    EXPECT_NE(row.detail.find("no room for the sums"), std::string::npos) << row.detail;
  }
  for (const auto run_one :
       {&broken_off<kCancelled>, &broken_off<kBadUsage>, &broken_off<kOutOfMemory>}) {
    check.run = run_one;
    EXPECT_THROW(run_check_among_others(check, context), formats::Error);
  }
}

}  // namespace
}  // namespace phasescope::analysis
