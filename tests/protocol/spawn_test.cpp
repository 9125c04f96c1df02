// Programs that are run to their end, fed and read, or left to live on.
#include "protocol/spawn.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

namespace phasescope::protocol {
namespace {

TEST(Programs, AreRunToTheirEnd) {
  EXPECT_EQ(run_program({"true"}).exit_status, 0);
  EXPECT_EQ(run_program({"sh", "-c", "exit 7"}).exit_status, 7);
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).signal, 9);
  EXPECT_THROW(run_program({"no-such-program-anywhere"}), std::system_error);
}

// Both directions at once, and far more than a socket holds.
TEST(Filters, AreFedAndReadAtTheSameTime) {
  std::string input(std::size_t{5} << 20, 'x');
  for (std::size_t n = 0; n < input.size(); n += 1000) input[n] = static_cast<char>(n / 1000);
  const FilterResult copied = run_filter({"cat"}, input);
  EXPECT_EQ(copied.end.exit_status, 0);
  EXPECT_TRUE(copied.output == input);
  EXPECT_EQ(run_filter({"cat"}, "").output, "");
}

// Its status says what happened; writing to it ends nobody.
TEST(Filters, MayEndBeforeTheyHaveRead) {
  const std::string input(std::size_t{5} << 20, 'x');
  EXPECT_EQ(run_filter({"sh", "-c", "exit 3"}, input).end.exit_status, 3);
  EXPECT_THROW(run_filter({"no-such-program-anywhere"}, input), std::system_error);
}

TEST(Filters, GetVariablesThatWeHaveNot) {
  ::setenv("PHASESCOPE_SPAWN_SET", "ours", 1);
  ::unsetenv("PHASESCOPE_SPAWN_UNSET");
  const FilterResult got =
      run_filter({"sh", "-c", "echo $PHASESCOPE_SPAWN_SET $PHASESCOPE_SPAWN_UNSET"}, "",
                 {"PHASESCOPE_SPAWN_SET=given", "PHASESCOPE_SPAWN_UNSET=given"});
  EXPECT_EQ(got.output, "ours given\n");
}

// What is in a log once a detached shell has appended `last` to it.
std::string log_of_detached(const std::string& script, const std::string& last) {
  const auto log = std::filesystem::temp_directory_path() /
                   ("phasescope-detached-" + std::to_string(::getpid()) + ".log");
  std::ofstream(log) << "before\n";
  start_detached({"sh", "-c", script}, log);
  std::string text;
  for (int tries = 0; tries < 500 && text.find(last) == std::string::npos; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ostringstream read;
    read << std::ifstream(log).rdbuf();
    text = read.str();
  }
  std::filesystem::remove(log);
  return text;
}

TEST(DetachedPrograms, LiveInASessionOfTheirOwn) {
  const std::string text =
      log_of_detached("cat; echo \"$(cut -d' ' -f6 /proc/$$/stat) $$\"; echo error >&2", "error");
  std::istringstream words(text);
  std::string before, error;
  long session = 0, process = 0;
  words >> before >> session >> process >> error;
  EXPECT_EQ(before, "before");  // appended
  EXPECT_NE(session, ::getsid(0)) << text;
  EXPECT_EQ(error, "error") << text;
}

// Field 19 of stat is the niceness, field 41 the policy, 3 of which is SCHED_BATCH (proc(5)).
TEST(DetachedPrograms, YieldTheProcessor) {
  const std::string text = log_of_detached("cut -d' ' -f19,41 /proc/$$/stat; echo end", "end");
  std::istringstream words(text);
  std::string before;
  int niceness = -100, policy = -1;
  words >> before >> niceness >> policy;
  EXPECT_EQ(niceness, std::max(10, ::getpriority(PRIO_PROCESS, 0))) << text;
  EXPECT_EQ(policy, 3) << text;
}

// 5 is SCHED_IDLE.
TEST(DetachedPrograms, YieldAsMuchAsWhoStartedThem) {
  std::string text;
  std::thread idle([&text] {
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_IDLE, &none), 0);  // of this thread alone
    text = log_of_detached("cut -d' ' -f41 /proc/$$/stat; echo end", "end");
  });
  idle.join();
  EXPECT_NE(text.find("\n5\n"), std::string::npos) << text;
}

TEST(DetachedPrograms, ThatCannotBeStartedAreToldOf) {
  const auto log = std::filesystem::temp_directory_path() /
                   ("phasescope-undetached-" + std::to_string(::getpid()) + ".log");
  EXPECT_THROW(start_detached({"/no/such/program"}, log), std::system_error);
  std::filesystem::remove(log);
  EXPECT_THROW(start_detached({"true"}, "/no/such/folder/log"), std::system_error);
}

}  // namespace
}  // namespace phasescope::protocol
