#include "worker/handlers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace phasescope::worker {
namespace {

TEST(Handlers, AreUniqueHaveHelpAndStandInTheDocumentation) {
  std::ifstream file(PHASESCOPE_SOURCE "/docs/protocol.md");
  const std::string documentation{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> names;
  for (const auto& handler : all_handlers()) {
    EXPECT_TRUE(names.insert(handler.name).second) << handler.name << " is there twice";
    EXPECT_FALSE(handler.help.empty()) << handler.name;
    EXPECT_TRUE(handler.run) << handler.name;
    EXPECT_NE(documentation.find('`' + handler.name + '`'), std::string::npos)
        << handler.name << " is not in docs/protocol.md";
  }
  EXPECT_TRUE(names.contains("worker.info"));
  EXPECT_FALSE(names.contains("worker.crash"));
}

}  // namespace
}  // namespace phasescope::worker
