#include "worker/devices.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>

#include "formats/error.h"
#include "kernels/cuda/cuda_error.h"
#include "model/devices.h"

namespace phasescope::worker {
namespace {

template <class Function>
Failure failure_of(Function function) {
  try {
    function();
  } catch (...) {
    return describe_failure(std::current_exception(), {translate_torch});
  }
  return {};
}

TEST(Row21, TorchOutOfMemorySaysWhatWasWantedAndFree) {
  const auto failure = failure_of([] { at::empty({std::int64_t{1} << 50}, at::kFloat); });
  EXPECT_EQ(failure.error.code, "out_of_memory");
  EXPECT_NE(failure.error.message.find("4503599627370496 bytes were wanted"), std::string::npos)
      << failure.error.message;
  EXPECT_FALSE(failure.error.hint.empty());
  EXPECT_FALSE(failure.fatal);
}

TEST(Row21, ADeviceOutOfMemoryIsNotFatal) {
  const auto failure = failure_of([] {
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__},
                                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...");
  });
  EXPECT_EQ(failure.error.code, "out_of_memory");
  EXPECT_FALSE(failure.fatal);
}

TEST(Row21, NoRoomForTheRestIsSaidWithWhatIsFree) {
  const auto failure = failure_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(failure.error.code, "out_of_memory");
  EXPECT_NE(failure.error.message.find(" bytes are free now"), std::string::npos);
  EXPECT_FALSE(failure.error.hint.empty());
  EXPECT_FALSE(failure.fatal);
}

// LibTorch's CUDA half may be missing beside a driver, or need a newer one.
TEST(Row23, WhatKeepsADriverFromBeingUsedIsInTheNotice) {
  EXPECT_NE(notice_without_gpu("").find("an old driver"), std::string::npos);
  const std::string notice = notice_without_gpu("libtorch_cuda.so: cannot open");
  EXPECT_NE(notice.find("libtorch_cuda.so: cannot open"), std::string::npos);
  EXPECT_NE(notice.find("the CPU is used"), std::string::npos);
}

TEST(Row22, CudaFaultsAreFatalAndOthersAreNot) {
  const auto with_code = [](int code) {
    return failure_of([code] {
      throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, code, "CUDA error: it broke");
    });
  };
  for (int code : {700, 710, 719}) EXPECT_TRUE(with_code(code).fatal) << code;
  const auto from_kernels = [](int code) {
    return failure_of([code] { throw kernels::CudaError(code, "a launch failed: it broke"); });
  };
  for (int code : {700, 710, 719}) EXPECT_TRUE(from_kernels(code).fatal) << code;
  for (int code : {1, 2, 209, 699, 720}) {
    EXPECT_FALSE(with_code(code).fatal) << code;
    EXPECT_FALSE(from_kernels(code).fatal) << code;
  }
  EXPECT_NE(with_code(700).error.message.find("it broke"), std::string::npos);
  EXPECT_NE(from_kernels(700).error.message.find("it broke"), std::string::npos);
}

TEST(Devices, OtherTorchErrorsComeWithoutTheirStackTraces) {
  const auto failure = failure_of([] { at::ones({2, 3}).matmul(at::ones({2, 3})); });
  EXPECT_EQ(failure.error.code, "internal");
  EXPECT_EQ(failure.error.message.find('\n'), std::string::npos);
  EXPECT_EQ(failure.error.message.find("Exception raised from"), std::string::npos);
}

TEST(Devices, NamesAreChecked) {
  EXPECT_TRUE(model::device_named("cpu").is_cpu());
  EXPECT_TRUE(model::device_named("").is_cpu());
  const auto code = [](const std::string& name) {
    return failure_of([&] { model::device_named(name); }).error.code;
  };
  EXPECT_EQ(code("gpu"), "bad_usage");
  EXPECT_EQ(code("cuda:x"), "bad_usage");
  EXPECT_EQ(code("cuda:99"), "device_unavailable");
}

}  // namespace
}  // namespace phasescope::worker
