// What a bug report says: read from a made-up system, and without names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "app/cli/doctor_facts.h"
#include "app/verbs/factories.h"
#include "app/verbs/verbs.h"
#include "cli_tools.h"
#include "fake_run.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;

class MadeUpSystem {
 public:
  MadeUpSystem() {
    write("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    write("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
    write("proc/cpuinfo",
          "processor\t: 0\nmodel name\t: Chip A\n\nprocessor\t: 1\nmodel name\t: Chip A\n");
    write("proc/meminfo", "MemTotal:        8388608 kB\nMemAvailable:    1048576 kB\n");
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::string fact(const std::string& what) const {
    for (const Fact& fact : machine_facts(folder_ / "")) {
      if (fact.what == what) return fact.found;
    }
    return "no such fact";
  }

 private:
  TemporaryFolder folder_;
};

TEST(Doctor, SystemProcessorAndMemory) {
  const MadeUpSystem system;
  EXPECT_EQ(system.fact("system"), "Debian GNU/Linux 12 (bookworm), Linux 6.1.0-13-amd64");
  EXPECT_TRUE(system.fact("processor").starts_with("Chip A, 2 processors, "));
  EXPECT_EQ(system.fact("memory"), "8.0 GiB, 1.0 GiB free");
  EXPECT_EQ(system.fact("control group"), "no limit");
}

TEST(Doctor, TheTightestLimitOfAGroupAndThoseAboveIt) {
  const MadeUpSystem system;
  system.write("proc/self/cgroup", "0::/a/b\n");
  system.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  system.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(system.fact("control group"), "no limit");
  system.write("sys/fs/cgroup/a/memory.max", "3221225472\n");
  EXPECT_EQ(system.fact("control group"), "3.0 GiB memory");
  system.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(system.fact("control group"), "1.5 processors, 3.0 GiB memory");
}

TEST(Doctor, GroupsOfTheFirstVersion) {
  const MadeUpSystem system;
  system.write("proc/self/cgroup", "5:cpu,memory:/c\n3:pids:/c\n");
  system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(system.fact("control group"), "no limit");
  system.write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(system.fact("control group"), "1.0 GiB memory");
}

TEST(Doctor, ASystemThatSaysNothingIsNoFault) {
  const TemporaryFolder empty;
  const std::vector<Fact> facts = machine_facts(empty / "nothing");
  ASSERT_FALSE(facts.empty());
  for (const Fact& fact : facts) EXPECT_FALSE(fact.found.empty()) << fact.what;
}

TEST(Doctor, NamesOfUsersAreLeftOut) {
  const auto hidden = [](const std::string& text) {
    return without_names(text, "/home/ada", "ada");
  };
  EXPECT_EQ(hidden("/home/ada/x"), "~/x");
  EXPECT_EQ(hidden("/home/ada"), "~");
  EXPECT_EQ(hidden("/home/adam/x and /home/bob"), "/home/USER/x and /home/USER");
  EXPECT_EQ(hidden("/data/ada/models, canada"), "/data/USER/models, canada");
  EXPECT_EQ(without_names("/root/x, root", "/root", "root"), "~/x, root");
  EXPECT_EQ(without_names("/a/b", "", ""), "/a/b");
}

// Sets a variable as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Doctor, AReportHasWhatTheWorkerSaysAndNoName) {
  const Variable home("HOME", "/home/zweig"), user("USER", "zweig"),
      secret("HF_TOKEN", "hush-hush");
  const Variable state("XDG_STATE_HOME", "/home/zweig/state");
  const Variable x11("DISPLAY", "");
  ::unsetenv("DISPLAY");
  FakeRun run;
  run.replies["worker.info"] = {{{"torch", "2.11"},
                                 {"torch_library", "/home/zweig/torch/lib/libtorch_cpu.so"},
                                 {"devices", {"cpu", "cuda:0"}},
                                 {"process_id", 4711}},
                                {}};
  const auto parsed = output_of(run, {"doctor", "--report"}, all_verbs());
  EXPECT_NE(parsed.text.find("worker's torch library: ~/torch/lib/libtorch_cpu.so"),
            std::string::npos)
      << parsed.text;
  EXPECT_NE(parsed.text.find("worker's devices: cpu, cuda:0"), std::string::npos);
  for (const char* kept : {"zweig", "hush", "4711"}) {
    EXPECT_EQ(parsed.text.find(kept), std::string::npos) << parsed.text;
    EXPECT_EQ(parsed.result.dump().find(kept), std::string::npos);
  }
  EXPECT_EQ(parsed.status, 0);
}

TEST(Doctor, AWorkerThatCannotBeStartedIsToldAndTheRestStands) {
  FakeRun run;  // has no reply
  const Output output = output_of(run, {"doctor"}, all_verbs());
  EXPECT_EQ(output.status, 1);
  const nlohmann::json& first = output.result["facts"].at(0);
  EXPECT_EQ(first, (nlohmann::json{{"what", "version"}, {"found", first["found"]}, {"hint", ""}}));
  const std::string text = text_of(output.tables.at(0));
  EXPECT_NE(text.find("no reply for worker.info"), std::string::npos) << text;
  EXPECT_NE(text.find("control group"), std::string::npos) << text;
}

TEST(Version, SaysWhatItWasBuiltBy) {
  const std::string text = version_text();
  EXPECT_EQ(text.find("phasescope "), 0u);
  EXPECT_NE(text.find("\nbuilt by: "), std::string::npos) << text;
  EXPECT_NE(text.find("glibc "), std::string::npos) << text;
}

}  // namespace
}  // namespace phasescope::app
