// A device whose memory runs out: what leaves it, the second try, and what is said when that fails
// too.
#include "worker/room.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/error.h"
#include "kernels/cuda/cuda_error.h"
#include "model/checkpoints/open_model.h"
#include "tests/worker/fake_context.h"
#include "worker/devices.h"
#include "worker/model_cache.h"
#include "worker/pass_cache.h"

namespace phasescope::worker {
namespace {

[[noreturn]] void run_out(const std::string& sentence = "CUDA out of memory. Tried to ...") {
  throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, sentence);
}

// A handler that runs out of memory in its first `failures` runs.
Handler failing(int failures, int& runs, const std::string& name = "heads") {
  return {name, "", [failures, &runs](const nlohmann::json&, RequestContext&) -> protocol::Reply {
            if (++runs <= failures) run_out();
            return {nlohmann::json{{"runs", runs}}, {}};
          }};
}

// Memory that the CUDA kernels' own allocations lack, of a device of 80 GiB with 1.25 GiB left.
[[noreturn]] void run_out_in_kernels() {
  constexpr std::size_t kGibi = std::size_t{1} << 30;
  throw kernels::CudaOutOfMemory(2, 2 * kGibi, kGibi + kGibi / 4, 80 * kGibi);
}

analysis::Text text_of(std::int64_t tokens) {
  analysis::Text text;
  for (std::int64_t n = 0; n < tokens; ++n) text.ids.push_back(n % 7);
  return text;
}

TEST(Row21, ADeviceThatIsFullIsTriedOnceMore) {
  FakeContext context;
  int runs = 0;
  EXPECT_EQ(with_second_try(failing(1, runs)).run({}, context).result["runs"], 2);
  runs = 0;
  EXPECT_THROW(with_second_try(failing(9, runs)).run({}, context), c10::OutOfMemoryError);
  EXPECT_EQ(runs, 2);
}

TEST(Row21, TheKernelsOwnMemoryIsTriedOnceMoreToo) {
  FakeContext context;
  int runs = 0;
  const Handler handler{"heads", "",
                        [&runs](const nlohmann::json&, RequestContext&) -> protocol::Reply {
                          if (++runs == 1) run_out_in_kernels();
                          return {nlohmann::json{{"runs", runs}}, {}};
                        }};
  EXPECT_EQ(with_second_try(handler).run({}, context).result["runs"], 2);
}

// Of the device's memory, not of the host's.
TEST(Row21, TheKernelsOwnMemorySaysWhatTheDeviceHasFree) {
  try {
    run_out_in_kernels();
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception(), {translate_torch});
    EXPECT_EQ(failure.error.code, "out_of_memory");
    EXPECT_FALSE(failure.fatal);
    EXPECT_EQ(failure.error.message,
              "CUDA out of memory. Tried to allocate 2.00 GiB. The device has a total capacity of "
              "80.00 GiB of which 1.25 GiB is free.");
    EXPECT_TRUE(failure.error.hint.starts_with("about 62 % of what was wanted at once is free"))
        << failure.error.hint;
  }
}

TEST(Row21, NothingElseIsTriedTwice) {
  FakeContext context;
  int runs = 0;
  EXPECT_THROW(with_second_try(failing(1, runs, "jobs.start")).run({}, context),
               c10::OutOfMemoryError);
  EXPECT_EQ(runs, 1);
  const Handler broken{"heads", "",
                       [&runs](const nlohmann::json&, RequestContext&) -> protocol::Reply {
                         ++runs;
                         throw formats::bad_input("not this");
                       }};
  EXPECT_THROW(with_second_try(broken).run({}, context), formats::Error);
  EXPECT_EQ(runs, 2);
}

TEST(Row21, TheSecondTryHasTheRoomOfAllThatIsKept) {
  FakeContext context;
  protocol::NoProgress progress;
  const auto model = model::random_model(byte_config("rope"), 1);
  pass_cache().clear();  // of what other tests have left
  pass_cache().get(model, text_of(9), model::Backend::fused, progress)->run();
  std::vector<std::size_t> kept;
  std::int64_t bytes = -1;
  const Handler handler{
      "heads", "", [&](const nlohmann::json&, RequestContext&) -> protocol::Reply {
        kept.push_back(pass_cache().size());
        if (kept.size() == 1) run_out();
        const auto pass = pass_cache().get(model, text_of(9), model::Backend::fused, progress);
        pass->run();
        bytes = pass->kept_bytes();
        return {};
      }};
  with_second_try(handler).run({}, context);
  EXPECT_EQ(kept, (std::vector<std::size_t>{1, 0}));
  // Nothing of a layer stays; afterwards passes are kept as before.
  const auto before = bytes;
  pass_cache().clear();
  const auto pass = pass_cache().get(model, text_of(9), model::Backend::fused, progress);
  pass->run();
  EXPECT_LT(before, pass->kept_bytes());
  pass_cache().clear();
}

TEST(Row21, WhatWouldFitIsSaid) {
  const std::string sentence =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of "
      "which 1.25 GiB is free. Including non-PyTorch memory, this process has 138.00 GiB in use.";
  const auto shortage = shortage_of(sentence);
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->wanted, 0x1p31);
  EXPECT_EQ(shortage->free, 1.25 * 0x1p30);
  EXPECT_NE(what_would_fit(shortage).find("about 62 % of what was wanted"), std::string::npos);
  EXPECT_NE(what_would_fit(DeviceShortage{100, 0}).find("close what else is open"),
            std::string::npos);
  EXPECT_FALSE(shortage_of("you tried to allocate 17 bytes"));
  EXPECT_EQ(what_would_fit({}), "ask for fewer rows, columns or layers, or a shorter text");
  try {
    run_out(sentence);
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception(), {translate_torch});
    EXPECT_EQ(failure.error.code, "out_of_memory");
    EXPECT_EQ(failure.error.hint, what_would_fit(shortage));
  }
}

std::string refusal(std::int64_t bytes, std::int64_t element, std::int64_t free) {
  try {
    refuse_for_room("llama", bytes, element, "cuda:1", free);
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "out_of_memory");
    return error.full_text();
  }
}

TEST(Row21, AModelWithoutRoomIsRefusedWithWhatHasRoom) {
  const std::int64_t mb = 1 << 20;
  const std::string narrow = refusal(100 * mb, 4, 60 * mb);
  EXPECT_NE(narrow.find("llama has 100 MB of weights, and cuda:1 has 60 MB free"),
            std::string::npos);
  EXPECT_NE(narrow.find("bf16 it would fit"), std::string::npos);
  EXPECT_EQ(refusal(100 * mb, 4, 40 * mb).find("bf16"), std::string::npos);
  EXPECT_EQ(refusal(100 * mb, 2, 60 * mb).find("bf16"), std::string::npos);
}

TEST(PassCache, ForgetsThePassesOfAModelThatLeaves) {
  PassCache cache;
  protocol::NoProgress progress;
  const auto one = model::random_model(byte_config("rope"), 1);
  const auto other = model::random_model(byte_config("alibi"), 1);
  cache.get(one, text_of(5), model::Backend::fused, progress);
  cache.get(other, text_of(5), model::Backend::fused, progress);
  cache.get(one, text_of(6), model::Backend::fused, progress);
  const long before = one.use_count();
  cache.forget(one.get());
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(one.use_count(), before - 2);
}

}  // namespace
}  // namespace phasescope::worker
