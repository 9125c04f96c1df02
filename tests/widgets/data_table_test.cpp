#include "widgets/data_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/widgets/headless_imgui.h"

namespace phasescope::widgets {
namespace {

using phasescope::testing::HeadlessImGui;

TableSpec heads() {
  TableSpec table{.id = "heads", .columns = {{"head", "", false}, {"entropy"}, {"sink"}}};
  table.rows = {
      {words_cell_of("L0H0"), number_cell_of(2.5), number_cell_of(0.1)},
      {words_cell_of("L0H1"), number_cell_of(NAN), number_cell_of(0.9)},
      {words_cell_of("L1H0"), number_cell_of(10), number_cell_of(0.4, 0.3, 0.5)},
      {words_cell_of("L1H1"), number_cell_of(-1), number_cell_of(0.4)},
  };
  return table;
}

using Rows = std::vector<int>;

TEST(RowsInOrder, SortNumbersAsNumbersAndLeaveUnknownOnesLast) {
  EXPECT_EQ(rows_in_order(heads(), {}), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(rows_in_order(heads(), {.column = 1}), (Rows{2, 0, 3, 1}));
  EXPECT_EQ(rows_in_order(heads(), {.column = 1, .descending = false}), (Rows{3, 0, 2, 1}));
}

TEST(RowsInOrder, SortWordsAsWordsAndKeepEqualRowsAsTheyStand) {
  EXPECT_EQ(rows_in_order(heads(), {.column = 0}), (Rows{3, 2, 1, 0}));
  EXPECT_EQ(rows_in_order(heads(), {.column = 2}), (Rows{1, 2, 3, 0}));
  EXPECT_EQ(rows_in_order(heads(), {.column = 2, .descending = false}), (Rows{0, 2, 3, 1}));
  EXPECT_EQ(rows_in_order(heads(), {.column = 99}), (Rows{0, 1, 2, 3}));
}

TEST(RowsInOrder, HoldEveryWordAndConditionOfASearch) {
  const auto found = [](const std::string& words) {
    return rows_in_order(heads(), {.search = words});
  };
  EXPECT_EQ(found("l1"), (Rows{2, 3}));
  EXPECT_EQ(found("L1 h1"), (Rows{3}));
  EXPECT_EQ(found("entropy>2"), (Rows{0, 2}));
  EXPECT_EQ(found("ENT>=2.5 sink<0.3"), (Rows{0}));
  EXPECT_EQ(found("entropy<=-1"), (Rows{3}));
  EXPECT_EQ(found("sink=0.4"), (Rows{2, 3}));
  EXPECT_EQ(found("nothing"), Rows());
  EXPECT_EQ(found("unknown>2"), Rows());
  EXPECT_EQ(found("   "), (Rows{0, 1, 2, 3}));
}

// The condition that is offered is one on a column that the table has.
TEST(RowsInOrder, AreOfferedAConditionThatTheTableTakes) {
  TableSpec table{.id = "t"};
  table.columns = {{"model", "", false}, {"4..5"}, {"loss [nats]"}, {"share"}};
  table.rows = {{words_cell_of("a"), number_cell_of(1), number_cell_of(1), number_cell_of(2)},
                {words_cell_of("b"), number_cell_of(1), number_cell_of(1), number_cell_of(-2)}};
  const std::string begin = "Search, or a condition: ";
  EXPECT_EQ(hint_of(table), begin + "share>0");
  EXPECT_EQ(rows_in_order(table, {.search = hint_of(table).substr(begin.size())}),
            std::vector<int>{0});
  table.columns.pop_back();
  EXPECT_EQ(hint_of(table), "Search");
}

TEST(TableText, IsCsvWithNumbersInFullAndMarkdownAsShown) {
  TableSpec table = heads();
  table.rows[0][0].words = "a, \"b\" | c";
  table.rows[0][1] = number_cell_of(0.123456789);
  EXPECT_EQ(csv_of(table, {2, 0}),
            "head,entropy,sink\nL1H0,10,0.4\n\"a, \"\"b\"\" | c\",0.123456789,0.1\n");
  EXPECT_EQ(markdown_of(table, {2, 0}),
            "| head | entropy | sink |\n| --- | ---: | ---: |\n| L1H0 | 10 | 0.4 [0.3, 0.5] |\n"
            "| a, \"b\" \\| c | 0.1235 | 0.1 |\n");
}

class DrawnTable : public ::testing::Test {
 protected:
  int frames(int count = 2) {
    int vertices = 0;
    for (int i = 0; i < count; ++i)
      vertices = gui_.frame([&] {
        at_ = ImGui::GetCursorScreenPos();
        drawn_ = table_.draw(spec_, options_);
      });
    return vertices;
  }
  void move_to_row(int row) {
    const float line = ImGui::GetTextLineHeight() + ImGui::GetStyle().CellPadding.y * 2;
    const float top = at_.y + ImGui::GetFrameHeightWithSpacing() + line;  // below the titles
    ImGui::GetIO().AddMousePosEvent(at_.x + 10, top + line * (static_cast<float>(row) + 0.5F));
  }

  HeadlessImGui gui_;
  DataTable table_;
  TableSpec spec_ = heads();
  TableDraw options_;
  TableDrawn drawn_;
  ImVec2 at_{0, 0};
};

TEST_F(DrawnTable, AClickFindsTheRowInTheOrderShown) {
  table_.arrange({.column = 1});
  frames();
  EXPECT_EQ(table_.order(), (Rows{2, 0, 3, 1}));
  move_to_row(1);
  frames();
  EXPECT_EQ(drawn_.hovered, 0);
  ImGui::GetIO().AddMouseButtonEvent(0, true);
  frames(1);
  ImGui::GetIO().AddMouseButtonEvent(0, false);
  frames(1);
  EXPECT_EQ(drawn_.clicked, 0);
}

TEST_F(DrawnTable, AClickOnABoxIsNoneOnItsRow) {
  spec_.rows[1][0] = box_cell_of(false, "a box");
  frames();
  for (const int row : {1, 2}) {
    move_to_row(row);
    frames();
    ImGui::GetIO().AddMouseButtonEvent(0, true);
    frames(1);
    ImGui::GetIO().AddMouseButtonEvent(0, false);
    frames(1);
    EXPECT_EQ(drawn_.box, row == 1 ? 1 : -1);
    EXPECT_EQ(drawn_.clicked, row == 1 ? -1 : 2);
  }
}

TEST_F(DrawnTable, OtherRowsAreArrangedAnew) {
  frames();
  spec_.rows.pop_back();
  options_.version = 1;
  frames();
  EXPECT_EQ(table_.order(), (Rows{0, 1, 2}));
  table_.arrange({.search = "entropy>2"});
  frames();
  EXPECT_EQ(table_.order(), (Rows{0, 2}));
  EXPECT_EQ(table_.arrangement().search, "entropy>2");
}

// The second model's answer comes after the first one's, and may have the longer words.
TEST_F(DrawnTable, ColumnsGrowWithTheRowsThatCome) {
  options_.width = 900, options_.height = 300;
  frames(4);
  spec_.rows.push_back(spec_.rows[0]);
  spec_.rows.back()[0] = words_cell_of("a name that is much longer than others");
  options_.version = 1;
  frames(4);
  auto& tables = ImGui::GetCurrentContext()->Tables;
  ASSERT_EQ(tables.GetAliveCount(), 1);
  const ImGuiTable* table = tables.TryGetMapData(0);
  ASSERT_NE(table, nullptr);
  EXPECT_GE(table->Columns[0].WidthGiven,
            ImGui::CalcTextSize(spec_.rows.back()[0].words.c_str()).x);
}

// A number that is scrolled to later, or whose interval comes later, has room then.
TEST_F(DrawnTable, ColumnsHaveRoomForNumbersOutOfSight) {
  options_.width = 900, options_.height = 120;
  for (int i = 0; i < 50; ++i) spec_.rows.push_back(spec_.rows[0]);
  frames(4);
  TableCell& last = spec_.rows.back()[1];
  last.number = 1.234e-6, last.low = 1.111e-6, last.high = 1.345e-6;
  options_.version = 1;
  frames(4);
  const ImGuiTable* table = ImGui::GetCurrentContext()->Tables.TryGetMapData(0);
  ASSERT_NE(table, nullptr);
  EXPECT_GE(table->Columns[1].WidthGiven, ImGui::CalcTextSize(text_of(last).c_str()).x);
}

// As one that is scrolled to: how many rows it has is said above it.
TEST_F(DrawnTable, RowsOfATableOutOfSightAreOrdered) {
  gui_.frame([&] {
    ImGui::SetCursorPosY(ImGui::GetIO().DisplaySize.y - ImGui::GetFrameHeight() * 1.5F);
    table_.draw(spec_, options_);
  });
  EXPECT_EQ(table_.order(), (Rows{0, 1, 2, 3}));
}

// What is out of sight costs nothing.
TEST_F(DrawnTable, OfManyRowsDrawsThoseInSight) {
  options_.height = 300;
  for (int i = 0; i < 100; ++i) spec_.rows.push_back(spec_.rows[0]);
  options_.version = 1;
  const int hundred = frames();
  for (int i = 0; i < 5000; ++i) spec_.rows.push_back(spec_.rows[0]);
  options_.version = 2;
  EXPECT_LT(frames(), hundred + 200);
  spec_.rows.clear();
  options_.version = 3;
  const int titles = frames();
  spec_.columns.clear();
  const int nothing = frames();
  EXPECT_LT(nothing, titles);
  EXPECT_LT(titles, hundred);
}

}  // namespace
}  // namespace phasescope::widgets
