// Requests about models without a loss of the next token.
#include <string>

#include "tests/worker/model_requests.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

TEST(WithoutALoss, EverythingElseIsAnswered) {
  const json input = {{"prompt", "some text to read"}};
  const json headless = {{"model", headless_folder()}, {"input", input}};
  const auto heads = ask("heads", headless);
  EXPECT_EQ(heads.result["rows"].size(), 4u);
  EXPECT_EQ(heads.result["model_values"]["induction_loss"]["value"], "nan");
  EXPECT_TRUE(notes(heads, "no induction loss"));
  json shifted = headless;
  shifted["by"] = {3};
  const auto shift = ask("shift", shifted);
  EXPECT_EQ(shift.result["rows"][0]["logits_difference"], "nan");
  EXPECT_TRUE(shift.result["rows"][0]["attention_difference"].is_number());
  EXPECT_TRUE(notes(shift, "no head"));
  const auto read = ask("text.read", headless);
  EXPECT_EQ(read.result["loss"], "nan");
  EXPECT_EQ(read.result["tokens"].size(), 18u);
  EXPECT_TRUE(notes(read, "no loss"));
  const auto compare =
      ask("compare", {{"models", {headless_folder(), model_folder("rope")}}, {"input", input}});
  EXPECT_EQ(compare.result["loss"]["a"], "nan");
  EXPECT_TRUE(compare.result["loss"]["b"].is_number());
  EXPECT_EQ(compare.result["heads"].size(), 4u);
  EXPECT_TRUE(notes(compare, "no loss"));
  EXPECT_NE(compare.result["provenance"]["command"].get<std::string>().find("--prompt"),
            std::string::npos);
  const auto theory = ask("theory", {{"model", headless_folder()}, {"check", "tape.shift"}});
  EXPECT_EQ(theory.result["checks"][0]["verdict"], "holds");
}

TEST(WithoutALoss, ModelsThatSeeBothWaysAreComparedWithEachOther) {
  const json pair = {both_ways_folder("rope"), both_ways_folder("alibi")};
  const auto both = ask("compare", {{"models", pair}});
  EXPECT_EQ(both.result["heads"].size(), 4u);
  EXPECT_EQ(both.result["loss"]["difference"], "nan");
  EXPECT_EQ(code_of("compare", {{"models", {both_ways_folder("rope"), model_folder("rope")}}}),
            "bad_input");
}

}  // namespace
}  // namespace phasescope::worker
