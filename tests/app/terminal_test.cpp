// What a terminal gets: nothing that a file could do to it, and bars that fit.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "app/cli/output.h"
#include "app/cli/progress_lines.h"
#include "app/window/waiting_lines.h"
#include "cli_tools.h"

namespace phasescope::app {
namespace {

// Names the window, clears it, colours it; C1's short form of ESC [; a byte of a terminal without
// UTF-8.
TEST(Terminal, NothingInATextMovesOrPaintsIt) {
  EXPECT_EQ(for_terminal("a\x1b]0;mine\x07z"), "a\\x1b]0;mine\\x07z");
  EXPECT_EQ(for_terminal("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(for_terminal("\xc2\x9b"
                         "31m"),
            "\\x9b31m");
  EXPECT_EQ(for_terminal("\x9b"
                         "31m"),
            "\\x9b31m");
}

TEST(Terminal, TextStaysAsItIs) {
  const std::string text = "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80\n\tnext";
  EXPECT_EQ(for_terminal(text), text);
  EXPECT_EQ(for_terminal("a\n\tb", Breaks::escaped), "a\\x0a\\x09b");
}

// Of Latin-1, and half of a character.
TEST(Terminal, Row38_BytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(for_terminal("caf\xe9 \xff\xc3"), "caf\\xe9 \\xff\\xc3");
}

// A tensor's name, of a model that was downloaded.
TEST(Terminal, NamesInTablesAreOneLine) {
  Table table{.columns = {"name", "n"}};
  table.rows = {{{"name", "w\x1b[31m\nq"}, {"n", 1}}};
  table.notes = {"of w\x1b[0m"};
  EXPECT_EQ(text_of(table), "name            n\nw\\x1b[31m\\x0aq  1\nof w\\x1b[0m\n");
}

TEST(Terminal, NamesInErrorsAreEscaped) {
  const std::string said = complaint({"map", "rope", "--rows", "\x1b[31m"});
  EXPECT_NE(said.find("\\x1b[31m"), std::string::npos) << said;
  EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
}

// The last column stays free: some terminals break the line when it is written to.
TEST(Terminal, ABarFitsIntoOneLine) {
  const std::string text = "rope: layer 3 of 24";
  EXPECT_EQ(progress_bar(0.5, text, 80),
            "[" + std::string(15, '#') + std::string(15, ' ') + "]  50 % " + text);
  EXPECT_EQ(progress_bar(0.5, text, 20), " 50 % rope: layer 3");
  EXPECT_EQ(progress_bar(1, "caf\xc3\xa9s", 11), "100 % caf\xc3\xa9");
  EXPECT_EQ(progress_bar(0, "a\nb", 80).find('\n'), std::string::npos);
  EXPECT_EQ(progress_bar(2, "", 0), "");
}

// A picture that waits for a minute was silent for so long: every five seconds one line, with the
// share of the most answers that ever waited.
TEST(Terminal, APictureThatWaitsSaysHowManyAnswersAreToCome) {
  WaitingLines lines;
  const ProgressLines::Clock::time_point begin{};
  const auto after = [&](double seconds, std::size_t waiting) {
    const auto past = std::chrono::duration_cast<ProgressLines::Clock::duration>(
        std::chrono::duration<double>(seconds));
    return lines.line(waiting, begin + past).value_or("-");
  };
  EXPECT_EQ(after(0, 8), "-");
  EXPECT_EQ(after(4.9, 8), "-");
  EXPECT_EQ(after(5, 8), "  0 % 8 answers to come");
  EXPECT_EQ(after(9.9, 6), "-");
  EXPECT_EQ(after(10, 6), " 25 % 6 answers to come");
  EXPECT_EQ(after(15, 1), " 88 % 1 answer to come");
  EXPECT_EQ(after(20, 16), "  0 % 16 answers to come");
}

}  // namespace
}  // namespace phasescope::app
