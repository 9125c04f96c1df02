// What ran attention: data both ways through JSON, and the words that follow from it.
#include "protocol/messages/ran.h"

#include <gtest/gtest.h>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {
namespace {

const Ran kFused{.implementation = "fused cpu avx3", .dtype = "f32"};
const Ran kPlain{
    .implementation = "plain", .reason = "a given mask has no fused form", .dtype = "f32"};

Ran in_dtype(Ran ran, const char* dtype) {
  ran.dtype = dtype;
  return ran;
}

Ran of_model(Ran ran, const char* model) {
  ran.model = model;
  return ran;
}

TEST(Ran, GoesThroughJson) {
  EXPECT_EQ(to_json_form(kPlain),
            json::parse(R"({"implementation": "plain", "device": "cpu", "dtype": "f32",
                            "reason": "a given mask has no fused form"})"));
  EXPECT_EQ(to_json_form(of_model(kFused, "A"))["model"], "A");
  Provenance made;
  made.set_ran({of_model(kFused, "A"), of_model(kPlain, "B")});
  const json written = to_json_form(made);
  EXPECT_EQ(written["kernel"], "A: fused cpu avx3; B: plain (a given mask has no fused form)");
  EXPECT_EQ(from_json_form<Provenance>(written).ran, made.ran);
  EXPECT_TRUE(from_json_form<Provenance>(json{{"kernel", "plain"}}).ran.empty());  // of before
}

TEST(Ran, IsSaidOnceEach) {
  EXPECT_EQ(words_of(std::vector<Ran>{}), "none");
  EXPECT_EQ(words_of({kFused}), "fused cpu avx3");
  EXPECT_EQ(words_of({kPlain, kFused, kPlain, in_dtype(kFused, "bf16")}),
            "fused cpu avx3, plain (a given mask has no fused form)");
  EXPECT_EQ(AllRan({kPlain, kFused, kPlain}).size(), 2u);
}

TEST(Ran, IsSaidByDtypeInTheirOrder) {
  const auto words = [](const std::vector<Ran>& all) { return words_of(all, DtypesInWords::said); };
  EXPECT_EQ(words({in_dtype(kPlain, "f64"), kFused, kPlain}),
            "plain (a given mask has no fused form) (f64), "
            "fused cpu avx3, plain (a given mask has no fused form) (f32)");
}

TEST(Ran, FellBackWhereItHasAReasonBesideFloat64) {
  EXPECT_FALSE(kFused.fell_back());
  EXPECT_TRUE(kPlain.fell_back());
  EXPECT_FALSE(in_dtype(kPlain, "f64").fell_back());
}

TEST(Ran, TellsTheDeviceOfTheModelWhereAttentionRanElsewhere) {
  const auto device = [](const std::vector<Ran>& all) {
    Provenance made;
    made.set_ran(all);
    return made.device;
  };
  const Ran cuda{.implementation = "cuda-unverified", .device = "cuda", .dtype = "bf16"};
  EXPECT_EQ(device({kFused, kPlain}), "cpu");
  EXPECT_EQ(device({kFused, cuda, cuda}), "cpu, attention on cuda");
}

}  // namespace
}  // namespace phasescope::protocol
