// What a result says of how it was made: its command is what a shell reads back.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "model/checkpoints/tensor_io.h"
#include "protocol/messages/heads.h"
#include "tests/temporary_folder.h"
#include "tests/worker/model_requests.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

TEST(Requests, ProvenanceSaysWhatMakesTheResultAgain) {
  const auto reply = ask("heads", rope_with({{"input", {{"prompt", "hello there"}}}, {"seed", 4}}));
  const auto result = protocol::from_json_form<protocol::HeadsResult>(reply.result);
  EXPECT_EQ(result.provenance.version, "9.9.9");
  EXPECT_EQ(result.provenance.text_hash.size(), 64u);
  EXPECT_EQ(result.provenance.model_hashes.at(0).size(), 64u);
  EXPECT_EQ(result.provenance.seed, 4);
  EXPECT_FALSE(result.provenance.kernel.empty());
  EXPECT_NE(result.provenance.command.find("phasescope heads"), std::string::npos);
  EXPECT_NE(result.provenance.command.find("--prompt 'hello there'"), std::string::npos);
}

// The words of a command line, as a shell takes it apart.
std::vector<std::string> words_of(const std::string& command) {
  const std::string print = "for word in " + command + "; do printf '%s\\0' \"$word\"; done";
  FILE* pipe = ::popen(print.c_str(), "r");
  std::vector<std::string> words(1);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c == 0) {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(c);
    }
  }
  words.pop_back();
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return words;
}

TEST(Requests, CommandsAreWhatAShellReadsBack) {
  const std::string odd = "it's \"$HOME\" `ls` \\ *;&\n#";
  const auto reply =
      ask("map",
          rope_with(
              {{"input", {{"prompt", odd}}}, {"head", "L0H0"}, {"pool", "max"}, {"rows", {0, 4}}}));
  EXPECT_EQ(words_of(reply.result["provenance"]["command"]),
            (std::vector<std::string>{"phasescope", "map", model_folder("rope"), "--prompt", odd,
                                      "--rows", "0:4", "--pool", "max"}));
  const auto named = ask("text.read", rope_with({{"input", {{"text", "a text"}, {"name", odd}}}}));
  const auto words = words_of(named.result["provenance"]["command"]);
  EXPECT_EQ(words.back(), odd);
  EXPECT_EQ(words[words.size() - 2], "--text");
}

// Weights of heads with learned sinks do not sum to 1, which whoever reads them is told.
TEST(Requests, WeightsBesideLearnedSinksSaySo) {
  model::ModelConfig config = byte_config("rope");
  config.attention.sink_layers = {0};
  const json given = {{"model", model_folder("learned_sinks", config)},
                      {"input", {{"prompt", "hello there"}}}};
  const auto with = [&given](const json& more) {
    json all = given;
    all.update(more);
    return all;
  };
  const std::string words = "learned sink sum to 1";
  EXPECT_TRUE(notes(ask("map", with({{"head", "L0H1"}})), words));
  EXPECT_FALSE(notes(ask("map", with({{"head", "L1H1"}})), words));
  EXPECT_FALSE(notes(ask("map", with({{"head", "L0H1"}, {"of", "score"}})), words));
  EXPECT_TRUE(notes(ask("capture", with({{"what", "attn"}})), "attn.0 sum to less"));
  EXPECT_FALSE(notes(ask("capture", with({{"what", "attn.1"}})), words));
}

// Whoever asked: the window and the notebook have no options.
TEST(Requests, NotesOfAnImportNameItsFields) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "qk.safetensors").string();
  const at::Tensor products = at::ones({1, 2, 8, 4});
  model::write_tensors(formats::real_file_system(), file, {{"q.0", products}, {"k.0", products}});
  const json given = {{"files", json::array({file})}, {"out", (folder.path() / "m").string()}};
  EXPECT_EQ(ask("import", given).result["notes"],
            json::array({"taken to be causal; `causal` no says not"}));
}

}  // namespace
}  // namespace phasescope::worker
