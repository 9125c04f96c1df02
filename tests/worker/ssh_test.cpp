// A worker behind a real ssh and a real sshd. sshd runs as ssh's ProxyCommand, so no port is opened
// and no server is set up. Skipped where there is no sshd (PHASESCOPE_SSHD names another one).

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "protocol/client.h"

namespace phasescope::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::RequestError;
using protocol::WorkerClient;
using std::chrono::milliseconds;
using std::chrono::seconds;

void write_file(const fs::path& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
}

std::string sshd_program() {
  const char* chosen = ::getenv("PHASESCOPE_SSHD");
  return chosen ? chosen : "/usr/sbin/sshd";
}

// A folder with keys, configurations and an `ssh` that uses them, which stands first in PATH.
class Row29Ssh : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(sshd_program())) GTEST_SKIP() << "no sshd on this machine";
    char name[] = "/tmp/phasescope_ssh_XXXXXX";
    folder_ = ::mkdtemp(name);
    old_path_ = ::getenv("PATH");
    for (const char* key : {"host_key", "user_key", "other_key"}) {
      if (run("ssh-keygen -q -t ed25519 -N '' -f " + file(key)) != 0) {
        GTEST_SKIP() << "no ssh-keygen";
      }
    }
    if (::geteuid() == 0) fs::create_directories("/run/sshd");  // sshd refuses to start without
    write_file(file("ssh"), "#!/bin/sh\nexec /usr/bin/ssh -F " + file("ssh_config") + " \"$@\"\n",
               0700);
    ::setenv("PATH", (folder_ + ":" + old_path_).c_str(), 1);
    configure(PHASESCOPE_SERVING_WORKER, "user_key", "no");
    if (run("ssh -T -o BatchMode=yes far true </dev/null >/dev/null 2>&1") == 255) {
      GTEST_SKIP() << "sshd does not start here";
    }
  }
  void TearDown() override {
    if (!old_path_.empty()) ::setenv("PATH", old_path_.c_str(), 1);
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  static int run(const std::string& command) {
    const int status = ::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // `forced`: what the far side runs whatever is asked for.
  void configure(const std::string& forced, const std::string& key, const std::string& strict) {
    write_file(file("sshd_config"),
               "HostKey " + file("host_key") + "\nAuthorizedKeysFile " + file("user_key.pub") +
                   "\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
                   "PasswordAuthentication no\nKbdInteractiveAuthentication no\nForceCommand " +
                   forced + "\n");
    write_file(file("ssh_config"), "Host far\n  ProxyCommand " + sshd_program() + " -i -f " +
                                       file("sshd_config") + "\n  IdentityFile " + file(key) +
                                       "\n  IdentitiesOnly yes\n  IdentityAgent none\n"
                                       "  UserKnownHostsFile " +
                                       file("known_hosts") + "\n  StrictHostKeyChecking " + strict +
                                       "\n");
  }
  static protocol::ClientOptions options() {
    protocol::ClientOptions result;
    result.command = protocol::remote_worker("far");
    return result;
  }
  static protocol::DeathNotice death_of(WorkerClient& client) {
    client.start();
    for (int i = 0; i < 400 && client.state() != protocol::WorkerState::dead; ++i) {
      client.wait(milliseconds(50)), client.drain();
    }
    return client.death().value_or(protocol::DeathNotice{});
  }

 private:
  std::string folder_;
  std::string old_path_;
};

TEST_F(Row29Ssh, ServesOverIt) {
  WorkerClient client(options());
  protocol::CallOptions call;
  call.tensors = {
      protocol::TensorRef::own<float>("x", {1 << 21}, std::vector<float>(1 << 21, 0.5f))};
  const auto reply = client.call("worker.echo", {{"a", 1}}, call);
  EXPECT_EQ(reply.result["a"], 1);
  EXPECT_EQ(reply.tensor("x").values<float>().back(), 0.5f);
}

TEST_F(Row29Ssh, ALoginTextIsSkipped) {
  configure("echo 'Welcome to far'; exec " PHASESCOPE_SERVING_WORKER, "user_key", "no");
  WorkerClient client(options());
  EXPECT_EQ(client.call("worker.echo", {{"a", 1}}).result["a"], 1);
}

TEST_F(Row29Ssh, AnUnknownHostKeyIsTold) {
  fs::remove(file("known_hosts"));
  configure(PHASESCOPE_SERVING_WORKER, "user_key", "yes");
  WorkerClient client(options());
  const auto death = death_of(client);
  EXPECT_EQ(death.exit_status, 255);
  EXPECT_NE(protocol::describe(death.error).find("Host key verification failed"), std::string::npos)
      << protocol::describe(death.error);
}

TEST_F(Row29Ssh, APasswordIsNotAskedForAndTheRefusalIsTold) {
  configure(PHASESCOPE_SERVING_WORKER, "other_key", "no");
  WorkerClient client(options());
  const auto death = death_of(client);
  EXPECT_EQ(death.exit_status, 255);
  EXPECT_NE(protocol::describe(death.error).find("Permission denied"), std::string::npos)
      << protocol::describe(death.error);
}

TEST_F(Row29Ssh, ACutLinkEndsBothSides) {
  WorkerClient client(options());
  const int far = client.call("worker.info", json::object()).result["process_id"];
  EXPECT_EQ(::kill(far, 0), 0);
  ::kill(client.process_id(), SIGKILL);
  EXPECT_EQ(death_of(client).how, "was killed by SIGKILL");
  for (int i = 0; i < 200 && ::kill(far, 0) == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_NE(::kill(far, 0), 0) << "the far worker still runs";
  client.restart();
  EXPECT_EQ(client.call("worker.echo", {{"a", 2}}).result["a"], 2);
}

TEST_F(Row29Ssh, AFarSideWithoutTheProgramIsTold) {
  configure("phasescope-that-is-not-there worker", "user_key", "no");
  WorkerClient client(options());
  const auto death = death_of(client);
  EXPECT_EQ(death.exit_status, 127);
  EXPECT_NE(death.error.hint.find("not found"), std::string::npos) << death.error.hint;
}

}  // namespace
}  // namespace phasescope::worker
