// Formulas: what is read, what is refused and where, and what the kernels know of it.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/error.h"
#include "formats/formula/terms.h"
#include "tests/temporary_folder.h"

namespace phasescope::formula {
namespace {

constexpr Sizes kSizes{4, 8, 0.35355339059327373, true};

std::string fault_of(const std::string& text) {
  keep_case("wrong.formula", text);
  try {
    read_formula(text, kSizes);
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    return error.message() + (error.hint().empty() ? "" : "; " + error.hint());
  }
  return "";
}

Recognised of(const std::string& text) {
  keep_case("good.formula", text);
  Formula formula = read_formula(text, kSizes);
  return recognised(formula);
}

std::string form_of(const std::string& text) { return name_of(of(text).form); }

TEST(FormulaReader, SaysTheColumnOfWhatIsWrong) {
  const std::pair<const char*, const char*> faults[] = {
      {"score = contnt", "column 9: \"contnt\" is not known here; near: content"},
      {"score = csin(lam)", "column 9: \"csin\" is no function; near: sin"},
      {"score = content + cos", "column 19: cos is a function: it is followed by '('"},
      {"let lam = 1; score = content", "column 5: \"lam\" has a meaning already"},
      {"let a = 1; let a = 2; score = content", "column 16: \"a\" has a meaning already"},
      {"score = min(lam)", "column 9: min takes 2 arguments, not 1"},
      {"score = dot(q[:4], k)", "column 9: dot of 4 and 8 numbers"},
      {"score = content + sum(q*planes)", "column 24: '*' of 8 and 4 numbers"},
      {"score = q*k", "column 1: a score is one number, but this has 8 numbers"},
      {"score = sum(q[2:12]*k)", "column 14: the slice [2:12] lies outside 8 numbers, or is empty"},
      {"score = dot(q[:lam], k)",
       "column 16: the end of a slice is a whole number known before the run"},
      {"param a ~ flat; score = a",
       "column 11: \"flat\" is no start of a parameter; known: zeros, ones, constant(x), "
       "uniform(a, b), normal(sd), slopes"},
      {"param a ~ ones in [2, 1]; score = a",
       "column 16: the limits of a parameter are in the wrong order"},
      {"param a ~ slopes; score = a",
       "column 11: slopes are one of each head, so the parameter's last size must be head"},
      {"param w[3, 5] ~ zeros; score = sum(w)",
       "column 36: \"w\" is a matrix, which linear(w, v) and lookup(b, index) read"},
      {"param w[3, 5] ~ zeros; score = sum(linear(w, q))",
       "column 36: linear of a matrix of 3 by 5 and 8 numbers"},
      {"score = own(q)", "column 9: own reads one number of each of 4 heads, but here are 8"},
      {"score = content content",
       "column 17: \"content\" stands after the score, which ends a formula"},
      {"score = 1 +", "column 12: expected a value but found the end of the formula"},
      {"score = (1", "column 11: expected ')' but found the end of the formula"},
      {"let a = 1;\nlet b = 2;\nscore = a + unheard",
       "line 3, column 13: \"unheard\" is not known here"},
      {"score = 1 \xC3\xA4", "column 11: \"\xC3\xA4\" has no meaning in a formula"},
      {"score = content - lam/0", "column 22: this divides by 0"},
      {"score = content - lam/(d - 8)", "column 22: this divides by 0"},
      {"score = content + sum(1/planes)", "column 24: number 1 of the 4 that this divides by is 0"},
      {"score = content + log(0)*lam",
       "column 19: what \"log\" makes of these numbers is infinite or no number"},
      {"score = content + sqrt(-2)",
       "column 19: what \"sqrt\" makes of these numbers is infinite or no number"},
      {"score = content + 0^-1*lam",
       "column 20: what \"^\" makes of these numbers is infinite or no number"},
      {"",
       "column 1: expected param, let or score but found the end of the formula; a formula ends "
       "with score = ..."},
  };
  for (const auto& [text, sentence] : faults) EXPECT_EQ(fault_of(text), sentence) << text;
}

TEST(FormulaReader, StopsAtItsDepth) {
  const std::string open(5000, '('), minus(5000, '-');
  EXPECT_NE(fault_of("score = " + open).find("nested more than 200"), std::string::npos);
  EXPECT_NE(fault_of("score = " + minus + "1").find("nested more than 200"), std::string::npos);
  std::string chain = "score = content";
  for (int n = 0; n < 5000; ++n) chain += "+lam";  // as long as it likes, but not deep
  EXPECT_EQ(fault_of(chain), "");
  // Sums that double with every line are no sum of products any more.
  std::string lines = "let a0 = content + lam;";
  for (int n = 0; n < 40; ++n) {
    lines += "let a" + std::to_string(n + 1) + " = a" + std::to_string(n) + "*a" +
             std::to_string(n) + ";";
  }
  EXPECT_EQ(form_of(lines + "score = a40"), "term");
}

double number_of(const std::string& expression) {
  const Formula formula = read_formula("score = " + expression, kSizes);
  return formula.at(formula.score).numbers.at(0);
}

TEST(FormulaReader, CountsAsTheGrammarSays) {
  EXPECT_EQ(number_of("-2^2"), -4);
  EXPECT_EQ(number_of("2^-1"), 0.5);
  EXPECT_EQ(number_of("2^3^2"), 512);
  EXPECT_EQ(number_of("7 - 2 - 1"), 4);
  EXPECT_EQ(number_of("8/4/2"), 1);
  EXPECT_EQ(number_of("1 + 2*3 < 8"), 1);
  EXPECT_EQ(number_of("sum(planes)"), 6);
  EXPECT_EQ(number_of("sum(join(planes, 4)[3:])"), 7);
  EXPECT_EQ(number_of("d + 1e1 + .5"), 18.5);
  EXPECT_DOUBLE_EQ(number_of("cos(pi)"), -1);
}

std::string unit_of(const std::string& text) {
  return read_formula(text, kSizes).parameters.at(0).unit;
}

TEST(FormulaUnits, FollowFromTokensRadiansAndScores) {
  EXPECT_EQ(unit_of("param m[head] ~ slopes; score = content - m*lam"), "1/tokens");
  EXPECT_EQ(unit_of("param a[head] ~ ones; score = content - log(1 + a*lam)"), "1/tokens");
  EXPECT_EQ(unit_of("param w[plane] ~ ones; score = sum(inphase(q,k)*cos(lam*w))"),
            "radians/tokens");
  EXPECT_EQ(unit_of("param L ~ ones; score = content + log1p(lam/max(i, L))"), "tokens");
  EXPECT_EQ(unit_of("param p ~ ones; score = content + p*lam^0.5"), "1/tokens^0.5");
  EXPECT_EQ(unit_of("param p ~ ones; score = content*p"), "none");
  EXPECT_EQ(unit_of("param p ~ ones; score = content*0.9^lam*p"), "none");
  EXPECT_EQ(unit_of("param p ~ ones; param r ~ ones; score = content + p*r*lam"), "not determined");
}

TEST(FormulaWarnings, NameParametersThatNothingReads) {
  const std::string text = "param a ~ ones; param w[2, 8] ~ zeros; let b = a*lam; score = content";
  EXPECT_EQ(read_formula(text, kSizes).warnings,
            (std::vector<std::string>{"column 7: the score does not read a",
                                      "column 23: the score does not read w"}));
}

TEST(FormulaWarnings, NameLogarithmsOfZeroAndDivisionsByIt) {
  EXPECT_EQ(read_formula("score = content - log(lam)", kSizes).warnings,
            std::vector<std::string>{"column 19: the logarithm is of 0 where lam is 0"});
  EXPECT_TRUE(read_formula("score = content - log(1+lam)", kSizes).warnings.empty());
  EXPECT_EQ(read_formula("score = content/lam", kSizes).warnings,
            std::vector<std::string>{"column 16: this divides by 0 where lam is 0"});
  EXPECT_EQ(read_formula("score = content + (i - j)/(i - j)", kSizes).warnings,
            std::vector<std::string>{"column 26: this divides by 0 where lam is 0"});
  EXPECT_TRUE(read_formula("score = content/(1 + lam)", kSizes).warnings.empty());
  EXPECT_TRUE(read_formula("score = content/max(lam, 1)", kSizes).warnings.empty());
}

TEST(FormulaForms, AreWhatKernelsKnow) {
  const char* const mlp =
      "param w1[6, 2*head] ~ normal(0.1); param b1[6] ~ zeros; param w2[head, 6] ~ normal(0.1);"
      "param m[head] ~ slopes; let b = -m*lam;";
  const std::string network =
      "own(linear(w2, leaky(linear(w1, join(heads(content), heads(b))) + b1)))";
  const std::string planes =
      "let w = 100^(-2*planes/d); let p = inphase(q,k); "
      "let x = quadrature(q,k); ";
  const std::pair<std::string, const char*> forms[] = {
      {"score = content", "plain"},
      {"score = scale*dot(k, q)", "plain"},
      {"score = 2*content/3 + content", "plain"},
      {"score = dot(silu(q), k*2)", "plain"},
      {"score = content*log(i + 1)", "plain"},
      {"param m[head] ~ slopes; score = content - m*lam", "table"},
      {"param m[head] ~ slopes; score = content - m*(i - j)", "table"},
      {"score = (content - 3*lam)/2 + content/2", "table"},
      {"score = content*0.9^lam", "table, multiplied"},
      {planes + "score = scale*sum(p*cos(lam*w) + x*sin(lam*w))", "plain, rotated"},
      {planes + "score = scale*sum(p*cos(lam*w) - x*sin(lam*w)) - lam", "plain, rotated"},
      {planes + "score = sum((p*cos(w*lam/2) + x*sin(w*lam/2))*((planes+1)/8)^(lam/512))*scale",
       "plain, rotated"},
      {"score = dot(q[:4],k[:4])/2*cos(2*pi*lam^0.1*dot(q[4:],k[4:])/2)", "tapa"},
      {mlp + std::string("score = content + b + ") + network, "cape"},
      // And what they do not.
      {"score = tanh(content)", "term"},
      {"score = content - j", "term"},
      {"score = content^2", "term"},
      {"score = content*lam + lam", "term"},
      {planes + "score = scale*sum(p*cos(lam*w) + x*sin(2*lam*w))", "term"},
      {planes + "score = scale*sum(p*cos(lam^2*w) + x*sin(lam^2*w))", "term"},
      {planes + "score = scale*sum(p*cos(lam*w + 1) + x*sin(lam*w + 1))", "term"},
      {planes + "score = scale*sum(p*cos(lam*w) + 2*x*sin(lam*w))", "term"},
      {planes + "score = scale*sum(p*sin(lam*w) + x*cos(lam*w))", "term"},
      {"score = dot(q[:4],k[:4])*sin(lam*dot(q[4:],k[4:]))", "term"},
      {"score = dot(q[4:],k[4:])*cos(lam*dot(q[:4],k[:4]))", "term"},
      {mlp + std::string("score = content + 2*b + ") + network, "term"},
      {mlp + std::string("score = 2*content + b + ") + network, "term"},
  };
  for (const auto& [text, form] : forms) EXPECT_EQ(form_of(text), form) << text;
}

TEST(FormulaForms, SayWhyNot) {
  EXPECT_EQ(of("score = content + tanh(content)").why.substr(0, 17), "tanh at column 19");
  EXPECT_EQ(of("score = content*0.9^lam + lam").why,
            "it adds different products of queries and keys, or adds to one that the distance "
            "multiplies");
  EXPECT_EQ(of("score = lam").why, "its score reads neither a query nor a key");
}

TEST(FormulaForms, KnowWhatAShiftDoes) {
  EXPECT_TRUE(read_formula("score = content - (i - j)", kSizes).shift_invariant());
  EXPECT_FALSE(read_formula("score = content - lam/(i + 1)", kSizes).shift_invariant());
}

}  // namespace
}  // namespace phasescope::formula
