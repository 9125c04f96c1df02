#include "protocol/model_reading.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace phasescope::protocol {
namespace {

TEST(ModelReading, NamesAndSettingsGoBothWays) {
  const std::vector<std::pair<std::string, ModelReading>> cases = {
      {"rope", {"rope"}},
      {"rope (yarn x2)", {"rope", {{"encoding.scaling", "yarn"}, {"encoding.factor", "2"}}}},
      {"models/a b (base=1e6)", {"models/a b", {{"encoding.base", "1e6"}}}},
      {"rope (model.context=512)", {"rope", {{"context", "512"}}}},
      {"rope (longrope x4, short_factor=[1, 2], attention.window=9)",
       {"rope",
        {{"encoding.scaling", "longrope"},
         {"encoding.factor", "4"},
         {"encoding.short_factor", "[1, 2]"},
         {"attention.window", "9"}}}},
  };
  for (const auto& [name, reading] : cases) {
    EXPECT_EQ(name_of(reading), name);
    EXPECT_EQ(model_reading(name).model, reading.model);
    EXPECT_EQ(model_reading(name).settings, reading.settings) << name;
  }
}

TEST(ModelReading, OtherNamesAreModelsAsTheyStand) {
  for (const char* name : {"model (old)", "model (yarn 2)", "(yarn x2)", "a(yarn x2)", "a (yarn x)",
                           "a (B=2)", "a (=2)", "a ()", "a (yarn x2) b", "a (yarn x2"}) {
    EXPECT_EQ(model_reading(name).model, name);
    EXPECT_TRUE(model_reading(name).settings.empty()) << name;
  }
  const auto folder = std::filesystem::path(::testing::TempDir()) / "a model (yarn x2)";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(model_reading(folder.string()).model, folder.string());
  std::filesystem::remove(folder);
}

// A scaling without its factor, and settings of a key's own group.
TEST(ModelReading, SettingsThatAreNoPairAreWrittenOut) {
  EXPECT_EQ(name_of({"rope", {{"encoding.scaling", "yarn"}}}), "rope (scaling=yarn)");
  EXPECT_EQ(name_of({"rope", {{"rope.base", "2e4"}}}), "rope (rope.base=2e4)");
}

}  // namespace
}  // namespace phasescope::protocol
