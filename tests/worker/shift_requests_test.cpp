// Requests about shifts of a text.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/file_system.h"
#include "model/attention/attention.h"
#include "model/checkpoints/import_tensors.h"
#include "model/checkpoints/tensor_io.h"
#include "protocol/messages/provenance.h"
#include "tests/temporary_folder.h"
#include "tests/worker/model_requests.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

// Beside shifted ids, far shifts of added tokens are not read, which is said.
TEST(Shifting, SaysWhichAddedTokensAreLeftOut) {
  json given = rope_with({{"by", {1, 20000}}, {"length", 16}, {"dtypes", {"f64"}}});
  const auto reply = ask("shift", given);
  EXPECT_EQ(reply.result["rows"].size(), 3u * 2);  // ids by both, tokens by 1; layers
  EXPECT_TRUE(notes(reply, "added tokens are left out of shifts above 16384"))
      << reply.result["provenance"][0]["note"];
  given["by"] = {1};
  EXPECT_FALSE(notes(ask("shift", given), "left out"));
}

// What was measured elsewhere is not measured anew under a shift.
TEST(Shifting, RefusesImports) {
  const TemporaryFolder folder;
  const std::filesystem::path maps = folder.path() / "attn.safetensors", out = folder.path() / "m";
  const at::Tensor seen = at::ones({1, 2, 8, 8}).tril();
  formats::FileSystem& files = formats::real_file_system();
  model::write_tensors(files, maps, {{"attn", seen / seen.sum(-1, true)}});
  model::import_tensors(files, {maps}, out, {});
  const json given = {{"model", out.string()}, {"by", {1}}};
  EXPECT_EQ(code_of("shift", given), "not_applicable");
  EXPECT_NE(message_of("shift", given).find("an import, whose maps no shift moves"),
            std::string::npos);
}

TEST(Shifting, LeavesRoomInATableOfPositions) {
  const json learned = {{"model", model_folder("learned")}, {"method", "ids"}};
  const auto reply = ask("shift", learned);
  EXPECT_EQ(reply.result["rows"].size(), 3u * 2 * 2);  // shifts, dtypes, layers
  for (const json& row : reply.result["rows"]) {
    EXPECT_GT(row["attention_difference"].get<double>(), 1e-3);  // not invariant
  }
  EXPECT_TRUE(notes(reply, "first 48 of 64 tokens")) << reply.result["provenance"][0]["note"];
  EXPECT_TRUE(notes(reply, "64 positions"));
  json given = learned;
  given["length"] = 60;
  EXPECT_EQ(code_of("shift", given), "bad_input");
  given["length"] = 48;
  EXPECT_FALSE(notes(ask("shift", given), "first 48 of 64"));
}

TEST(Shifting, SaysWhichShiftsThereAre) {
  // Its table has 64 positions, and a text has at least two tokens.
  const json learned = {{"model", model_folder("learned")}, {"by", {500}}, {"method", "ids"}};
  EXPECT_NE(message_of("shift", learned).find("give shifts of 62 at most"), std::string::npos)
      << message_of("shift", learned);
  json fits = learned;
  fits["by"] = {62};
  EXPECT_EQ(ask("shift", fits).result["rows"].size(), 2u * 2);
  fits["by"] = {63};
  EXPECT_EQ(code_of("shift", fits), "bad_input");
  for (const char* method : {"ids", "tokens", "ids,tokens"}) {
    const json far = rope_with({{"by", {99999999999999}}, {"method", method}});
    EXPECT_EQ(code_of("shift", far), "bad_usage") << method;
    EXPECT_NE(message_of("shift", far).find("a shift must be from 0 to "), std::string::npos);
  }
}

TEST(Shifting, RunsTheBackendThatIsAskedFor) {
  json params = rope_with({{"by", {3}}, {"method", "ids"}, {"input", {{"prompt", "a text"}}}});
  const auto kernel = [&] { return ask("shift", params).result["provenance"][0]["kernel"]; };
  EXPECT_EQ(kernel().get<std::string>().rfind("fused", 0), 0u) << kernel();
  params["backend"] = "plain";
  EXPECT_EQ(kernel(), "plain (f32), plain (f64)");
}

TEST(Shifting, SaysWhatRanInEachDtypeAndWhyAsData) {
  const json made = ask("shift", rope_with({{"by", {1, 3}}, {"input", {{"prompt", "a text"}}}}))
                        .result["provenance"][0];
  const auto ran = protocol::from_json_form<protocol::Provenance>(made).ran;
  ASSERT_EQ(ran.size(), 2u) << made;  // each once, whatever was shifted
  EXPECT_EQ(ran[0], (protocol::Ran{.implementation = model::fused_kernel_name(), .dtype = "f32"}));
  EXPECT_EQ(ran[1],
            (protocol::Ran{
                .implementation = "plain", .reason = "Double has no fused form", .dtype = "f64"}));
}

}  // namespace
}  // namespace phasescope::worker
