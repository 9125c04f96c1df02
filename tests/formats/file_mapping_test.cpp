// Files as memory, and what is left of it when they change.
#include "formats/file_mapping.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "formats/system_memory.h"
#include "formats/tensors/safetensors.h"
#include "support.h"

namespace phasescope::formats {
namespace {

const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(1 + i % 251);
  return bytes;
}

class Mapped : public testing::Test {
 protected:
  std::shared_ptr<const FileMapping> mapped(const std::string& content) {
    path_ = folder_.file("a.bin", content);
    return FileMapping::of(ReadOnlyFile(path_));
  }

  TemporaryFolder folder_;
  std::filesystem::path path_;
};

TEST_F(Mapped, HasTheFilesBytes) {
  const std::string content = pattern(3 * kPage + 17);
  const auto mapping = mapped(content);
  ASSERT_NE(mapping, nullptr);
  ASSERT_EQ(mapping->bytes().size(), content.size());
  EXPECT_EQ(std::memcmp(mapping->bytes().data(), content.data(), content.size()), 0);
  EXPECT_NO_THROW(mapping->check_unchanged());
  EXPECT_EQ(mapped(""), nullptr);
}

// Without the handler each of these reads ends the program.
TEST_F(Mapped, Row8_WhatWasCutOffReadsAsZerosAndIsAnError) {
  const auto mapping = mapped(pattern(8 * kPage));
  ASSERT_NE(mapping, nullptr);
  const auto byte_at = [&](std::size_t at) {
    return std::to_integer<int>(const_cast<const volatile std::byte*>(mapping->bytes().data())[at]);
  };
  EXPECT_NE(byte_at(5 * kPage), 0);
  std::filesystem::resize_file(path_, 2 * kPage);
  EXPECT_EQ(byte_at(5 * kPage), 0);
  EXPECT_EQ(byte_at(8 * kPage - 1), 0);
  int in_thread = -1;
  std::thread([&] { in_thread = byte_at(3 * kPage); }).join();
  EXPECT_EQ(in_thread, 0);
  EXPECT_NE(byte_at(kPage), 0);  // what is left is still there
  const Error error = error_of([&] { mapping->check_unchanged(); });
  EXPECT_EQ(error.code(), "bad_input");
  EXPECT_TRUE(tells(error, "cut short or rewritten"));
  EXPECT_TRUE(tells(error, "a.bin"));
  // A file that has grown back is not the one that was read.
  std::filesystem::resize_file(path_, 8 * kPage);
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_THROW(mapping->check_unchanged(), Error);
}

TEST_F(Mapped, Row8_ARewrittenFileIsAnError) {
  const auto mapping = mapped(pattern(kPage));
  ASSERT_NE(mapping, nullptr);
  std::filesystem::last_write_time(
      path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(2));
  EXPECT_TRUE(tells(error_of([&] { mapping->check_unchanged(); }), "rewritten"));
}

TEST_F(Mapped, PlacesAreUsedAgain) {
  const std::string content = pattern(kPage);
  {
    const auto cut = mapped(content);
    ASSERT_NE(cut, nullptr);
    std::filesystem::resize_file(path_, 0);
    EXPECT_EQ(std::to_integer<int>(const_cast<const volatile std::byte*>(cut->bytes().data())[0]),
              0);
  }
  const ReadOnlyFile file(folder_.file("b.bin", content));
  for (int n = 0; n < 10'000; ++n) {  // more than can be mapped at once
    ASSERT_NE(FileMapping::of(file), nullptr) << n;
  }
  // What happened to a mapping says nothing of the next one.
  EXPECT_NO_THROW(mapped(content)->check_unchanged());
}

using MappedDeathTest = Mapped;

TEST_F(MappedDeathTest, ABusErrorOfSomethingElseIsNotHidden) {
  // By the signal, or by whatever handler (a sanitizer's) was there before ours.
  const auto ended = [](int status) { return !(WIFEXITED(status) && WEXITSTATUS(status) == 0); };
  EXPECT_EXIT(
      {
        const auto mapping = mapped(pattern(kPage));
        ::raise(SIGBUS);  // its address is in no mapping
        ::raise(SIGBUS);  // behind a handler that put the default back, it comes again
        ::_exit(0);
      },
      ended, "");
}

TEST_F(Mapped, TensorsAreViewsOfTheFile) {
  const std::string floats = pattern(64), bytes = pattern(3);
  const std::vector<TensorToWrite> tensors = {
      {"floats", DType::f32, {4, 4}, std::as_bytes(std::span(floats))},
      {"bytes", DType::u8, {3}, std::as_bytes(std::span(bytes))},
      {"none", DType::f32, {0}, {}}};
  write_safetensors(real_file_system(), folder_ / "x.safetensors", tensors);
  const TensorArchive archive = TensorArchive::open(folder_ / "x.safetensors");
  const auto view = archive.mapped(*archive.find("floats"));
  ASSERT_TRUE(view);
  ASSERT_EQ(view->bytes.size(), floats.size());
  EXPECT_EQ(std::memcmp(view->bytes.data(), floats.data(), floats.size()), 0);
  EXPECT_EQ(view->mapping, archive.mapped(*archive.find("bytes"))->mapping);
  EXPECT_FALSE(archive.mapped(*archive.find("none")));
}

// The addresses are given back while the file stays open, and had again when they are asked for.
TEST_F(Mapped, AFileIsMappedAsLongAsSomebodyLooksAtIt) {
  const std::string floats = pattern(64);
  const std::vector<TensorToWrite> tensors = {
      {"floats", DType::f32, {4, 4}, std::as_bytes(std::span(floats))}};
  write_safetensors(real_file_system(), folder_ / "x.safetensors", tensors);
  const TensorArchive archive = TensorArchive::open(folder_ / "x.safetensors");
  auto view = archive.mapped(archive.tensors()[0]);
  ASSERT_TRUE(view);
  const std::weak_ptr<const FileMapping> first = view->mapping;
  view.reset();
  EXPECT_TRUE(first.expired());
  const auto again = archive.mapped(archive.tensors()[0]);
  ASSERT_TRUE(again);
  EXPECT_EQ(std::memcmp(again->bytes.data(), floats.data(), floats.size()), 0);
}

// Headers of any length are allowed, so that a tensor may begin anywhere.
TEST_F(Mapped, ATensorBetweenItsElementsPlacesIsNoView) {
  std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  while ((8 + header.size()) % 4 != 1) header += ' ';
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  const auto path = folder_.file("x.safetensors", file + header + pattern(8));
  const TensorArchive archive = TensorArchive::open(path);
  EXPECT_FALSE(archive.mapped(archive.tensors()[0]));
  std::vector<std::byte> bytes(8);
  EXPECT_NO_THROW(archive.read(archive.tensors()[0], bytes));
}

// ---- free memory ----

class SystemMemory : public testing::Test {
 protected:
  SystemMemory() {
    folder_.file("proc/meminfo", "MemTotal: 2000 kB\nMemFree: 5 kB\nMemAvailable:    1000 kB\n");
  }
  std::int64_t available() const { return available_bytes(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(SystemMemory, IsTheMachinesWhereNothingIsLimited) {
  EXPECT_EQ(available(), 1000 * 1024);
  folder_.file("proc/self/cgroup", "0::/user.slice/a\n");
  folder_.file("sys/fs/cgroup/user.slice/a/memory.max", "max\n");
  folder_.file("sys/fs/cgroup/user.slice/a/memory.current", "999999\n");
  EXPECT_EQ(available(), 1000 * 1024);
}

TEST_F(SystemMemory, IsTheLeastThatAGroupLeaves) {
  folder_.file("proc/self/cgroup", "0::/user.slice/a\n");
  folder_.file("sys/fs/cgroup/user.slice/a/memory.max", "800000\n");
  folder_.file("sys/fs/cgroup/user.slice/a/memory.current", "500000\n");
  folder_.file("sys/fs/cgroup/user.slice/a/memory.stat",
               "anon 7\nfile 300000\ninactive_file 100000\nactive_file 50000\n");
  EXPECT_EQ(available(), 800000 - 500000 + 150000);
  // The group around it has less.
  folder_.file("sys/fs/cgroup/user.slice/memory.max", "300000\n");
  folder_.file("sys/fs/cgroup/user.slice/memory.current", "250000\n");
  EXPECT_EQ(available(), 50000);
  folder_.file("sys/fs/cgroup/user.slice/memory.current", "310000\n");
  EXPECT_EQ(available(), 0);
}

// Within a container the name is often the machine's, and the top folder the container's own.
TEST_F(SystemMemory, ReadsTheFirstVersionOfGroups) {
  folder_.file("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/3f\n");
  folder_.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "600000\n");
  folder_.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n");
  folder_.file("sys/fs/cgroup/memory/memory.stat",
               "inactive_file 9\ntotal_inactive_file 1000\ntotal_active_file 500\n");
  EXPECT_EQ(available(), 600000 - 400000 + 1500);
}

TEST_F(SystemMemory, IsWhatALimitOnAddressesLeaves) {
  const std::string head = "Limit                     Soft Limit           Hard Limit  Units\n";
  folder_.file("proc/self/limits",
               head + "Max address space         unlimited  unlimited  bytes\n");
  folder_.file("proc/self/statm", "10 7 3 1 0 5 0\n");
  EXPECT_EQ(available(), 1000 * 1024);
  const std::int64_t taken = 10 * ::sysconf(_SC_PAGESIZE);
  const auto limit = [&](std::int64_t bytes) {
    folder_.file("proc/self/limits", head + "Max address space         " + std::to_string(bytes) +
                                         "  unlimited  bytes\n");
  };
  limit(taken + 5000);
  EXPECT_EQ(available(), 5000);
  limit(100);
  EXPECT_EQ(available(), 0);
}

TEST_F(SystemMemory, IsNothingWhereNothingIsKnown) {
  const TemporaryFolder empty;
  EXPECT_EQ(available_bytes(empty.path()), 0);
}

}  // namespace
}  // namespace phasescope::formats
