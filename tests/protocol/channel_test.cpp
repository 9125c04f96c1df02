#include "protocol/channel.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "protocol/outbox.h"
#include "tests/protocol/channel_pair.h"
#include "tests/protocol/frame_bytes.h"

namespace phasescope::protocol {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

Frame frame_of(std::size_t floats, std::uint64_t id = 3) {
  std::vector<float> values(floats);
  std::iota(values.begin(), values.end(), 0.f);
  Frame frame{FrameType::result, id, {{"n", floats}}, {}};
  frame.tensors.push_back(
      TensorRef::own<float>("values", {static_cast<std::int64_t>(floats)}, std::move(values)));
  frame.tensors.push_back(TensorRef::own<double>("small", {2}, {1, 2}));
  return frame;
}

// Sent from a thread of its own: nobody may need a peer that reads at the same time.
Frame pass(Channel& from, Channel& to, const Frame& frame) {
  auto sent = std::async(std::launch::async, [&] { from.send(frame); });
  auto received = to.receive(seconds(20));
  sent.get();
  if (!received) throw std::runtime_error("nothing came");
  return std::move(*received);
}

int open_files() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count;
}

enum class Way { memory_files, socket_inline, pipes };

class ChannelTransport : public testing::TestWithParam<Way> {
 protected:
  ChannelPair make() const {
    if (GetParam() == Way::pipes) return {pipe_ends(), true, true};
    return {socket_ends(), true, GetParam() == Way::memory_files};
  }
};

TEST_P(ChannelTransport, Passes64MegabytesBothWays) {
  auto pair = make();
  EXPECT_EQ(pair.near->passes_memory(), GetParam() == Way::memory_files);
  const Frame frame = frame_of(16u << 20);
  const int files = open_files();
  for (int round = 0; round < 2; ++round) {
    const Frame there = pass(*pair.near, *pair.far, frame);
    const Frame back = pass(*pair.far, *pair.near, there);
    ASSERT_EQ(back.tensors.size(), 2u);
    EXPECT_EQ(std::memcmp(back.tensors[0].bytes().data(), frame.tensors[0].bytes().data(),
                          frame.tensors[0].size_bytes()),
              0);
    EXPECT_EQ(back.tensors[1].values<double>()[1], 2);
    EXPECT_EQ(back.id, 3u);
  }
  EXPECT_EQ(open_files(), files) << "a memory file stayed open";
}

TEST_P(ChannelTransport, TensorsOutliveTheChannel) {
  Frame frame;
  {
    auto pair = make();
    frame = pass(*pair.near, *pair.far, frame_of(1u << 20));
  }
  EXPECT_EQ(frame.tensors[0].values<float>()[1000], 1000.f);
}

TEST_P(ChannelTransport, ManySendersAndOneReceiverKeepFramesWhole) {
  auto pair = make();
  constexpr int senders = 4, each = 50;
  std::vector<std::thread> threads;
  for (int sender = 0; sender < senders; ++sender) {
    threads.emplace_back([&, sender] {
      for (int i = 0; i < each; ++i) pair.near->send(frame_of(100 + 997 * i, sender));
    });
  }
  std::vector<int> counts(senders);
  for (int i = 0; i < senders * each; ++i) {
    const auto frame = pair.far->receive(seconds(20));
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->tensors[0].elements(), frame->header["n"].get<std::size_t>());
    ++counts[frame->id];
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counts, std::vector<int>(senders, each));
}

TEST_P(ChannelTransport, EndOfInputIsNoFault) {
  auto pair = make();
  pair.near.reset();
  try {
    pair.far->receive(seconds(5));
    FAIL();
  } catch (const ChannelClosed& closed) {
    EXPECT_TRUE(closed.end_of_input());
  }
  EXPECT_THROW(pair.far->send(frame_of(10)), ChannelClosed);
}

INSTANTIATE_TEST_SUITE_P(Ways, ChannelTransport,
                         testing::Values(Way::memory_files, Way::socket_inline, Way::pipes),
                         [](const auto& info) {
                           return info.param == Way::memory_files    ? "MemoryFiles"
                                  : info.param == Way::socket_inline ? "SocketInline"
                                                                     : "Pipes";
                         });

// ---- One side is a channel, the other is a bare socket --------------------------------------

TimeLimits hasty() {
  TimeLimits times;
  times.preamble = milliseconds(200);
  times.stall = milliseconds(200);
  times.silence = milliseconds(400);
  times.send = milliseconds(300);
  return times;
}

// A channel that has shaken hands with raw descriptors.
struct RawPeer {
  std::unique_ptr<Channel> channel;
  FdPair raw;

  explicit RawPeer(TimeLimits times = hasty()) {
    auto [ours, theirs] = socket_ends();
    raw = std::move(theirs);
    channel = make_channel(std::move(ours), true, times);
    Hello hello;
    hello.transports = {"inline", "memfd"};
    write(frame_bytes({FrameType::hello, 0, hello, {}}));
    channel->handshake({}, seconds(5));
  }
  void write(const std::string& bytes) const {
    EXPECT_EQ(::send(raw.out.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void write_with_file(const std::string& bytes, int file) const {
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    auto* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(item), &file, sizeof file);
    EXPECT_EQ(::sendmsg(raw.out.get(), &message, 0), static_cast<ssize_t>(bytes.size()));
  }
  // The reason the channel closes with, and how long that took.
  std::pair<std::string, milliseconds> reason() const {
    const auto start = Channel::Clock::now();
    try {
      while (Channel::Clock::now() - start < seconds(10)) channel->receive(milliseconds(50));
    } catch (const ChannelClosed& closed) {
      return {closed.what(),
              std::chrono::duration_cast<milliseconds>(Channel::Clock::now() - start)};
    }
    return {"", milliseconds(0)};
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Row28, HalfAFrameThenSilence) {
  const auto bytes = frame_bytes(frame_of(1000));
  for (std::size_t cut : {std::size_t{3}, std::size_t{30}, std::size_t{60}, bytes.size() - 1}) {
    RawPeer peer;
    peer.write(bytes.substr(0, cut));
    const auto [reason, time] = peer.reason();
    EXPECT_TRUE(contains(reason, cut < preamble_bytes ? "not continued" : "too slowly")) << reason;
    EXPECT_LT(time, seconds(2));
  }
}

TEST(Row28, AByteASecond) {
  RawPeer peer;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    const auto bytes = frame_bytes(frame_of(1000));
    // Always a byte within the stall limit, scaled down to its tenth: never fast enough.
    for (std::size_t at = 0; at < bytes.size() && !done; ++at) {
      if (::send(peer.raw.out.get(), &bytes[at], 1, MSG_NOSIGNAL) != 1) break;
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  const auto [reason, time] = peer.reason();
  done = true;
  writer.join();
  EXPECT_TRUE(contains(reason, "not continued")) << reason;
  EXPECT_LT(time, seconds(2));
}

TEST(Row28, AByteASecondAfterAQuickStart) {
  RawPeer peer;
  const auto bytes = frame_bytes(frame_of(100));
  std::atomic<bool> done{false};
  peer.write(bytes.substr(0, preamble_bytes));
  std::thread writer([&] {
    for (std::size_t at = preamble_bytes; at < bytes.size() && !done; ++at) {
      if (::send(peer.raw.out.get(), &bytes[at], 1, MSG_NOSIGNAL) != 1) break;
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  const auto [reason, time] = peer.reason();
  done = true;
  writer.join();
  EXPECT_TRUE(contains(reason, "too slowly")) << reason;
  EXPECT_LT(time, seconds(3));
}

// A process that is held up itself (by a slow disk, say) finds the rest of a frame waiting.
TEST(Row28, WhatWaitsToBeReadIsNotLate) {
  RawPeer peer;
  const auto bytes = frame_bytes(frame_of(1000));
  peer.write(bytes.substr(0, preamble_bytes / 2));
  EXPECT_FALSE(peer.channel->receive(milliseconds(50)).has_value());
  peer.write(bytes.substr(preamble_bytes / 2));
  std::this_thread::sleep_for(2 * hasty().stall);
  EXPECT_TRUE(peer.channel->receive(seconds(5)).has_value());
}

TEST(Row28, ClosesAndTellsTheOtherSideWhy) {
  RawPeer peer;
  peer.write("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(contains(peer.reason().first, "bad magic"));
  EXPECT_THROW(peer.channel->send(frame_of(1)), ChannelClosed);
  char buffer[4096];
  std::string all;
  for (ssize_t n; (n = ::recv(peer.raw.in.get(), buffer, sizeof buffer, 0)) > 0;) {
    all.append(buffer, static_cast<std::size_t>(n));
  }
  FrameDecoder decoder({});
  const auto frames = decode_all(decoder, all, 4096);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1].type, FrameType::closing);
  EXPECT_TRUE(contains(frames[1].header["reason"].get<std::string>(), "bad magic"));
}

TEST(Channel, EndsAfterSilenceButNotWhileThereAreHeartbeats) {
  RawPeer peer;
  for (int i = 0; i < 8; ++i) {
    peer.write(frame_bytes({}));
    EXPECT_FALSE(peer.channel->receive(milliseconds(100)));
  }
  EXPECT_TRUE(contains(peer.reason().first, "nothing was heard"));
}

TEST(Channel, GivesUpOnASideThatTakesNothing) {
  RawPeer peer;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) {
          peer.channel->send({FrameType::result, 1, json(std::string(60'000, 'x')), {}});
        }
      },
      ChannelClosed);
}

TEST(Channel, RefusesMemoryFilesThatCanChange) {
  const Frame frame = frame_of(1u << 20);
  const auto encoded = encode_frame(frame, {}, memory_file_threshold);
  std::string bytes = encoded.head;
  for (auto piece : encoded.payload) bytes += text_of(piece);
  bytes += trailer_of(bytes.substr(preamble_bytes));
  const std::size_t size = frame.tensors[0].size_bytes();

  RawPeer good;
  good.write_with_file(bytes, encoded.memory_file.get());
  ASSERT_TRUE(good.channel->receive(seconds(5)));

  const auto refused = [&](unsigned seals, std::size_t file_size) {
    formats::UniqueFd file(::memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(file_size)), 0);
    if (seals) {
      EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    }
    RawPeer peer;
    peer.write_with_file(bytes, file.get());
    return peer.reason().first;
  };
  EXPECT_TRUE(contains(refused(0, size), "not sealed"));
  EXPECT_TRUE(contains(refused(F_SEAL_SHRINK | F_SEAL_GROW, size), "not sealed"));
  const unsigned all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  EXPECT_TRUE(contains(refused(all, size - 1), "bytes where its tensors have"));
  EXPECT_TRUE(contains(refused(all, 2 * size), "bytes where its tensors have"));

  RawPeer pipe_peer;
  int pipe_fds[2];
  ASSERT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
  formats::UniqueFd read_end(pipe_fds[0]), write_end(pipe_fds[1]);
  pipe_peer.write_with_file(bytes, read_end.get());
  EXPECT_TRUE(contains(pipe_peer.reason().first, "not sealed"));
}

TEST(Channel, RefusesFilesThatWereNotAnnounced) {
  RawPeer announced_only;
  const auto encoded = encode_frame(frame_of(1u << 20), {}, memory_file_threshold);
  announced_only.write(encoded.head);
  EXPECT_TRUE(contains(announced_only.reason().first, "do not agree"));

  RawPeer passed_only;
  passed_only.write_with_file(frame_bytes(frame_of(10)), encoded.memory_file.get());
  EXPECT_TRUE(contains(passed_only.reason().first, "do not agree"));
}

// ---- Handshake ------------------------------------------------------------------------------

TEST(Row29, OtherVersionOnTheFarSideIsNamedWithOurs) {
  auto [ours, theirs] = socket_ends();
  auto channel = make_channel(std::move(ours), true);
  const json hello = {{"protocol", 2}, {"program", "phasescope-worker"}, {"version", "0.9.0"}};
  auto preamble = Preamble{2, FrameType::hello, false, 0, 0, 0};
  const auto bytes = raw_frame(preamble, json({{"body", hello}}).dump());
  ASSERT_GT(::send(theirs.out.get(), bytes.data(), bytes.size(), 0), 0);
  Hello mine;
  mine.program = "phasescope";
  mine.version = "0.1.0";
  try {
    channel->handshake(mine, seconds(5));
    FAIL();
  } catch (const ChannelClosed& closed) {
    EXPECT_TRUE(contains(closed.what(), "phasescope-worker 0.9.0 speaks protocol 2"))
        << closed.what();
    EXPECT_TRUE(contains(closed.what(), "phasescope 0.1.0 speaks protocol 1"));
  }
}

TEST(Row29, ABannerIsSkippedAndKept) {
  auto [ours, theirs] = socket_ends();
  auto channel = make_channel(std::move(ours), true);
  const auto bytes =
      "*** authorised use only ***\n" + frame_bytes({FrameType::hello, 0, Hello{}, {}});
  ASSERT_GT(::send(theirs.out.get(), bytes.data(), bytes.size(), 0), 0);
  channel->handshake({}, seconds(5));
  EXPECT_EQ(channel->banner(), "*** authorised use only ***\n");
}

TEST(Channel, AcceptsOnlyAHelloFirst) {
  const auto reason_for = [](const std::string& bytes) -> std::string {
    auto [ours, theirs] = socket_ends();
    auto channel = make_channel(std::move(ours), true);
    EXPECT_GT(::send(theirs.out.get(), bytes.data(), bytes.size(), 0), 0);
    try {
      channel->handshake({}, milliseconds(300));
    } catch (const ChannelClosed& closed) {
      return closed.what();
    }
    return "";
  };
  EXPECT_TRUE(
      contains(reason_for(frame_bytes({FrameType::cancel, 1, json::object(), {}})), "not a hello"));
  EXPECT_TRUE(contains(reason_for(frame_bytes(frame_of(100))), "payload of"));
  EXPECT_TRUE(contains(reason_for("x"), "no hello came within 0.3 s"));
}

// ---- Outbox ---------------------------------------------------------------------------------

TEST(Outbox, SendsInOrderKeepsTheHeartbeatAndReportsWhatCannotBeSent) {
  TimeLimits times;
  times.silence = milliseconds(500);
  ChannelPair pair(socket_ends(), true, true, times);
  std::atomic<int> refused{0};
  Outbox outbox(*pair.near, milliseconds(20), [&](const Frame&, const std::string&) { ++refused; });
  for (int i = 0; i < 10; ++i) outbox.post(frame_of(10, i));
  outbox.start();
  Frame broken = frame_of(10);
  broken.tensors[0].data = nullptr;
  outbox.post(broken);
  EXPECT_TRUE(outbox.flush(seconds(5)));
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(pair.far->receive(seconds(5))->id, i);
  EXPECT_EQ(refused, 1);
  // Longer than the silence allowed: only heartbeats keep it open.
  EXPECT_FALSE(pair.far->receive(milliseconds(800)));
}

TEST(Outbox, TwoSidesThatSendALotDoNotWaitForEachOther) {
  ChannelPair pair(socket_ends(), false, false);
  Outbox near(*pair.near, milliseconds(10), nullptr), far(*pair.far, milliseconds(10), nullptr);
  for (int i = 0; i < 20; ++i) near.post(frame_of(1u << 20)), far.post(frame_of(1u << 20));
  near.start();
  far.start();
  auto take = [](Channel& channel) {
    for (int i = 0; i < 20; ++i) {
      if (!channel.receive(seconds(20))) return false;
    }
    return true;
  };
  auto other = std::async(std::launch::async, [&] { return take(*pair.near); });
  EXPECT_TRUE(take(*pair.far));
  EXPECT_TRUE(other.get());
}

}  // namespace
}  // namespace phasescope::protocol
