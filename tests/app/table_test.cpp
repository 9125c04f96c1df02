// Tables and lines of progress, as the terminal and CSV files have them.
#include <gtest/gtest.h>

#include <chrono>
#include <tuple>

#include "app/cli/output.h"
#include "app/cli/progress_lines.h"
#include "app/outputs/eval_output.h"
#include "app/outputs/paper_table.h"
#include "app/outputs/result_tables.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

TEST(Table, AlignsColumnsAndCountsCharactersNotBytes) {
  Table table{.columns = {"name", "x"}};
  table.rows = {{{"name", "é"}, {"x", 1.5}}, {{"name", "abc"}, {"x", 20}}};
  EXPECT_EQ(text_of(table), "name    x\né     1.5\nabc    20\n");
}

// The best is 2 [1.8, 2.4], and 2.3 lies within it; 2.5 does not, nor does the guesser count.
TEST(Table, MarksTheBestAndWhatItsIntervalHolds) {
  protocol::EvalResult result{.task = "copy", .metric = "perplexity"};
  result.length_unit = "symbols", result.counted = "seeds";
  const auto add = [&](const char* model, double value) {
    protocol::EvalRow row{.model = model, .metric = "perplexity", .length = 20, .value = value};
    row.low = value - 0.2, row.high = value + 0.4, row.n = 3, row.blind = 1.5;
    result.rows.push_back(row);
  };
  add("rope", 2.3), add("tape", 2), add("none", 2.5);
  EXPECT_EQ(eval_tables(result, names_in(result))[0].table.headings.at("n"), "seeds");
  protocol::EvalResult windows = result;  // of perplexity over seeds
  windows.length_unit.reset();
  EXPECT_EQ(eval_tables(windows, names_in(windows))[0].table.headings.at("n"), "seeds");
  const Table table = results_table(result, names_in(result));
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(mark_of(table.rows[0]["20"]), kWithinMark);
  EXPECT_EQ(mark_of(table.rows[1]["20"]), kBestMark);
  EXPECT_EQ(mark_of(table.rows[2]["20"]), "");
  EXPECT_NE(text_of(table).find("2 [1.8, 2.4] *"), std::string::npos) << text_of(table);
  const std::string page = markdown_of(table);
  EXPECT_NE(page.find("| **2 [1.8, 2.4]** |"), std::string::npos) << page;
  EXPECT_NE(page.find("| <u>2.3 [2.1, 2.7]</u> |"), std::string::npos) << page;
  EXPECT_NE(page.find("| blind guesser | 1.5 |"), std::string::npos) << page;
  for (protocol::EvalRow& row : result.rows) row.metric = "accuracy";  // the highest is best
  EXPECT_EQ(mark_of(results_table(result, names_in(result)).rows[2]["20"]), kBestMark);
}

// Bits a token of models whose tokens are not the same are no contest: of bytes, and of the same
// tokens, they are.
TEST(Table, MarksNoBestWhereTokensDiffer) {
  protocol::EvalResult result{.task = "perplexity", .metric = "bits_per_token"};
  for (const auto& [model, value] : {std::pair{"bytes", 2.5}, std::pair{"words", 10.7}}) {
    protocol::EvalRow row{.model = model, .metric = result.metric, .length = 16, .value = value};
    row.low = value - 0.1, row.high = value + 0.1, row.n = 3;
    result.rows.push_back(row);
  }
  const auto best_of = [&] {
    return std::string(mark_of(results_table(result, names_in(result)).rows[0]["16"]));
  };
  EXPECT_EQ(best_of(), "");
  const std::string said = text_of(results_table(result, names_in(result)));
  EXPECT_NE(said.find("do not read the same tokens"), std::string::npos) << said;
  EXPECT_EQ(said.find("best (*)"), std::string::npos) << said;
  // A difference is there of the same tokens of the same texts alone.
  result.differences = {{.model = "words",
                         .against = "bytes",
                         .per = "token",
                         .length = 16,
                         .difference = {5, 4.0, 6.0, 3}}};
  EXPECT_EQ(best_of(), kBestMark);
  result.differences.clear();
  for (protocol::EvalRow& row : result.rows) row.metric = "bits_per_byte";
  EXPECT_EQ(best_of(), kBestMark);
}

TEST(Table, CountsHaveFiveDigitsAndAUnit) {
  Table table{.columns = {"flops", "mean"}, .counts = {"flops"}};
  for (const double flops : {361.44e9, 180.691e9, 99.99951e6, 1.23456e3, 999.996, 12.0, 0.0}) {
    table.rows.push_back({{"flops", flops}, {"mean", 1.23456e9}});
  }
  EXPECT_EQ(text_of(table),
            "   flops      mean\n361.44 G  1.23e+09\n180.69 G  1.23e+09\n100.00 M  1.23e+09\n"
            "1.2346 k  1.23e+09\n1.0000 k  1.23e+09\n      12  1.23e+09\n       0  1.23e+09\n");
  EXPECT_NE(csv_of(table).find("361440000000.0,"), std::string::npos);
}

// Of what a struct says of its fields: people read titles with units, files have the names.
TEST(Table, HeadingsAreForPeopleAndNamesForFiles) {
  const Table table = table_of<protocol::EvalRow>("", {{{"length", 64}, {"value", 2.5}, {"n", 3}}},
                                                  {"length", "value", "n"});
  EXPECT_EQ(text_of(table), "length (tokens)  value  texts\n             64    2.5      3\n");
  EXPECT_EQ(csv_of(table), "length,value,n\n64,2.5,3\n");
}

TEST(Table, CsvQuotesWhatNeedsIt) {
  Table table{.columns = {"a", "b"}};
  table.rows = {{{"a", "x,\"y\""}, {"b", 0.1}}, {{"a", nullptr}}};
  EXPECT_EQ(csv_of(table), "a,b\n\"x,\"\"y\"\"\",0.1\n,\n");
}

// 17.A10: a number with its interval is no cell of raw JSON.
TEST(Table, CsvHasAColumnForEachNumberOfAnInterval) {
  Table table{.columns = {"model", "entropy", "x"}};
  table.rows = {
      {{"model", "a"},
       {"entropy", protocol::to_json_form(protocol::Interval{2.5, 2.0, 3.0, 7})},
       {"x", 1}},
      {{"model", "b"}, {"entropy", protocol::to_json_form(protocol::Interval{1.5, {}, {}, 1})}},
      {{"model", "c"}, {"entropy", 0.5}, {"x", 3}}};
  EXPECT_EQ(csv_of(table),
            "model,entropy,entropy_low,entropy_high,entropy_n,x\n"
            "a,2.5,2.0,3.0,7,1\n"
            "b,1.5,,,1,\n"
            "c,0.5,,,,3\n");
}

// 17.A10: from 0 %, every few seconds, and nothing of what is over before.
TEST(ProgressLines, AreToldEveryFewSeconds) {
  using std::chrono::seconds;
  ProgressLines lines;
  const auto begin = ProgressLines::Clock::now();
  EXPECT_FALSE(lines.line(-1, "opening rope", begin));
  EXPECT_FALSE(lines.line(-1, "opening rope", begin + seconds(4)));
  EXPECT_EQ(lines.line(-1, "opening rope", begin + seconds(5)), "  0 % opening rope");
  EXPECT_FALSE(lines.line(0.25, "reading", begin + seconds(9)));
  EXPECT_EQ(lines.line(-1, "reading", begin + seconds(10)), " 25 % reading");
  EXPECT_FALSE(lines.line(1, "", begin + seconds(20)));
  EXPECT_EQ(lines.line(1.5, "done", begin + seconds(20)), "100 % done");
  lines.restart();
  EXPECT_EQ(lines.fraction(-1), 0);
}

}  // namespace
}  // namespace phasescope::app
