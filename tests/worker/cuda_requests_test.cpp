// Analyses whose attention runs on the CUDA kernels, by their emulation: what a result says of
// that.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "model/attention/attention.h"
#include "model/attention/cuda_attention.h"
#include "tests/worker/model_requests.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

class CudaRequests : public testing::Test {
 protected:
  CudaRequests() {
    at::set_num_threads(1);
    model::use_cuda_kernels(&kernels::cuda_kernels());
  }
  ~CudaRequests() override { model::use_cuda_kernels(nullptr); }

  static json provenance(const std::string& method, json params) {
    params["backend"] = "cuda-unverified";
    if (!params.contains("dtype")) params["dtype"] = "bf16";
    if (!params.contains("input")) params["input"] = {{"prompt", "a text on a device"}};
    const json result = ask(method, rope_with(params)).result;
    return method == "distance" ? result["models"][0]["provenance"] : result["provenance"];
  }
};

TEST_F(CudaRequests, NameTheKernelsThatMeasuredBesideTheOneOfTheForwardPass) {
  const std::string both = "cuda-unverified, " + model::fused_kernel_name();
  const json heads = provenance("heads", {{"metrics", {"entropy"}}});
  EXPECT_EQ(heads["kernel"], "cuda-unverified");
  EXPECT_EQ(heads["device"], "cpu, attention on cuda");
  EXPECT_EQ(heads["ran"], json::parse(R"([{"implementation": "cuda-unverified", "device": "cuda",
                                           "reason": "", "dtype": "bf16"}])"));
  EXPECT_EQ(provenance("heads", {{"metrics", {"entropy"}}, {"thumbnails", 4}})["kernel"], both);
  EXPECT_EQ(provenance("map", json::object())["kernel"], both);
  EXPECT_EQ(provenance("map", {{"of", "content"}, {"pool", "mean"}})["kernel"], both);
  EXPECT_EQ(provenance("map", {{"of", "positional"}, {"pool", "max"}})["kernel"], both);
  EXPECT_EQ(provenance("map", {{"top", 2}})["kernel"], both);
  // One short text is read by rows of plain operations, several by passes over their scores.
  EXPECT_EQ(provenance("distance", json::object())["kernel"], "cuda-unverified");
  const json texts = {{"ids", {{5, 6, 7, 8, 9, 10, 11}, {7, 8, 9, 11, 13, 14, 15}}}};
  EXPECT_EQ(provenance("distance", {{"input", texts}})["kernel"], both);
}

TEST_F(CudaRequests, SayWhyTheCudaKernelsDidNotRun) {
  const json heads = provenance("heads", {{"metrics", {"entropy"}}, {"dtype", "f32"}});
  const std::string why =
      "f32 has no form in the CUDA kernels: with the dtype bf16 or f16 they run";
  EXPECT_EQ(heads["kernel"], model::fused_kernel_name() + ", plain (" + why + ")");
  EXPECT_EQ(heads["device"], "cpu");
  EXPECT_EQ(heads["ran"][1]["reason"], why);
}

}  // namespace
}  // namespace phasescope::worker
