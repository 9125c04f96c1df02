// The requests about questions of positions, handled in this process on small random models.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "analysis/questions/registry.h"
#include "formats/text_input.h"
#include "tests/worker/fake_context.h"
#include "worker/handle_duel.h"
#include "worker/handle_questions.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

json texts(std::int64_t count) {
  json list = json::array();
  for (std::int64_t n = 0; n < count; ++n) {
    list.push_back(
        {{"name", "text " + std::to_string(n)},
         {"text", std::to_string(n) + " is a text of some thirty bytes, drawn by hand"}});
  }
  return list;
}

json params(const std::string& model = "rope") {
  return {{"model", model_folder(model)}, {"corpus", texts(4)}, {"texts", "0:4:2"}, {"length", 24}};
}

json with(json given, const std::string& key, const json& value) {
  given[key] = value;
  return given;
}

json answer(const std::string& method, const json& given) {
  FakeContext context;
  return ask(questions_handlers(), method, given, context).result;
}

TEST(QuestionRequests, EveryQuestionReadsTheTextsThatAreChosen) {
  for (const std::string method : {"addressing", "demand", "acuity", "profile"}) {
    const json result = answer(method, params());
    EXPECT_EQ(result["texts"], json({"text 0", "text 2"})) << method;
    EXPECT_EQ(result["model"], model_folder("rope")) << method;
    EXPECT_FALSE(result["formula"].empty()) << method;
    const json& provenance = result["provenance"];
    EXPECT_TRUE(provenance["command"].get<std::string>().starts_with("phasescope " + method))
        << provenance["command"];
    EXPECT_FALSE(provenance["text_hash"].empty()) << method;
    // 17.A6: what is left out is counted.
    EXPECT_NE(provenance["note"].get<std::string>().find("of the 4 texts 2 are read (texts 0:4:2)"),
              std::string::npos)
        << provenance["note"];
  }
}

TEST(QuestionRequests, TheSameRequestGivesTheSameBytes) {
  for (const std::string method : {"addressing", "demand", "acuity", "profile"}) {
    EXPECT_EQ(answer(method, params()).dump(), answer(method, params()).dump()) << method;
  }
}

TEST(QuestionRequests, ADuelReadsTheSameTextsTwice) {
  json given = {{"a", model_folder("rope")}, {"b", model_folder("alibi")}, {"lengths", {16}}};
  given["corpus"] = params()["corpus"];
  FakeContext context;
  const json result = ask(duel_handlers(), "duel", given, context).result;
  EXPECT_EQ(result["length"], 16);
  EXPECT_EQ(result["per"], "token");
  EXPECT_EQ(result["provenance"].size(), 2u);
  EXPECT_EQ(result["provenance"][0]["text_hash"], result["provenance"][1]["text_hash"]);
  EXPECT_EQ(result["units"].size(), result["path"].size());
  for (const json& lengths : {json({16, 24}), json({1000000})}) {
    const std::string code = code_of(duel_handlers(), "duel", with(given, "lengths", lengths));
    EXPECT_EQ(code, lengths.size() > 1 ? "bad_usage" : "bad_input");
  }
}

// In a folder the texts are kept: a line each, and the same answer from them.
TEST(QuestionRequests, ADuelInAFolderGoesOnThere) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "phasescope_duel";
  std::filesystem::remove_all(folder);
  json given = {{"a", model_folder("rope")}, {"b", model_folder("alibi")}, {"lengths", {16}}};
  given["corpus"] = params()["corpus"];
  const auto answered = [&](const json& request) {
    FakeContext context;
    json result = ask(duel_handlers(), "duel", request, context).result;
    result.erase("provenance");
    return result;
  };
  const json alone = answered(given), kept = answered(with(given, "job", folder));
  EXPECT_EQ(kept, alone);
  const auto lines = [&] {
    std::ifstream file(folder / "units.jsonl");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  EXPECT_EQ(lines(), 4);
  EXPECT_EQ(answered(with(given, "job", folder)), alone);
  EXPECT_EQ(lines(), 4);
}

TEST(QuestionRequests, ADuelOfRecipesRefusesWhatItDoesNotTake) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "phasescope_recipes";
  std::filesystem::create_directories(folder);
  const std::string a = folder / "a.json", b = folder / "b.json";
  for (const std::string& file : {a, b}) std::ofstream(file) << R"({"train": {"steps": 2}})";
  const auto code = [&](const json& given) { return code_of(duel_handlers(), "duel", given); };
  EXPECT_EQ(code({{"a", a}, {"b", b}}), "bad_usage");  // no folder for the trainings
  EXPECT_EQ(code({{"a", a}, {"b", model_folder("rope")}, {"job", folder / "j"}}), "bad_usage");
  EXPECT_EQ(code({{"a", a}, {"b", b}, {"job", folder / "j"}, {"set", {"encoding.base=5"}}}),
            "bad_usage");
  const std::string rope = model_folder("rope"), alibi = model_folder("alibi");
  EXPECT_EQ(code({{"a", rope}, {"b", alibi}, {"seeds", {1}}}), "bad_usage");
  // With itself: 0 and undecided, no error (questions.md, 7).
  FakeContext context;
  const json same =
      ask(duel_handlers(), "duel",
          {{"a", rope}, {"b", rope}, {"corpus", texts(4)}, {"lengths", {16}}}, context)
          .result;
  EXPECT_EQ(same["mean"], 0);
  EXPECT_EQ(same["verdict"], "undecided");
  std::ofstream(b) << R"({"train": {"steps": 3}})";
  EXPECT_EQ(code({{"a", a}, {"b", b}, {"job", folder / "j"}}), "bad_input");  // other batches
}

// Every question opens every reading of heads; tests/analysis/changed_readings_test.cpp has the
// numbers.
TEST(QuestionRequests, ReadingsOfHeadsAreMeasured) {
  for (const char* reading :
       {"head_windows=L0H0:8", "head_clamps=all:5", "head_sink_caps=L0:0.05"}) {
    const std::string model = model_folder("rope") + " (" + reading + ")";
    for (const char* method : {"addressing", "demand", "acuity", "profile"}) {
      EXPECT_EQ(answer(method, with(params(), "model", model))["model"], model) << method;
    }
    const json pair = {{"model", model},
                       {"head", "L0H0"},
                       {"query", 12},
                       {"key", 3},
                       {"input", {{"prompt", "some words that are read"}}}};
    EXPECT_EQ(answer("pair", pair)["model"], model);
  }
  EXPECT_EQ(code_of(questions_handlers(), "addressing", with(params(), "within", 1)), "bad_usage");
}

TEST(QuestionRequests, ChoicesThatChooseNothingAreRefused) {
  for (const char* words : {"5", "a:b", "3:3", "0:4:0", "9:12"}) {
    const std::string code =
        code_of(questions_handlers(), "addressing", with(params(), "texts", words));
    EXPECT_EQ(code, "bad_usage") << words;
  }
  EXPECT_EQ(code_of(questions_handlers(), "demand", with(params(), "start", "nowhere")),
            "bad_usage");
  EXPECT_EQ(code_of(questions_handlers(), "acuity", with(params(), "bands", {"4:2"})), "bad_usage");
  // One permutation is not two of them.
  EXPECT_EQ(code_of(questions_handlers(), "acuity", with(params(), "seeds", {3, 1, 3})),
            "bad_usage");
  EXPECT_EQ(code_of(questions_handlers(), "addressing", with(params(), "layers", {7})),
            "bad_usage");
  EXPECT_EQ(code_of(questions_handlers(), "xray", with(params(), "length", 64)), "bad_usage");
}

// 17.A7
TEST(QuestionRequests, HeadsOfWhatHasOneAnswerForAllAreToldOf) {
  const auto note = [](const json& more) {
    json given = params();
    given["bands"] = {"1:3"}, given["seeds"] = {1};
    given.update(more);
    return answer("acuity", given)["provenance"]["note"].get<std::string>();
  };
  const std::string nothing = "choose nothing";
  EXPECT_EQ(note(json::object()).find(nothing), std::string::npos);
  EXPECT_NE(note({{"layers", {1}}}).find(nothing), std::string::npos);
  EXPECT_NE(note({{"heads", {0}}, {"by", "layer"}}).find(nothing), std::string::npos);
  EXPECT_EQ(note({{"layers", {1}}, {"by", "layer"}}).find(nothing), std::string::npos);
  EXPECT_EQ(note({{"heads", {0}}, {"by", "head"}}).find(nothing), std::string::npos);
}

TEST(QuestionRequests, XrayLooksAtTwiceTheTrainedLength) {
  json given = params();
  given.erase("length");
  std::string longer;
  for (int n = 0; n < 20; ++n) longer += "some more words of a longer text ";
  given["corpus"] = {longer, longer + "and its end"};
  given["texts"] = "0:2";
  const json result = answer("xray", given);
  EXPECT_EQ(result["trained"], 64);
  EXPECT_EQ(result["rows"].size(), 4u);
  EXPECT_EQ(result["unseen"].size(), 4u);
}

// Texts of fewer tokens than were asked for would be looked at in their place, for minutes.
TEST(QuestionRequests, XrayRefusesALengthThatNoTextHas) {
  json given = params();
  const std::string longer(400, 'x');
  given["corpus"] = {longer, longer}, given["texts"] = "0:2", given["length"] = 99999999999;
  FakeContext context;
  try {
    ask(questions_handlers(), "xray", given, context);
    ADD_FAILURE() << "nothing was refused";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_EQ(error.where(), "length");
    EXPECT_NE(error.message().find("99999999999 tokens that were asked for"), std::string::npos)
        << error.message();
  }
  given["length"] = 128;
  EXPECT_EQ(answer("xray", given)["trained"], 64);
}

// Where nobody names one; a head that is named and not there is refused.
TEST(QuestionRequests, APairIsOfTheFirstHeadThatIsThere) {
  model::ModelConfig config = byte_config("rope");
  config.linear = {.layers = {0}, .key_heads = 1, .value_heads = 2, .key_dim = 4, .value_dim = 4};
  const json given = {{"model", model_folder("state_first", config)},
                      {"input", {{"prompt", "a few words to read"}}}};
  const json result = answer("pair", given);
  EXPECT_EQ(result["layer"], 1);
  EXPECT_EQ(result["head"], 0);
  const auto note = result["provenance"]["note"].get<std::string>();
  EXPECT_NE(note.find("layer 0 has no maps"), std::string::npos) << note;
  EXPECT_EQ(code_of(questions_handlers(), "pair", with(given, "head", "L0H1")), "bad_usage");
}

TEST(QuestionRequests, APairIsReadOfOneText) {
  json given = {{"model", model_folder("rope")},
                {"input", {{"prompt", "a prompt of some bytes"}}},
                {"head", "L1H1"},
                {"query", 12},
                {"key", 3}};
  const json result = answer("pair", given);
  EXPECT_EQ(result["true_distance"], 9);
  EXPECT_EQ(result["phasors"].size(), 4u);
  EXPECT_GT(result["curve"].size(), 1000u);
  EXPECT_EQ(code_of(questions_handlers(), "pair", with(given, "head", "L1")), "bad_usage");
  EXPECT_EQ(code_of(questions_handlers(), "pair", with(given, "key", 13)), "bad_usage");
}

TEST(QuestionRequests, ProofsHold) {
  const json result = answer("prove", {{"names", {"proof-sink"}}});
  ASSERT_FALSE(result["claims"].empty());
  for (const json& claim : result["claims"]) EXPECT_TRUE(claim["holds"].get<bool>()) << claim;
  EXPECT_EQ(code_of(questions_handlers(), "prove", {{"names", {"rope"}}}), "bad_usage");
}

// What --make wrote is read and proved again, one folder or all; what is changed in it is found.
TEST(QuestionRequests, WrittenProofsAreProvedAgain) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "written_proofs";
  fs::remove_all(folder);
  const json made =
      answer("prove", {{"names", {"proof-sink"}}, {"make", folder.string()}, {"seed", 5}});
  const fs::path one = folder / "proof-sink";
  for (const fs::path& given : {folder, one}) {
    const json again = answer("prove", {{"names", {given.string()}}});
    ASSERT_EQ(again["claims"].size(), made["claims"].size());
    for (std::size_t n = 0; n < made["claims"].size(); ++n) {
      const json& claim = again["claims"][n];
      EXPECT_TRUE(claim["holds"].get<bool>()) << claim;
      EXPECT_EQ(claim["model"], one.string());
      EXPECT_EQ(claim["measured"], made["claims"][n]["measured"]) << claim;
    }
  }
  json proof = json::parse(formats::read_text_file(one / "proof.json"));
  const auto write = [&] { std::ofstream(one / "proof.json") << proof.dump(); };
  proof["claims"][0]["value"] = 0.5;
  write();
  const json claims = answer("prove", {{"names", {folder.string()}}})["claims"];
  EXPECT_FALSE(claims[0]["holds"].get<bool>());
  EXPECT_TRUE(claims[1]["holds"].get<bool>());
  const json given = {{"names", {one.string()}}};
  proof["claims"][0]["metric"] = "nothing";
  write();
  EXPECT_EQ(code_of(questions_handlers(), "prove", given), "bad_input");
  proof.erase("seed");
  write();
  EXPECT_EQ(code_of(questions_handlers(), "prove", given), "bad_input");
  fs::remove(one / "proof.json");
  EXPECT_EQ(code_of(questions_handlers(), "prove", given), "bad_input");
  EXPECT_EQ(code_of(questions_handlers(), "prove", with(given, "make", folder.string())),
            "bad_usage");
  fs::remove_all(folder);
}

// The page follows from the registry; PHASESCOPE_WRITE_DOCS=1 makes it again.
TEST(QuestionRequests, ThePageOfQuestionsIsFresh) {
  const std::string path = PHASESCOPE_SOURCE "/docs/questions.md";
  const std::string text = formats::read_text_file(path);
  const std::size_t begin = text.find("| id |");
  ASSERT_NE(begin, std::string::npos);
  if (std::getenv("PHASESCOPE_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, begin) + analysis::page_of_questions();
    return;
  }
  EXPECT_EQ(text.substr(begin), analysis::page_of_questions());
}

TEST(QuestionRequests, EveryQuestionHasItsMethod) {
  std::set<std::string> methods;
  for (const Handler& handler : questions_handlers()) methods.insert(handler.name);
  for (const json& one : answer("questions.list", json::object())["questions"]) {
    EXPECT_TRUE(methods.contains(one["id"].get<std::string>())) << one;
    // The window and the notebook read it too, and have no options.
    EXPECT_EQ(one["measure"].get<std::string>().find("--"), std::string::npos) << one;
  }
}

TEST(QuestionRequests, CancellingEndsThem) {
  FakeContext context;
  context.cancel_when_told = true;
  EXPECT_THROW(ask(questions_handlers(), "acuity", params(), context), std::exception);
}

}  // namespace
}  // namespace phasescope::worker
