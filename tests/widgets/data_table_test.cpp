#include "widgets/data_table.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  table.columns = {{"model", "", false}, {"4..5"}, {"loss (nats)"}, {"share"}};
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
    for (int i = 0; i < count; ++i) {
      vertices = gui_.frame([&] {
        at_ = ImGui::GetCursorScreenPos();
        drawn_ = table_.draw(spec_, options_);
        ImGui::Button("behind");
        behind_ = ImGui::IsItemFocused();
      });
    }
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
  bool behind_ = false;  // the button below the table has the focus
};

// A table with a box, and keys for it.
class KeyedTable : public DrawnTable {
 protected:
  KeyedTable() {
    spec_.rows[1][2] = box_cell_of(false, "a box");
    options_.searchable = false;
    frames(3);
  }
  // What one key does, in the frame of its press or in the next one.
  TableDrawn after(ImGuiKey key, bool shift = false) {
    ImGuiIO& io = ImGui::GetIO();
    io.AddKeyEvent(ImGuiMod_Shift, shift);
    io.AddKeyEvent(key, true);
    frames(1);
    const TableDrawn first = drawn_;
    io.AddKeyEvent(key, false);
    io.AddKeyEvent(ImGuiMod_Shift, false);
    frames(1);
    drawn_.clicked = std::max(drawn_.clicked, first.clicked);
    drawn_.box = std::max(drawn_.box, first.box);
    return drawn_;
  }
  // By the titles.
  void to_rows() { after(ImGuiKey_Tab), after(ImGuiKey_Tab); }
  std::string copied_cell() {
    after(ImGuiKey_F10, /*shift=*/true);
    frames(3);
    after(ImGuiKey_Enter);
    frames(2);
    return ImGui::GetClipboardText();
  }
};

TEST_F(KeyedTable, ARowIsClickedAndItsBoxTicked) {
  to_rows();
  EXPECT_EQ(after(ImGuiKey_Space).clicked, 0) << "without Enter first";
  after(ImGuiKey_DownArrow);
  EXPECT_EQ(after(ImGuiKey_Space).clicked, 1);
  after(ImGuiKey_RightArrow), after(ImGuiKey_RightArrow);
  const TableDrawn ticked = after(ImGuiKey_Space);
  EXPECT_EQ(ticked.box, 1);
  EXPECT_EQ(ticked.clicked, -1);
  after(ImGuiKey_LeftArrow);
  EXPECT_EQ(after(ImGuiKey_Space).clicked, 1);
}

TEST_F(KeyedTable, ACellIsCopied) {
  to_rows();
  EXPECT_EQ(copied_cell(), "L0H0");
  after(ImGuiKey_DownArrow), after(ImGuiKey_DownArrow), after(ImGuiKey_RightArrow);
  EXPECT_EQ(copied_cell(), "10");
}

TEST_F(KeyedTable, TheCellIsNoneOfAHiddenColumn) {
  to_rows(), after(ImGuiKey_DownArrow), after(ImGuiKey_RightArrow), after(ImGuiKey_RightArrow);
  ASSERT_EQ(after(ImGuiKey_Space).box, 1);
  ImGui::GetCurrentContext()->Tables.TryGetMapData(0)->Columns[2].IsUserEnabledNextFrame = false;
  frames();
  const TableDrawn pressed = after(ImGuiKey_Space);
  EXPECT_EQ(pressed.box, -1);
  EXPECT_EQ(pressed.clicked, 1);
}

// Of a table that is scrolled sideways the menu stood where the row begins, over other views.
TEST_F(KeyedTable, TheMenuStandsBelowTheCell) {
  for (int n = 0; n < 30; ++n) {
    spec_.columns.push_back({"a column " + std::to_string(n)});
    for (auto& row : spec_.rows) row.push_back(number_cell_of(n));
  }
  ++options_.version, options_.width = 400;
  frames(3);
  to_rows();
  for (int n = 0; n < 30; ++n) after(ImGuiKey_RightArrow);
  after(ImGuiKey_F10, /*shift=*/true);
  frames(2);
  const ImGuiWindow* menu = ImGui::GetCurrentContext()->NavWindow;
  ASSERT_TRUE(menu->Flags & ImGuiWindowFlags_Popup);
  EXPECT_GE(menu->Pos.x, at_.x);
  EXPECT_LE(menu->Pos.x, at_.x + 400);
}

TEST_F(KeyedTable, ItsTitlesSort) {
  to_rows();
  after(ImGuiKey_UpArrow), after(ImGuiKey_RightArrow);
  after(ImGuiKey_Space);
  frames(2);
  EXPECT_EQ(table_.arrangement().column, 1);
  EXPECT_EQ(table_.order(), (Rows{2, 0, 3, 1}));
}

// However many rows and columns there are, Tab stops at the titles and at one row, and comes back
// to the row where it was.
TEST_F(KeyedTable, TabPassesItInTwoSteps) {
  for (int n = 0; n < 200; ++n) spec_.rows.push_back(spec_.rows[0]);
  ++options_.version, options_.height = 200;
  frames(3);
  to_rows();
  EXPECT_FALSE(behind_);
  after(ImGuiKey_DownArrow);
  after(ImGuiKey_Tab);
  EXPECT_TRUE(behind_);
  after(ImGuiKey_Tab, /*shift=*/true);
  EXPECT_FALSE(behind_);
  EXPECT_EQ(after(ImGuiKey_Space).clicked, 1);
}

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

// A column that the table's edge cuts off still shows a number that has room for all its digits;
// of one that has none no digits stand there, and the pointer is told it.
TEST(TableEdge, ShowsWholeNumbersOrNone) {
  HeadlessImGui gui;
  TableSpec table{.id = "edge", .columns = {{"name", "", false}, {"a long title of a column"}}};
  table.rows = {{words_cell_of("one"), number_cell_of(0.125)},
                {words_cell_of("two"), number_cell_of(0.125, -1234, 98760)}};
  DataTable drawn;
  TableDraw options;
  float name = 0, number = 0;  // widths of words
  const auto words_at = [&](float width) {
    std::string all;
    for (int frame = 0; frame < 4; ++frame) {
      gui.frame([&] {
        name = ImGui::CalcTextSize("name").x, number = ImGui::CalcTextSize("0.125").x;
        ImGui::BeginChild("room", {width, 300});
        all = gui.words_of([&] { drawn.draw(table, options); });
        ImGui::EndChild();
      });
    }
    return all;
  };
  const auto has = [](const std::string& words, const char* part) {
    return words.find(part) != std::string::npos;
  };
  const std::string wide = words_at(600);
  EXPECT_TRUE(has(wide, "0.125 [-1234")) << wide;
  EXPECT_FALSE(has(wide, "...")) << wide;
  const std::string narrow = words_at(name + number + 60);
  EXPECT_TRUE(has(narrow, "0.125")) << narrow;
  EXPECT_TRUE(has(narrow, "...")) << narrow;
  EXPECT_FALSE(has(narrow, "[")) << narrow;
}

// Words that run out of sight say so, and the pointer is told all of them.
TEST(TableEdge, CutsWordsWithAnEllipsis) {
  HeadlessImGui gui;
  const std::string words = "rope (yarn x16, a reading with a very long name)";
  TableSpec table{.id = "edge", .columns = {{"name", "", false}}, .rows = {{words_cell_of(words)}}};
  for (const int color : {-1, 3}) {
    table.rows[0][0].color = color;
    DataTable drawn;
    TableDraw options;
    options.searchable = false;
    const float width = 150;
    ImVec2 at;
    std::string said;
    const auto frame = [&] {
      gui.begin_frame(0.1F);
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize({600, 400});
      ImGui::Begin("test", nullptr, ImGuiWindowFlags_NoDecoration);
      ImGui::BeginChild("room", {width, 300});
      at = ImGui::GetCursorScreenPos();
      said = gui.words_of([&] { drawn.draw(table, options); });
      ImGui::EndChild();
      ImGui::End();
      gui.end_frame();
    };
    const auto times = [&] {
      int count = 0;
      for (std::size_t n = said.find(words); n != said.npos; n = said.find(words, n + 1)) ++count;
      return count;
    };
    ImGui::GetIO().AddMousePosEvent(-100, -100);
    for (int n = 0; n < 6; ++n) frame();
    const ImVec4 ink = color < 0 ? ImGui::GetStyleColorVec4(ImGuiCol_Text) : series_text(color);
    const ImU32 letters = ImGui::ColorConvertFloat4ToU32(ink);
    float right = 0;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) {
        if (vertex.col == letters) right = std::max(right, vertex.pos.x);
      }
    }
    EXPECT_GT(right, at.x) << color;
    EXPECT_LE(right, at.x + width + 1) << color << ": letters are cut through";
    const int before = times();
    EXPECT_GE(before, 1) << said;
    const float line = ImGui::GetTextLineHeight() + ImGui::GetStyle().CellPadding.y * 2;
    ImGui::GetIO().AddMousePosEvent(at.x + 40, at.y + 1.5F * line);
    for (int n = 0; n < 12; ++n) frame();
    EXPECT_GT(times(), before) << said;
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

// Letters of another size are not all so much wider or narrower: numbers keep their last bracket.
TEST_F(DrawnTable, ColumnsFitLettersOfEverySize) {
  options_.width = 900, options_.height = 300;
  spec_.rows[2][2] = number_cell_of(0.0001836, 0.0001528, 0.0002244);
  spec_.rows[1][1] = number_cell_of(2.255, 2.068, 2.442);
  frames(4);
  for (const float scale : {0.75F, 1.25F, 2.0F, 0.75F, 3.0F, 1.0F}) {
    apply_theme("light", scale);
    frames(4);
    gui_.frame([&] {
      table_.draw(spec_, options_);
      const ImGuiTable* table = ImGui::GetCurrentContext()->Tables.TryGetMapData(0);
      ASSERT_NE(table, nullptr);
      for (const auto& row : spec_.rows) {
        for (std::size_t c = 0; c < row.size(); ++c) {
          const std::string words = text_of(row[c]);
          EXPECT_GE(table->Columns[static_cast<int>(c)].WidthGiven,
                    ImGui::CalcTextSize(words.c_str()).x)
              << words << " at " << scale;
        }
      }
    });
  }
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
