// What the views of heads and maps draw of what was chosen, and what they say of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "app/views/compare_view.h"
#include "app/views/heads_view.h"
#include "app/views/map_view.h"
#include "app/views/query_view.h"
#include "app/window/commands.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"

namespace phasescope::app {
namespace {

class HeadsAndMaps : public OneView {
 protected:
  explicit HeadsAndMaps(MadeUpShape shape = {}) : OneView(5, std::move(shape)) {}

  // What one more frame says in a window with room for all of it.
  std::string words() {
    gui_.begin_frame(0.1F);
    requests_.begin_frame();
    ImGui::SetNextWindowSize({1600, 1000});
    std::string all = gui_.words_of([&] { view_->draw(context_); });
    gui_.end_frame();
    return all;
  }
  static bool has(const std::string& words, const std::string& part) {
    return words.find(part) != std::string::npos;
  }
};

// ---- heads ----

TEST_F(HeadsAndMaps, TheScatterHasTheHeadsThatTheTableHas) {
  Session session = default_session();
  session.views.set(HeadsState{.search = "entropy>2", .scatter = true});
  open("heads", session);
  ASSERT_FALSE(saved_.empty());
  const widgets::PlotSpec& scatter = saved_.back().output.figures.at(0);
  ASSERT_EQ(scatter.series.size(), session.models.size());
  int left_out = 0;
  for (std::size_t i = 0; i < session.models.size(); ++i) {
    const protocol::HeadsResult& result = context_.of(kHeads, i).answer()->result;
    for (const protocol::HeadRow& row : result.rows) {
      const auto cell = static_cast<std::size_t>(row.layer * result.heads + row.head);
      const bool found = row.values.at("entropy").mean > 2;
      EXPECT_EQ(std::isnan(scatter.series[i].x.at(cell)), !found) << i << ' ' << cell;
      left_out += found ? 0 : 1;
    }
  }
  ASSERT_GT(left_out, 0);
  EXPECT_TRUE(has(scatter.notes.back(), "leaves out " + std::to_string(left_out) + " of "));
  EXPECT_TRUE(has(words(), "leaves out " + std::to_string(left_out) + " of "));
}

TEST_F(HeadsAndMaps, TheCommandSortsAsTheTableDoes) {
  Session session = default_session();
  session.views.set(HeadsState{.metric = "sink", .sorted = true, .ascending = true});
  open("heads", session);
  EXPECT_EQ(view_->command_line(context_),
            "phasescope heads rope --sort sink --ascending && "
            "phasescope heads tapa_norm --sort sink --ascending");
  session.views.set(HeadsState{.metric = "sink", .sorted = true});
  open("heads", session);
  EXPECT_EQ(view_->command_line(context_),
            "phasescope heads rope --sort sink && phasescope heads tapa_norm --sort sink");
}

// ---- maps ----

TEST_F(HeadsAndMaps, TheCommandOfAMapHasItsColours) {
  Session session = default_session();
  session.views.set(MapState{.look = {.scale = "log", .decades = 3, .high = 0.5}});
  open("map", session);
  EXPECT_TRUE(has(view_->command_line(context_), " --scale log --decades 3 --high 0.5"))
      << view_->command_line(context_);
  EXPECT_EQ(saved_.at(0).command, view_->command_line(context_));
  // What is left to the program is said as it is drawn.
  session.views.set(MapState{});
  open("map", session);
  const bool log = saved_.at(0).output.figures.at(0).map->log_decades > 0;
  EXPECT_EQ(has(view_->command_line(context_), "--scale log"), log);
  session.views.set(MapState{.of = "score", .look = {.low = -1.5, .high = 2}});
  open("map", session);
  EXPECT_TRUE(has(view_->command_line(context_), " --low=-1.5 --high 2"));
  EXPECT_FALSE(has(view_->command_line(context_), "--scale"));
}

// Two that stand beside each other have two commands, which have the ends that both have.
TEST_F(HeadsAndMaps, CommandsOfTwoMapsHaveOneScale) {
  Session session = default_session();
  session.views.set(MapState{.of = "score", .show = "both"});
  open("map", session);
  ASSERT_EQ(saved_.size(), 2U);
  const widgets::ValueRange range = saved_[0].output.figures.at(0).map->range;
  for (const Saved& one : saved_) {
    const auto at = one.command.find("--high ");
    ASSERT_NE(at, std::string::npos) << one.command;
    EXPECT_DOUBLE_EQ(std::stod(one.command.substr(at + 7)), range.high);
  }
}

class PooledMaps : public HeadsAndMaps {
 protected:
  PooledMaps() : HeadsAndMaps({.map = 64}) {}  // cells of 4 x 4 pairs
};

TEST_F(PooledMaps, EachOfThreeHasACaption) {
  Session session = default_session();
  session.views.set(MapState{.show = "difference"});
  open("map", session);
  ASSERT_EQ(saved_.size(), 3U);
  const std::string said = words();
  std::size_t captions = 0;
  for (std::size_t at = 0; (at = said.find("scale ", at)) != std::string::npos; ++at) ++captions;
  EXPECT_GE(captions, 3U) << said;
  EXPECT_TRUE(has(saved_[2].output.figures.at(0).notes.back(), "not the largest difference"));
}

// ---- the selection ----

TEST_F(HeadsAndMaps, ATokenBeyondTheTextIsSelectedNoMore) {
  Session session = default_session();
  session.selection.query = 1000, session.selection.key = 3;
  session.region = {900, 1100, 0, 100};
  open("query", session);
  EXPECT_FALSE(edit_.session().selection.query);
  EXPECT_FALSE(edit_.session().selection.key);
  EXPECT_EQ(edit_.session().region, Region{});
  EXPECT_FALSE(link_.last_params("query").contains("query"));
  const auto says = [](const auto& notice) { return has(notice.text, "Token 1000"); };
  EXPECT_TRUE(std::ranges::any_of(window_.said, says));
  // What is in the text stays.
  session.selection.query = 255, session.selection.key = 3;
  session.region = {200, 400, 0, 100};
  open("query", session);
  EXPECT_EQ(edit_.session().selection.query, 255);
  EXPECT_EQ(edit_.session().region, (Region{200, 256, 0, 100}));
}

// ---- compare ----

TEST(OblongMatrices, AreThoseThatWouldBeStrips) {
  const auto of = [](int rows, int columns) {
    widgets::PlotSpec plot;
    plot.map = widgets::MapSpec{.rows = rows, .cols = columns};
    return is_oblong(plot);
  };
  EXPECT_TRUE(of(16, 4));
  EXPECT_TRUE(of(4, 16));
  EXPECT_FALSE(of(16, 16));
  EXPECT_FALSE(of(8, 4));
  EXPECT_FALSE(is_oblong(widgets::PlotSpec{}));
}

}  // namespace
}  // namespace phasescope::app
