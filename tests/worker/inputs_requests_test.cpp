// What requests read from files: texts with masks and positions, and lists of ids.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "tasks/task.h"
#include "tests/worker/model_requests.h"
#include "training/run_config.h"
#include "training/trainer.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

// A file of two texts, 6 and 4 tokens long, the second one padded in front.
std::string inputs_file(const std::string& name, model::NamedTensors more) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name;
  more.emplace_back("input_ids",
                    at::tensor({5, 6, 7, 8, 9, 10, 0, 0, 7, 8, 9, 11}, at::kLong).view({2, 6}));
  model::write_tensors(formats::real_file_system(), path, more);
  return path.string();
}

at::Tensor padding_mask() {
  return at::tensor({1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}, at::kLong).view({2, 6});
}

// Without a tokenizer a text is drawn, as long as it is asked to be: every id of it is made first.
TEST(DrawnIds, OfMoreThanMemoryHoldsAreRefused) {
  model::ModelConfig config = byte_config("rope");
  config.tokenizer = nullptr;
  const std::string model = model_folder("without_tokenizer", config);
  const std::int64_t most = std::int64_t{1} << 24;
  for (const char* method : {"heads", "map", "text.read"}) {
    const json asked = {{"model", model}, {"length", most + 1}};
    EXPECT_NE(message_of(method, asked).find("16777217 tokens is not drawn (length)"),
              std::string::npos)
        << message_of(method, asked);
  }
  EXPECT_EQ(ask("text.read", {{"model", model}, {"length", 20}}).result["tokens"].size(), 20u);
}

TEST(Requests, TokenizeGoesBothWays) {
  const auto with = ask("tokenize", rope_with({{"input", {{"text", "hi"}}}}));
  EXPECT_EQ(with.result["ids"], json({0, 'h', 'i'}));
  EXPECT_EQ(with.result["decoded"], "hi");
  EXPECT_EQ(with.result["spans"].size(), 3u);
  EXPECT_EQ(with.result["spans"][2], json({1, 2}));
  const auto without =
      ask("tokenize", rope_with({{"input", {{"text", "hi"}}}, {"no_special", true}}));
  EXPECT_EQ(without.result["ids"], json({'h', 'i'}));
  const auto back = ask("tokenize", rope_with({{"input", {{"ids", {0, 'o', 'k'}}}}}));
  EXPECT_EQ(back.result["decoded"], "ok");
  // Ids are of no text, whose bytes and pieces they could be.
  EXPECT_FALSE(back.result.contains("spans")) << back.result;
  EXPECT_FALSE(back.result.contains("pre_tokens"));
  const auto several = ask("tokenize", rope_with({{"texts", {"hi", "o"}}}));
  EXPECT_EQ(several.result.size(), 1u);
  EXPECT_EQ(several.result["items"].at(0), with.result);
  EXPECT_EQ(several.result["items"].at(1)["ids"], json({0, 'o'}));
}

// 2^64 - 1 is no id; as a number of 64 bits with a sign it would be -1.
TEST(ListsOfIds, NumbersBeyond64BitsAreNamedAsTheyWereGiven) {
  const json ids = {1, 18446744073709551615ULL};
  const std::string said = message_of("heads", rope_with({{"input", {{"ids", ids}}}}));
  EXPECT_NE(said.find("18446744073709551615"), std::string::npos) << said;
  EXPECT_EQ(said.find("-1"), std::string::npos) << said;
}

TEST(FilesOfInputs, PaddingIsLeftOutOfEveryMeasurement) {
  const std::string masked =
      inputs_file("masked.safetensors", {{"attention_mask", padding_mask()}});
  const json both = rope_with({{"input", {{"inputs", masked}}}, {"metrics", {"mean_distance"}}});
  // The same texts without padding; the second one stands at positions 2 to 5, which change nothing
  // in a model of relative positions.
  const json apart =
      rope_with({{"input", {{"ids", {{5, 6, 7, 8, 9, 10}}}}}, {"metrics", {"mean_distance"}}});
  json second = apart;
  second["input"] = {{"ids", {{7, 8, 9, 11}}}};
  const auto value = [](const protocol::Reply& reply) {
    const json& cell = reply.result["rows"][0]["mean_distance"];
    return cell.is_number() ? cell.get<double>() : cell["value"].get<double>();
  };
  EXPECT_NEAR(value(ask("heads", both)),
              (value(ask("heads", apart)) + value(ask("heads", second))) / 2, 1e-5);
  const auto reply = ask("heads", both);
  EXPECT_NE(reply.result["provenance"]["note"].get<std::string>().find("2 tokens of padding"),
            std::string::npos);
  // Capture keeps the file's shape.
  const auto kept =
      ask("capture", rope_with({{"input", {{"inputs", masked}}}, {"what", "attn.0"}}));
  EXPECT_EQ(kept.tensor("attn.0").shape, (std::vector<std::int64_t>{2, 2, 6, 6}));
  EXPECT_EQ(kept.tensor("attn.0").values<float>()[72 + 5 * 6], 0);  // key 0 of the second text
}

TEST(FilesOfInputs, PositionIdsAreReadOrRefused) {
  const std::string spread = inputs_file(
      "spread.safetensors", {{"position_ids", 3 * at::arange(6, at::kLong).unsqueeze(0)}});
  const auto params = [&](const std::string& path) {
    return rope_with({{"input", {{"inputs", path}}}});
  };
  const auto map = [&](const std::string& path) {
    json asked = params(path);
    asked.update({{"head", "L0H0"}, {"size", {6, 6}}, {"of", "positional"}});
    const auto reply = ask("map", asked);
    const auto values = reply.tensor("map").values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_NE(map(spread), map(inputs_file("plain.safetensors", {})));
  for (const char* method : {"generate", "shift", "theory", "distance"}) {
    EXPECT_EQ(code_of(method, params(spread)), "bad_input") << method;
  }
}

// A sample that is named is read with what its decoder reads, and with the nodes of both.
TEST(NamedSamples, OfATreeAreReadWithTheirNodes) {
  training::RunConfig config =
      training::run_config_from_file(PHASESCOPE_SOURCE "/sample_configs/desk/tree_copy_ape.json");
  config.model.layers = config.model.encoder_layers = 1;
  config.train.steps = 1;
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "tree_model";
  std::filesystem::create_directories(folder);
  training::Trainer(config, std::make_shared<const training::TaskData>(config))
      .write_files(formats::real_file_system(), folder);

  const auto reply = ask(
      "capture",
      {{"model", folder.string()}, {"input", {{"sample", "tree_copy:7:3"}}}, {"what", "logits"}});
  const auto values = reply.tensor("logits").values<float>();
  const tasks::Sample sample = tasks::task_named("tree_copy").draw(7, {3}, 0);
  const auto row = [](const tasks::Ids& ids) { return at::tensor(ids, at::kLong).unsqueeze(0); };
  const at::NoGradGuard no_gradients;
  const auto model = model::open_model(folder.string());
  // How far the logits are that the model has itself, of tokens at these places.
  const auto distance = [&](bool with_places) {
    model::ForwardOptions options;
    options.decoder_ids = row(sample.decoder_input);
    if (with_places) {
      options.position_ids = row(sample.input_places);
      options.decoder_position_ids = row(sample.decoder_places);
    }
    const at::Tensor logits = model->decoder.forward(row(sample.input), options).contiguous();
    EXPECT_EQ(static_cast<std::size_t>(logits.numel()), values.size());
    float most = 0;
    for (std::size_t n = 0; n < values.size(); ++n) {
      most = std::max(most, std::abs(values[n] - logits.data_ptr<float>()[n]));
    }
    return most;
  };
  // Of logits below 10, each a sum of 128 products in float32, in any order: 128 x 10 x 2^-24.
  EXPECT_LT(distance(true), 8e-5F);
  EXPECT_GT(distance(false), 1e-3F);
  // A decoder alone has nothing to read the other side with.
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"sample", "tree_copy:7"}}}})), "bad_input");
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"sample", "shapes:7"}}}})), "bad_input");
}

// 19: symbols of a task mean nothing to a model of texts, and that is said.
TEST(NamedSamples, OfAnotherTaskThanTheModelsAreTold) {
  const auto of_text = ask("heads", rope_with({{"input", {{"sample", "addition:7"}}}}));
  EXPECT_TRUE(notes(of_text, "symbols of the task addition, which this model was not trained on"));
  const auto plain = ask("heads", rope_with({{"input", {{"prompt", "some words"}}}}));
  EXPECT_FALSE(notes(plain, "symbols of the task"));
}

TEST(FilesOfInputs, IdsThatAreNoWholeNumbersAreRefused) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "fractions.safetensors";
  const at::Tensor ids = at::full({1, 6}, 5.7);
  model::write_tensors(formats::real_file_system(), path,
                       {{"input_ids", ids}, {"logits", at::zeros({1, 6, 256})}});
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"inputs", path.string()}}}})), "bad_input");
  EXPECT_EQ(code_of("check", rope_with({{"reference", path.string()}})), "bad_input");
}

TEST(FilesOfInputs, PositionsTooFarApartForATableAreRefused) {
  for (const std::int64_t far : {std::int64_t{3'000'000'000}, std::int64_t{1} << 62}) {
    const at::Tensor positions = at::tensor(
        {-far, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4}, far - 1},
        at::kLong);
    const std::string path =
        inputs_file("far.safetensors", {{"position_ids", positions.unsqueeze(0)}});
    const json params = {{"model", model_folder("alibi")}, {"input", {{"inputs", path}}}};
    EXPECT_EQ(code_of("heads", params), "bad_input") << far;
  }
}

// Behind a text padding may go, but not where the length of the whole file sets the angles.
TEST(FilesOfInputs, PaddingStaysWhereAnglesDependOnTheLength) {
  at::Tensor behind = at::ones({2, 6}, at::kLong);
  behind[1][5] = 0;
  const std::string path = inputs_file("behind.safetensors", {{"attention_mask", behind}});
  struct Case {
    const char* name;
    const char* encoding;
    model::Json options;
    const char* code;
  };
  const model::Json yarn = {{"scaling", "yarn"}, {"factor", 2.0}, {"trained_context", 4}};
  model::Json dynamic = yarn, linear = yarn;
  dynamic["scaling"] = "dynamic", linear["scaling"] = "linear";
  for (const Case& c : {Case{"padded_rope", "rope", model::Json::object(), ""},
                        Case{"padded_linear", "rope", linear, ""},
                        Case{"padded_dynamic", "rope", dynamic, "bad_input"},
                        Case{"padded_tape", "tape", model::Json::object(), ""}}) {
    model::ModelConfig config = byte_config(c.encoding);
    config.encoding.options = c.options;
    const json params = {{"model", model_folder(c.name, config)}, {"input", {{"inputs", path}}}};
    EXPECT_EQ(code_of("heads", params), c.code) << c.name;
  }
}

TEST(FilesOfInputs, WhatAModelDoesNotTakeIsSaid) {
  const at::Tensor ones = at::ones({2, 6}, at::kLong);
  for (const char* name : {"token_type_ids", "decoder_input_ids"}) {
    const std::string path = inputs_file(std::string(name) + ".safetensors", {{name, ones}});
    EXPECT_EQ(code_of("heads", rope_with({{"input", {{"inputs", path}}}})), "bad_input") << name;
  }
  const std::string zeros =
      inputs_file("zeros.safetensors", {{"token_type_ids", at::zeros_like(ones)}});
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"inputs", zeros}}}})), "");
  const std::string padding =
      inputs_file("padding.safetensors", {{"attention_mask", at::zeros_like(ones)}});
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"inputs", padding}}}})), "bad_input");
  // Distances over a hole would change without it.
  at::Tensor hole = at::ones_like(ones);
  hole[0][2] = 0;
  const std::string holed = inputs_file("hole.safetensors", {{"attention_mask", hole}});
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"inputs", holed}}}})), "bad_input");
  EXPECT_EQ(code_of("capture", rope_with({{"input", {{"inputs", holed}}}, {"what", "attn.0"}})),
            "");
}

// ---- lists of ids -------------------------------------------------------------------------------

json of_ids(const json& ids) {
  return rope_with({{"input", {{"ids", ids}, {"name", "out/my_ids.json"}}}});
}

TEST(FilesOfIds, Row20_ErrorsNameTheFile) {
  for (const char* wrong : {"[1, 999]", "[1, \"a\"]", "[1, 2.5]", "[[1, 2], 3]",
                            "[[1, 2], [3, 999]]", "[[]]", "[]", "\"a\"", "{\"a\": 1}"}) {
    const json ids = json::parse(wrong);
    const std::string message = message_of("heads", of_ids(ids));
    EXPECT_NE(message.find("out/my_ids.json"), std::string::npos) << message;
    EXPECT_EQ(code_of("heads", of_ids(ids)), "bad_input") << ids;
  }
  EXPECT_NE(message_of("heads", of_ids({{1, 2}, {3, 999}})).find("out/my_ids.json, list 1"),
            std::string::npos);
  const std::string far = inputs_file("far_ids.safetensors", {});
  const json params = {{"model", model_folder("rope")}, {"input", {{"inputs", far}}}};
  model::write_tensors(formats::real_file_system(), far,
                       {{"input_ids", at::full({1, 6}, 999, at::kLong)}});
  EXPECT_NE(message_of("heads", params).find(far), std::string::npos);
  model::write_tensors(
      formats::real_file_system(), far,
      {{"input_ids", at::full({1, 6}, 999, at::kLong)}, {"logits", at::zeros({1, 6, 256})}});
  EXPECT_NE(message_of("check", rope_with({{"reference", far}})).find(far + ": input_ids"),
            std::string::npos);
}

TEST(FilesOfIds, TheCommandNamesTheFile) {
  const json provenance = ask("heads", of_ids({1, 2, 3})).result["provenance"];
  EXPECT_NE(provenance["command"].get<std::string>().find("--ids out/my_ids.json"),
            std::string::npos);
  EXPECT_EQ(provenance["command"].get<std::string>().find("--text"), std::string::npos);
}

TEST(FilesOfIds, TokenizeReadsAllLists) {
  const json items = ask("tokenize", of_ids({{'o', 'k'}, {'n', 'o'}})).result["items"];
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0]["ids"], json({'o', 'k'}));
  EXPECT_EQ(items[1]["decoded"], "no");
  const json one = ask("tokenize", of_ids({{'o', 'k'}})).result;
  EXPECT_EQ(one["decoded"], "ok");
  const std::string rows = inputs_file("rows.safetensors", {});
  const json params = {{"model", model_folder("rope")}, {"input", {{"inputs", rows}}}};
  EXPECT_EQ(ask("tokenize", params).result["items"].size(), 2u);
}

// 17.A6: a trained length (64 here) cuts text alone.
TEST(FilesOfIds, AreReadWhole) {
  std::vector<std::int64_t> list;
  for (std::int64_t n = 0; n < 150; ++n) list.push_back(n);
  const auto captured = ask("capture", of_ids(list));
  EXPECT_EQ(captured.tensor("logits").shape, (std::vector<std::int64_t>{1, 150, 256}));
  EXPECT_FALSE(notes(captured, "cut"));
  const std::string file = inputs_file("long_ids.safetensors", {});
  model::write_tensors(formats::real_file_system(), file,
                       {{"input_ids", at::arange(300, at::kLong).remainder(256).view({2, 150})}});
  const json of_file = {{"inputs", file}};
  EXPECT_EQ(ask("map", rope_with({{"input", of_file}})).result["tokens"], 150);
  EXPECT_EQ(ask("capture", rope_with({{"input", of_file}})).tensor("logits").shape,
            (std::vector<std::int64_t>{2, 150, 256}));
  const json shifted = ask("shift", rope_with({{"input", {{"ids", list}}}, {"by", {3}}})).result;
  EXPECT_FALSE(shifted["rows"].empty());
  json both = {{"a", model_folder("rope")}, {"b", model_folder("alibi")}};
  both["input"] = {{"ids", list}};
  EXPECT_FALSE(notes(ask("compare", both), "cut"));
  // A table of 64 positions has no room for them, which is said and not mended.
  const json learned = {{"model", model_folder("learned")}, {"input", {{"ids", list}}}};
  EXPECT_EQ(code_of("heads", learned), "bad_input");
  EXPECT_EQ(code_of("shift", learned), "bad_input");
  // Whoever asks for a length gets it.
  json first = of_ids(list);
  first["length"] = 9;
  EXPECT_EQ(ask("capture", first).tensor("logits").shape[1], 9);
  const auto text = ask("map", rope_with({{"input", {{"text", std::string(500, 'x')}}}}));
  EXPECT_TRUE(notes(text, "cut to 64 of 501 tokens, the trained length (more when asked for)"));
}

// 17.A6: a batch is captured as a batch, or not at all.
TEST(FilesOfIds, ABatchIsCapturedAsABatch) {
  const auto batch = ask("capture", of_ids({{1, 2, 3}, {4, 5, 6}}));
  ASSERT_EQ(batch.tensor("logits").shape, (std::vector<std::int64_t>{2, 3, 256}));
  const auto second = ask("capture", of_ids({4, 5, 6}));
  const auto rows = batch.tensor("logits").values<float>(),
             row = second.tensor("logits").values<float>();
  for (std::size_t n = 0; n < row.size(); ++n) {
    // One token's sums run over 16 or 24 products, in an order that a batch may change.
    EXPECT_NEAR(rows[row.size() + n], row[n], 1e-5);
  }
  EXPECT_EQ(code_of("capture", of_ids({{1, 2, 3}, {4, 5}})), "bad_input");
  EXPECT_NE(message_of("capture", of_ids({{1, 2, 3}, {4, 5}})).find("from 2 to 3 ids"),
            std::string::npos);
}

// 17.A7: ids are captured alone where they are asked for alone, and chosen from by nothing; a
// length cuts files of inputs alone.
TEST(FilesOfIds, WhatIsReadWholeIsNotCut) {
  const json input = {{"ids", {1, 2, 3}}};
  EXPECT_EQ(ask("capture", rope_with({{"input", input}, {"what", {"input_ids"}}})).result["names"],
            json({"input_ids"}));
  for (const char* choice : {"rows", "cols"}) {
    json params = rope_with({{"input", input}, {"what", {"input_ids"}}});
    params[choice] = {0, 2};
    EXPECT_EQ(code_of("capture", params), "bad_usage") << choice;
  }
  for (const json& whole : {input, json{{"prompt", "three words here"}}, json::object()}) {
    json params = rope_with({{"input", whole}});
    EXPECT_EQ(code_of("tokenize", params), "") << whole;
    params["length"] = 2;
    EXPECT_EQ(code_of("tokenize", params), "bad_usage") << whole;
  }
}

// ---- corpora ------------------------------------------------------------------------------------

// `"corpus": PATH` of whatever form, and what a context that the validation texts are too short for
// reads in their place.
TEST(Corpora, AreFilesFoldersAndCollections) {  // 17.A8
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "corpus";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    formats::write_file_atomically(formats::real_file_system(), folder / name, text);
    return (folder / name).string();
  };
  const auto texts = [&](const std::string& path) {
    const auto reply = ask("heads", rope_with({{"corpus", path}, {"metrics", {"entropy"}}}));
    return reply.result["rows"][0]["entropy"]["n"].get<int>();
  };
  write("one.txt", std::string(80, 'a') + " end\n");
  write("two.txt", std::string(90, 'b') + " end\n");
  EXPECT_EQ(texts(folder.string()), 2);
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "a line of some twenty bytes\n";
  EXPECT_EQ(texts(write("long.txt", lines)), 6);  // of 4096 bytes and more
  EXPECT_EQ(texts(write("c.jsonl", "{\"text\": \"x y z\"}\n{\"text\": \"u v w\"}\n")), 2);
  EXPECT_EQ(code_of("heads", rope_with({{"corpus", (folder / "none").string()}})), "bad_input");
}

}  // namespace
}  // namespace phasescope::worker
