// The requests about models and analyses, handled in this process on a small random model.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "formats/error.h"
#include "model/checkpoints/tensor_io.h"
#include "protocol/messages/convert.h"
#include "tests/golden_folder.h"
#include "tests/worker/model_requests.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

TEST(Requests, TextsAreCutToTheContextAndSaySo) {
  const std::string text(500, 'x');
  const auto cut = ask("text.read", rope_with({{"input", {{"text", text}}}}));
  EXPECT_EQ(cut.result["tokens"].size(), 64u);
  EXPECT_NE(cut.result["provenance"]["note"].get<std::string>().find("cut to 64 of 501"),
            std::string::npos);
  const auto longer = ask("text.read", rope_with({{"input", {{"text", text}}}, {"length", 300}}));
  EXPECT_EQ(longer.result["tokens"].size(), 300u);
  EXPECT_TRUE(longer.result["bits_per_byte"].is_number());
}

TEST(Requests, InputsOfEveryKind) {
  const json ids = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(ask("capture", rope_with({{"input", {{"ids", ids}}}})).tensor("logits").shape,
            (std::vector<std::int64_t>{1, 8, 256}));
  const auto batch =
      ask("capture", rope_with({{"input", {{"ids", {ids, ids}}}}, {"what", "attn.1"}}));
  EXPECT_EQ(batch.tensor("attn.1").shape, (std::vector<std::int64_t>{2, 2, 8, 8}));
  FakeContext context;
  context.sent.push_back(protocol::TensorRef::own<std::int64_t>("input_ids", {1, 4}, {9, 8, 7, 6}));
  const auto sent = ask("capture", rope_with({{"input", {{"inputs", ""}}}}), context);
  EXPECT_EQ(sent.tensor("logits").shape[1], 4);
  const auto corpus = ask("heads", rope_with({{"input", {{"corpus", {"one text", "another"}}}}}));
  EXPECT_TRUE(corpus.result["rows"][0]["entropy"].is_object());
  const auto one = ask("heads", rope_with(json::object()));
  EXPECT_TRUE(one.result["rows"][0]["entropy"].is_number());
}

TEST(Requests, BadInputIsSaid) {
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"text", ""}}}})), "bad_input");
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"ids", {1, 999}}}}})), "bad_input");
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"ids", {1, "a"}}}}})), "bad_input");
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"words", "x"}}}})), "bad_usage");
  EXPECT_EQ(code_of("heads", rope_with({{"metrics", {"nothing"}}})), "bad_usage");
  EXPECT_EQ(code_of("heads", {{"input", {{"text", "x"}}}}), "bad_usage");
  // A part of an encoder-decoder where there is none.
  EXPECT_EQ(code_of("compare", {{"models", {"rope", "tapa"}}, {"stack", "enc"}, {"length", 16}}),
            "bad_usage");
  const json entropy = {"entropy"};
  EXPECT_EQ(code_of("heads", rope_with({{"metrics", entropy}, {"period", 8}})), "bad_usage");
  EXPECT_EQ(code_of("heads", rope_with({{"period", 1'000'000}})), "bad_usage");
  EXPECT_EQ(code_of("heads", rope_with({{"metrics", entropy}, {"draws", 3}})), "bad_usage");
  EXPECT_EQ(code_of("heads", rope_with({{"metrics", entropy}, {"windows", {8}}})), "bad_usage");
  EXPECT_EQ(code_of("heads", {{"model", "/no/such/model"}}), "bad_input");
  EXPECT_EQ(code_of("map", rope_with({{"head", "L9H0"}})), "bad_usage");
  EXPECT_EQ(code_of("map", rope_with({{"head", "L0H0"}, {"rows", {5, 900}}})), "bad_usage");
  EXPECT_EQ(code_of("map", rope_with({{"of", "nothing"}})), "bad_usage");
  EXPECT_EQ(code_of("shift", rope_with({{"method", "sideways"}})), "bad_usage");
  EXPECT_EQ(code_of("theory", rope_with({{"check", "no.such"}})), "bad_usage");
  EXPECT_EQ(code_of("theory", rope_with({{"check", "rope.lemma"}, {"pairs", 9}})), "bad_usage");
  EXPECT_EQ(code_of("theory", rope_with({{"check", "rope.assumption"}, {"layer", 1}})),
            "bad_usage");
  EXPECT_EQ(code_of("theory", rope_with({{"check", "rope.assumption"}, {"head", 1}})), "bad_usage");
  EXPECT_EQ(code_of("compare", rope_with(json::object())), "bad_usage");
  EXPECT_EQ(code_of("check", rope_with(json::object())), "bad_usage");
}

// Minutes of measuring are not lost to the name that stands last.
TEST(Requests, ModelsAreThereBeforeTheFirstIsMeasured) {
  const json models = {model_folder("rope"), "no-such-model"};
  for (const char* method : {"theory", "distance", "shift", "models.find"}) {
    FakeContext context;
    EXPECT_EQ(code_of(handlers(), method, {{"models", models}}, context), "bad_input") << method;
    EXPECT_TRUE(context.said.empty()) << method;
  }
  EXPECT_EQ(ask("models.find", {{"models", {"proof-sink", "rope (base=1e6)"}}}).result["models"],
            json({"proof-sink", "rope (base=1e6)"}));
}

// A field that one of the statistics asked for reads is taken; BadInputIsSaid has those that none
// reads.
TEST(Requests, WhatIsReadIsTaken) {
  const auto taken = [](const char* metric, const char* field, const json& value) {
    const json metrics = {metric};
    return ask("heads", rope_with({{"metrics", metrics}, {field, value}})).result.is_object();
  };
  for (const char* metric : {"induction", "duplicate_token", "induction_loss"}) {
    EXPECT_TRUE(taken(metric, "period", 8)) << metric;
    EXPECT_TRUE(taken(metric, "draws", 3)) << metric;
  }
  EXPECT_TRUE(taken("window_mass", "windows", {8}));
}

// ---- opening ------------------------------------------------------------------------------------

// As many models as there is room for are kept, whatever their number; the last one always.
TEST(Models, Risk22_AreKeptByTheirBytes) {
  FakeContext context;
  const auto open = [&](ModelCache& cache, int n) {
    return cache.open(model_folder("kept" + std::to_string(n), byte_config("none")), {}, context);
  };
  ModelCache roomy{WorkerSettings{}};
  const auto first = open(roomy, 0);
  for (int n = 1; n < 9; ++n) open(roomy, n);
  EXPECT_EQ(roomy.size(), 9u);
  EXPECT_EQ(open(roomy, 0), first);  // not read again
  ModelCache tight{WorkerSettings{}, 2 * first->report.weight_bytes};
  for (int n = 0; n < 4; ++n) open(tight, n);
  EXPECT_EQ(tight.size(), 2u);
  ModelCache none{WorkerSettings{}, 1};
  for (int n = 0; n < 3; ++n) open(none, n);
  EXPECT_EQ(none.size(), 1u);
}

TEST(Opening, SaysHowFarItIsAndStopsWhenTold) {
  FakeContext context;
  ask("model.info", rope_with(json::object()), context);
  ASSERT_FALSE(context.said.empty());
  EXPECT_TRUE(context.said[0].starts_with("opening " + model_folder("rope") + ", "));
  EXPECT_EQ(context.last_fraction, 1);
  FakeContext cancelling;
  cancelling.cancel = true;
  EXPECT_EQ(code_of(handlers(), "model.info", rope_with(json::object()), cancelling), "cancelled");
  EXPECT_EQ(cancelling.models().size(), 0u);
  FakeContext halfway;
  halfway.cancel_when_told = true;
  EXPECT_EQ(code_of(handlers(), "model.info", rope_with(json::object()), halfway), "cancelled");
  EXPECT_EQ(halfway.said.size(), 1u);
  EXPECT_LT(halfway.last_fraction, 0.5);
}

// ---- convert ------------------------------------------------------------------------------------

TEST(Converting, WritesAModelWithItsSidecar) {
  FakeContext context;
  const std::filesystem::path out =
      std::filesystem::path(::testing::TempDir()) / "phasescope_converted";
  std::filesystem::remove_all(out);
  const json params = rope_with({{"to", "tape"}, {"out", out.string()}});
  const auto reply = ask("convert", params, context);
  const auto result = protocol::from_json_form<protocol::ConvertResult>(reply.result);
  EXPECT_EQ(result.to, "tape");
  EXPECT_EQ(result.provenance.model_hashes.at(0).size(), 64u);
  const json sidecar =
      json::parse(formats::real_file_system().read(out / "model.safetensors.json"));
  EXPECT_NE(sidecar["command"].get<std::string>().find("--to tape"), std::string::npos);
  EXPECT_EQ(ask("model.info", {{"model", out.string()}}, context).result["encoding"], "tape");
  EXPECT_EQ(code_of("convert", params), "bad_usage");  // it is there
  EXPECT_EQ(code_of("convert", rope_with({{"to", "x"}, {"out", out.string()}})), "bad_usage");
  EXPECT_GE(ask("convert.list", json::object()).result["forms"].size(), 6u);
  std::filesystem::remove_all(out);
  const json drawn = {{"model", model_folder("rope") + "/config.json"},
                      {"to", "random"},
                      {"seed", 3},
                      {"out", out.string()}};
  const json written = ask("convert", drawn, context).result;
  EXPECT_EQ(written["provenance"]["seed"], 3);
  EXPECT_EQ(written["parameters"],
            ask("model.info", {{"model", out.string()}}, context).result["model"]["parameters"]);
  std::filesystem::remove_all(out);
}

TEST(Lengths, BeyondAnyTextAreRefused) {
  for (const char* method : {"model.info", "cost", "heads"}) {
    for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{99999999999999999}}) {
      EXPECT_EQ(code_of(method, rope_with({{"length", length}})), "bad_usage") << method;
    }
  }
  const std::int64_t most = std::int64_t{1} << 40;
  const json info = ask("model.info", rope_with({{"length", most}})).result;
  EXPECT_GT(info["memory_bytes"].get<double>(), static_cast<double>(most));
  EXPECT_GT(ask("cost", rope_with({{"length", most}})).result["memory_bytes"].get<double>(),
            static_cast<double>(most));
}

// What a configuration says needs no weights: all but the tensors is as of the whole model.
TEST(ModelInfo, ReadsAConfigurationByItself) {
  const json whole = ask("model.info", rope_with(json::object())).result;
  const std::string file = model_folder("rope") + "/config.json";
  const json alone = ask("model.info", {{"model", file}}).result;
  for (const char* key : {"encoding", "rope_plan", "vocab_size", "head_dim", "weight_bytes",
                          "memory_bytes", "memory_bytes_at_context"}) {
    EXPECT_EQ(alone[key], whole[key]) << key;
  }
  EXPECT_EQ(alone["model"]["parameters"], whole["model"]["parameters"]);
  EXPECT_EQ(alone["hash"], "");
  EXPECT_NE(alone["warnings"].dump().find("without weights"), std::string::npos);
  const json set = {"encoding.base=123"};
  EXPECT_EQ(ask("model.info", {{"model", file}, {"set", set}}).result["rope_plan"],
            ask("model.info", rope_with({{"set", set}})).result["rope_plan"]);
}

TEST(Heads, OfChosenLayersHaveNoOthersRows) {
  const json all = ask("heads", rope_with(json::object())).result["rows"];
  const json some = ask("heads", rope_with({{"layers", json::array({1})}})).result["rows"];
  ASSERT_FALSE(some.empty());
  EXPECT_LT(some.size(), all.size());
  for (const json& row : some) EXPECT_EQ(row["layer"], 1);
  EXPECT_EQ(code_of("heads", rope_with({{"layers", json::array({99})}})), "bad_usage");
}

TEST(ModelInfo, WritesFactorsAsNumbers) {
  const auto scaling = [](const std::string& factor) {
    const json set = {"encoding.scaling=yarn", "encoding.factor=" + factor};
    return ask("model.info", rope_with({{"set", set}})).result["scaling"].get<std::string>();
  };
  EXPECT_EQ(scaling("2").rfind("yarn x2 over ", 0), 0u) << scaling("2");
  EXPECT_EQ(scaling("2.5").rfind("yarn x2.5 over ", 0), 0u) << scaling("2.5");
  EXPECT_EQ(scaling("1e300").rfind("yarn x1e+300 over ", 0), 0u) << scaling("1e300");
}

TEST(Comparing, SaysWhatRanForEachModel) {
  const std::string rope = model_folder("rope"), cope = model_folder("cope");
  const auto kernel = [](const std::string& a, const std::string& b) {
    const json text = {{"prompt", "a text"}};
    return ask("compare", {{"models", {a, b}}, {"input", text}}).result["provenance"]["kernel"];
  };
  const std::string fused = kernel(rope, rope).get<std::string>();
  EXPECT_EQ(fused.rfind("fused", 0), 0u) << fused;
  EXPECT_EQ(kernel(rope, cope), rope + ": " + fused + "; " + cope +
                                    ": plain (a distance that is counted from the scores of all "
                                    "keys between has no fused form)");
}

TEST(Comparing, SaysWhatRanForEachModelAsData) {
  const std::string rope = model_folder("rope"), cope = model_folder("cope");
  const auto ran = [](const std::string& a, const std::string& b) {
    const json asked = {{"models", {a, b}}, {"input", {{"prompt", "a text"}}}};
    const json made = ask("compare", asked).result["provenance"];
    return protocol::from_json_form<protocol::Provenance>(made).ran;
  };
  ASSERT_EQ(ran(rope, rope).size(), 1u);
  EXPECT_EQ(ran(rope, rope)[0].reason, "");
  const auto both = ran(rope, cope);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].model, rope);
  EXPECT_EQ(both[0].reason, "");
  EXPECT_EQ(both[1].model, cope);
  EXPECT_EQ(both[1].implementation, "plain");
  EXPECT_EQ(both[1].reason,
            "a distance that is counted from the scores of all keys between has no fused form");
}

// ---- capture and check --------------------------------------------------------------------------

TEST(Capturing, SaysWhatRanWhateverIsCaptured) {
  json params = rope_with({{"input", {{"prompt", "a text"}}}, {"what", "logits"}});
  const auto kernel = [&] {
    return ask("capture", params).result["provenance"]["kernel"].get<std::string>();
  };
  const std::string fused = kernel();
  EXPECT_EQ(fused.rfind("fused", 0), 0u) << fused;
  params["what"] = "attn.1";
  EXPECT_EQ(kernel(), fused);
  params["what"] = "hidden.0";
  params["backend"] = "plain";
  EXPECT_EQ(kernel(), "plain");
}

TEST(Checking, TakesTheReferenceInTheModelsFolder) {
  const std::string folder = golden_path("hf/models/llama").string();
  const auto reply = ask("check", {{"model", folder}});
  EXPECT_EQ(reply.result["verdict"], "equal");
  EXPECT_EQ(reply.result["reference"], folder + "/expected.safetensors");
}

TEST(Checking, SaysWhyATensorDiffers) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "other_shape.safetensors";
  const at::Tensor ids = at::tensor({5, 6, 7}, at::kLong).view({1, 3});
  model::write_tensors(formats::real_file_system(), path,
                       {{"input_ids", ids}, {"logits", at::zeros({1, 3, 9})}});
  const auto reply = ask("check", rope_with({{"reference", path.string()}}));
  EXPECT_EQ(reply.result["verdict"], "differs");
  EXPECT_EQ(reply.result["tensors"][0]["error"], "nan");
  ASSERT_EQ(reply.result["not_compared"].size(), 1u);
  const std::string why = reply.result["not_compared"][0];
  EXPECT_EQ(why.rfind("logits: the shape is", 0), 0u) << why;
  EXPECT_NE(why.find('9'), std::string::npos) << why;
}

// ---- generate -----------------------------------------------------------------------------------

TEST(Generating, SaysWhatRanAndWhatThereIsNoTextFor) {
  json params = rope_with({{"input", {{"prompt", "so"}}}, {"tokens", 3}});
  const auto fused = ask("generate", params);
  EXPECT_EQ(fused.result["provenance"]["kernel"].get<std::string>().rfind("fused", 0), 0u);
  params["backend"] = "plain";
  const auto plain = ask("generate", params);
  EXPECT_EQ(plain.result["provenance"]["kernel"], "plain");
  EXPECT_EQ(plain.result["ids"], fused.result["ids"]);
  EXPECT_EQ(fused.result["cache"], "yes");
  EXPECT_EQ(fused.result["seconds"].size(), 3u);
  params["head"] = "L1H0", params["top"] = 2;
  const auto seen = ask("generate", params);
  EXPECT_EQ(seen.result["ids"], fused.result["ids"]);
  EXPECT_EQ(seen.result["cache"], "yes");
  ASSERT_EQ(seen.result["tokens"].size(), 3u);
  EXPECT_EQ(seen.result["tokens"][2]["keys"].size(), 2u);
  params["head"] = "L99H0";
  EXPECT_EQ(code_of("generate", params), "bad_usage");
  params.erase("head"), params.erase("top");
  params["whole"] = true;
  EXPECT_EQ(ask("generate", params).result["cache"], "no: whole passes were asked for");
  model::ModelConfig config = byte_config("rope");
  config.tokenizer = nullptr;
  const json ids = {{"model", model_folder("no_tokenizer", config)},
                    {"input", {{"ids", {0, 's', 'o'}}}},
                    {"tokens", 3}};
  const auto wordless = ask("generate", ids);
  EXPECT_EQ(wordless.result["ids"], fused.result["ids"]);
  EXPECT_EQ(wordless.result["text"], "");
  EXPECT_TRUE(notes(wordless, "ids alone"));
  EXPECT_EQ(code_of("generate", {{"model", both_ways_folder("rope")}}), "not_applicable");
  EXPECT_EQ(code_of("generate", {{"model", headless_folder()}}), "not_applicable");
}

TEST(Requests, CancelledRequestsStop) {
  FakeContext context;
  context.cancel = true;
  EXPECT_ANY_THROW(ask("distance", rope_with({{"corpus", true}}), context));
}

TEST(Requests, AQueryHasARowOfEveryHead) {
  const json input = {{"prompt", "abcdefghij"}};
  const auto reply = ask("query", rope_with({{"input", input}, {"query", 4}, {"top", 3}}));
  const auto layers = reply.result["layers"].get<std::int64_t>();
  const auto heads = reply.result["heads"].get<std::int64_t>();
  const auto keys = reply.result["keys"].get<std::int64_t>();
  EXPECT_EQ(reply.tensor("weights").shape, (std::vector<std::int64_t>{layers, heads, keys}));
  ASSERT_EQ(reply.result["rows"].size(), static_cast<std::size_t>(layers * heads));
  EXPECT_EQ(reply.result["rows"][0]["keys"].size(), 3u);
  const auto last = ask("query", rope_with({{"input", input}}));
  EXPECT_EQ(last.result["query"], last.result["tokens"].get<std::int64_t>() - 1);
  EXPECT_EQ(code_of("query", rope_with({{"input", input}, {"query", 900}})), "bad_usage");
  EXPECT_EQ(code_of("query", rope_with({{"input", input}, {"stack", "enc"}})), "bad_usage");
}

TEST(Requests, MapGivesItsTensors) {
  const auto reply = ask("map", rope_with({{"input", {{"prompt", "abcdefghij"}}},
                                           {"head", "L1"},
                                           {"rows", "2:6"},
                                           {"size", {2, 3}},
                                           {"of", "positional"}}));
  EXPECT_EQ(reply.tensor("map").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(reply.tensor("row_profile").shape[0], 2);
  EXPECT_EQ(reply.tensor("column_profile").shape[0], 3);
  EXPECT_EQ(reply.result["head"], -1);
  EXPECT_TRUE(reply.result["top"].empty());
  const auto top = ask(
      "map",
      rope_with(
          {{"input", {{"prompt", "abcdefghij"}}}, {"head", "L1H0"}, {"rows", "2:6"}, {"top", 2}}));
  ASSERT_EQ(top.result["top"].size(), 4u);
  EXPECT_EQ(top.result["top"][0]["query"], 2);
  EXPECT_EQ(top.result["top"][3]["keys"].size(), 2u);
  EXPECT_EQ(top.result["top"][3]["weights"].size(), 2u);
}

TEST(Requests, SeveralModels) {
  const json models = {model_folder("rope"), model_folder("tapa")};
  const auto distance = ask("distance", {{"models", models},
                                         {"corpus",
                                          {"a text of some length, "
                                           "longer than the context of sixty-four tokens it is",
                                           "another text of some length, longer than the context "
                                           "of sixty-four tokens"}},
                                         {"pairs", 50}});
  ASSERT_EQ(distance.result["models"].size(), 2u);
  EXPECT_EQ(distance.result["models"][0]["histogram"]["pairs"], 50);
  EXPECT_FALSE(distance.result["models"][0]["intrinsic"].empty());
  EXPECT_TRUE(distance.result["models"][1]["intrinsic"].empty());
  const auto shift = ask(
      "shift",
      {{"models", models}, {"by", {3}}, {"method", "ids"}, {"input", {{"prompt", "some text"}}}});
  EXPECT_EQ(shift.result["rows"].size(), 2u * 2 * 2);  // models, dtypes, layers
  const auto theory = ask("theory", {{"models", models}, {"check", "tape.shift"}});
  EXPECT_EQ(theory.result["checks"][0]["verdict"], "holds");
  EXPECT_EQ(theory.result["checks"][1]["verdict"], "premise_not_met");
  const std::string kernel = theory.result["provenance"][0]["kernel"];
  EXPECT_TRUE(kernel.starts_with("fused ") && kernel.ends_with(", plain")) << kernel;
  const auto plain =
      ask("theory", {{"models", models}, {"check", "tape.shift"}, {"backend", "plain"}});
  EXPECT_EQ(plain.result["provenance"][0]["kernel"], "plain");
  const auto compare = ask("compare", {{"models", models}});
  EXPECT_EQ(compare.result["heads"].size(), 4u);
}

// 17.A3
TEST(Requests, TwoFoldersOfOneNameAreTwoModels) {
  namespace fs = std::filesystem;
  const fs::path top = fs::path(model_folder("rope")).parent_path() / "of_one_name";
  const std::string a = top / "a" / "ck", b = top / "b" / "ck";
  for (const auto& [folder, encoding] : {std::pair{a, "rope"}, std::pair{b, "tapa"}}) {
    fs::create_directories(folder);
    fs::copy(model_folder(encoding), folder,
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }
  const json both = {a, b}, text = {{"prompt", "some text that is read"}};
  for (const char* method : {"heads", "map", "patterns", "text.read", "capture"}) {
    const json result = ask(method, {{"model", a}, {"input", text}}).result;
    EXPECT_EQ(result["model"], a) << method;
    EXPECT_EQ(result["provenance"]["models"], json({a})) << method;
  }
  EXPECT_EQ(ask("model.info", {{"model", b}}).result["model"]["name"], b);
  const auto names = [](const json& rows) {
    json list = json::array();
    for (const json& row : rows) {
      if (list.empty() || list.back() != row["model"]) list.push_back(row["model"]);
    }
    return list;
  };
  const json of_text = {{"models", both}, {"input", text}};
  EXPECT_EQ(names(ask("distance", of_text).result["models"]), both);
  EXPECT_EQ(names(ask("shift", of_text).result["rows"]), both);
  const json theory = ask("theory", {{"models", both}, {"check", "tape.shift"}}).result;
  EXPECT_EQ(names(theory["checks"]), both);
  EXPECT_EQ(theory["provenance"][1]["models"], json({b}));
  const json compare = ask("compare", {{"models", both}, {"input", text}}).result;
  EXPECT_EQ(json({compare["a"], compare["b"]}), both);
  // A reading keeps the words it was asked for by; a "set" is written into the name.
  const json read = {{"model", a + " (scaling=linear, factor=2)"}, {"input", text}};
  EXPECT_EQ(ask("text.read", read).result["model"], read["model"]);
  const json set = {{"model", a}, {"input", text}, {"set", {"encoding.base=40000"}}};
  EXPECT_EQ(ask("text.read", set).result["model"], a + " (base=40000)");
}

TEST(Requests, AboutModels) {
  const auto info = ask("model.info", rope_with(json::object()));
  EXPECT_EQ(info.result["encoding"], "rope");
  EXPECT_EQ(info.result["model"]["context"], 64);
  EXPECT_TRUE(ask("models.list", json::object()).result["models"].is_array());
  const auto cost = ask("cost", rope_with({{"length", 128}}));
  EXPECT_GT(cost.result["executed"]["macs"].get<double>(), 0);
  const auto config = ask("cost", {{"model", model_folder("rope") + "/config.json"}});
  EXPECT_EQ(config.result["length"], 1024);
}

TEST(Requests, Row17_AnUnknownModelWithCodeOfItsOwnIsToldThatNoneIsRun) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "phasescope_own_code";
  std::filesystem::create_directories(folder);
  formats::write_file_atomically(
      formats::real_file_system(), folder / "config.json",
      R"({"model_type": "mystery", "auto_map": {"AutoModel": "modeling.Mystery"}})");
  model::write_tensors(formats::real_file_system(), folder / "model.safetensors",
                       {{"w", at::zeros({2, 2})}});
  try {
    ask("model.info", {{"model", folder.string()}});
    ADD_FAILURE() << "it was read";
  } catch (const formats::Error& error) {
    EXPECT_NE(error.hint().find("Python code is never run"), std::string::npos) << error.hint();
  }
}

TEST(Requests, GenerateAndPatterns) {
  const auto text = ask(
      "generate", rope_with({{"input", {{"prompt", "so"}}}, {"tokens", 5}, {"temperature", 1.0}}));
  EXPECT_EQ(text.result["ids"].size(), 5u);
  const auto patterns = ask("patterns", rope_with({{"input", {{"prompt", "abcdef"}}}}));
  EXPECT_EQ(patterns.tensor("pe_dot.0").shape[0], 7);
  EXPECT_FALSE(ask("theory.list", json::object()).result["checks"].empty());
}

// 17.A10: what no request means is refused.
TEST(Requests, NumbersThatMeanNothingAreRefused) {
  const json distance = rope_with({{"input", {{"prompt", "a few words to read"}}}});
  for (const std::int64_t pairs : {0, -5}) {
    json params = distance;
    params["pairs"] = pairs;
    EXPECT_EQ(code_of("distance", params), "bad_usage") << pairs;
  }
  for (const json& size : {json{999999, 999999}, json{0, 4}, json{4, -1}}) {
    EXPECT_EQ(code_of("map", rope_with({{"size", size}})), "bad_usage") << size;
  }
  EXPECT_EQ(code_of("map", rope_with({{"size", {8192, 1}}})), "");
  EXPECT_EQ(code_of("heads", rope_with({{"metrics", {"entropie"}}})), "bad_usage");
  EXPECT_EQ(code_of("patterns", rope_with({{"distances", 0}})), "bad_usage");
  EXPECT_EQ(code_of("patterns", rope_with({{"query", 5000}})), "bad_usage");
}

// 17.A7: an option that has nothing to say of a model is told of, not dropped.
TEST(Requests, WhatAModelHasNoUseForIsSaid) {
  const json input = {{"prompt", "a few words to read"}};
  const auto note_of_patterns = [&](const char* encoding, const json& with) {
    json params = {{"model", model_folder(encoding)}, {"input", input}};
    params.update(with);
    return ask("patterns", params).result["provenance"]["note"].get<std::string>();
  };
  const auto says = [&](const char* encoding, const json& with, const std::string& words) {
    return note_of_patterns(encoding, with).find(words) != std::string::npos;
  };
  // Of the layers that are named, too, and beside rows of queries.
  for (const json& named : {json{{"layers", {0, 1}}}, json{{"queries", {3}}}}) {
    json far = named, query = named;
    far["distances"] = 9, query["query"] = 3;
    EXPECT_TRUE(says("rope", far, "`distances` changes nothing")) << far;
    EXPECT_TRUE(says("rope", query, "`query` changes nothing: there is no bias")) << query;
    for (const json& with : {far, query}) EXPECT_FALSE(says("alibi", with, "changes nothing"));
    far.update(query);
    EXPECT_TRUE(says("alibi", far, "`query` changes nothing: the tables")) << far;
  }
  EXPECT_TRUE(says("rope", {{"texts", 1}}, "`texts` changes nothing"));
  EXPECT_TRUE(says("alibi", {{"texts", 1}}, "no `queries` were named"));
  EXPECT_FALSE(says("rope", {{"queries", {3}}, {"texts", 1}}, "changes nothing"));
  EXPECT_TRUE(says("alibi", {{"positions", 4}}, "alibi has no position products"));
  EXPECT_FALSE(says("rope", {{"positions", 4}}, "no positions are sampled"));
  const json two = {{"input", {{"ids", {{1, 2, 3}, {4, 5}}}}}};
  EXPECT_TRUE(says("rope", two, "only the first of 2 texts is read"));
  EXPECT_FALSE(says("rope", json::object(), "only the first"));
  EXPECT_FALSE(says("cape", two, "only the first"));  // its corrected curves are means over both
  const auto note_of_distance = [&](const char* encoding, const json& with) {
    json params = {{"model", model_folder(encoding)}, {"input", input}};
    params.update(with);
    return ask("distance", params).result["models"][0]["note"].get<std::string>();
  };
  for (const char* swept : {"bases", "factors"}) {
    const json with = {{swept, {5000}}};
    EXPECT_NE(note_of_distance("alibi", with).find("no sweep of bases or factors"),
              std::string::npos);
    EXPECT_EQ(note_of_distance("rope", with).find("no sweep of bases or factors"),
              std::string::npos);
  }
}

// 19: q and k of one stack of an encoder-decoder, which a model of one stack has not.
TEST(Requests, CaptureIsOfTheStackThatIsNamed) {
  model::ModelConfig config = byte_config("t5");
  config.encoder_layers = 2;
  const std::string two_stacks = model_folder("two_stacks", config);
  const json what = {"q", "k"}, input = {{"prompt", "a few words to read"}};
  for (const std::string stack : {"enc", "dec", "cross"}) {
    const auto reply = ask("capture", {{"model", two_stacks},
                                       {"input", input},
                                       {"what", what},
                                       {"layers", {1}},
                                       {"stack", stack}});
    EXPECT_EQ(reply.result["names"], (json{stack + ".k.1", stack + ".q.1"}));
  }
  const json one = rope_with({{"input", input}, {"what", what}, {"stack", "enc"}});
  EXPECT_NE(message_of("capture", one).find("one stack of layers"), std::string::npos);
}

// 19: models of two vocabularies have no rows to lay over each other, which is nothing wrong; it is
// said what they can be compared by.
TEST(Requests, OtherTokensAreNotComparedAndWhyIsSaid) {
  const json input = {{"prompt", "a few words to read"}};
  const std::string rope = model_folder("rope");
  model::ModelConfig config = byte_config("rope");
  config.tokenizer["bos"] = 1;
  const json other = {{"models", {rope, model_folder("other_bos", config)}}, {"input", input}};
  EXPECT_EQ(code_of("compare", other), "not_applicable");
  EXPECT_NE(message_of("compare", other).find("the loss of the same bytes"), std::string::npos);
  // What nobody chose is read: a text by one, drawn ids by the other.
  config.tokenizer = nullptr;
  const json drawn = {{"models", {rope, model_folder("no_tokenizer", config)}}, {"length", 16}};
  EXPECT_EQ(code_of("compare", drawn), "not_applicable");
  EXPECT_NE(message_of("compare", drawn).find("has no tokenizer"), std::string::npos);
}

// 17.A10: nothing is wrong with a model that has no such thing.
TEST(Requests, WhatAModelHasNotIsNoError) {
  model::ModelConfig config = byte_config("t5");
  config.encoder_layers = 2;
  const std::string two_stacks = model_folder("two_stacks", config);
  const json input = {{"prompt", "a few words to read"}};
  EXPECT_EQ(code_of("distance", {{"model", two_stacks}, {"input", input}}), "not_applicable");
  EXPECT_EQ(code_of("generate", {{"model", both_ways_folder("rope")}, {"input", input}}),
            "not_applicable");
  const json models =
      ask("distance", {{"models", {two_stacks, model_folder("rope")}}, {"input", input}})
          .result["models"];
  ASSERT_EQ(models.size(), 2u);
  EXPECT_NE(models[0]["note"].get<std::string>().find("an encoder and a decoder"),
            std::string::npos);
  EXPECT_TRUE(models[0]["profile"].empty());
  EXPECT_FALSE(models[1]["profile"].empty());
}

}  // namespace
}  // namespace phasescope::worker
