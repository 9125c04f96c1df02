// Requests as structs: one list of fields gives JSON, the command line, help and the page of
// methods.
#include "protocol/request.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "formats/base64.h"
#include "protocol/error_info.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/theory.h"
#include "protocol/messages/tokenize.h"
#include "protocol/prompt_bytes.h"

namespace phasescope::protocol {
namespace {

using nlohmann::json;

template <class R>
ErrorInfo refusal(const json& params) {
  try {
    request_of<R>(params);
  } catch (const RequestError& error) {
    return error.info();
  }
  ADD_FAILURE() << params << " was taken";
  return {};
}

TEST(Request, WritesWhatDiffersFromItsDefaultsAlone) {
  MapRequest request{.model = "rope"};
  EXPECT_EQ(params_of(request), json({{"model", "rope"}}));
  request.pool = "max";
  request.rows = Range{10, 20};
  request.size = {64, 32};
  request.running.set.list = {"encoding.factor=2"};
  request.reading.input.prompt = "a b";
  EXPECT_EQ(params_of(request), json({{"model", "rope"},
                                      {"pool", "max"},
                                      {"rows", {10, 20}},
                                      {"size", {64, 32}},
                                      {"set", {"encoding.factor=2"}},
                                      {"input", {{"prompt", "a b"}}}}));
}

TEST(Request, ReadsBackWhatItWrites) {
  MapRequest request{.model = "rope", .head = {"L2H1"}, .of = "content", .top = 3};
  request.cols = Range{0, 7};
  request.reading.length = 99;
  request.running.dtype = "f64";
  const json params = params_of(request);
  EXPECT_EQ(params_of(request_of<MapRequest>(params)), params);
}

TEST(Request, TakesTheFormsThatRequestsHaveAlwaysHad) {
  const auto map = request_of<MapRequest>(
      {{"model", "rope"}, {"rows", "3:9"}, {"set", {{"encoding.base", 1e6}}}, {"cols", nullptr}});
  EXPECT_EQ(map.rows, (Range{3, 9}));
  EXPECT_EQ(map.running.set.list, std::vector<std::string>{"encoding.base=1000000.0"});
  EXPECT_EQ(request_of<MapRequest>({{"model", "rope"}, {"head", "L2H1"}}).head,
            std::vector<std::string>{"L2H1"});
  const auto heads = request_of<HeadsRequest>(
      {{"model", "rope"}, {"corpus", true}, {"metrics", "entropy,sink"}, {"thumbnails", true}});
  EXPECT_EQ(heads.metrics, (std::vector<std::string>{"entropy", "sink"}));
  EXPECT_TRUE(heads.reading.corpus.asked);
  EXPECT_EQ(heads.thumbnails, 64);
  const auto shift = request_of<ShiftRequest>({{"model", "rope (yarn x2)"}, {"by", 3}});
  EXPECT_EQ(shift.models, std::vector<std::string>{"rope (yarn x2)"});
  EXPECT_EQ(shift.by, std::vector<std::int64_t>{3});
}

TEST(Request, RefusesNamesThatNoFieldHas) {
  const ErrorInfo error = refusal<MapRequest>({{"model", "rope"}, {"poool", "mean"}});
  EXPECT_EQ(error.code, "bad_usage");
  EXPECT_EQ(error.message, "map has no parameter \"poool\"");
  EXPECT_EQ(error.hint, "near: pool");
  // Of a word that is like none of them, all.
  const std::string all = refusal<MapRequest>({{"model", "rope"}, {"zzzz", 1}}).hint;
  EXPECT_TRUE(all.starts_with("known: model, ")) << all;
  const ErrorInfo within = refusal<MapRequest>({{"model", "rope"}, {"input", {{"txt", "a"}}}});
  EXPECT_EQ(within.message, "input has no parameter \"txt\"");
}

TEST(Request, RefusesValuesOfAnotherFormRangeOrChoiceByTheirName) {
  EXPECT_EQ(refusal<MapRequest>({{"top", 1.9}}).message, "expected a whole number but got 1.9");
  EXPECT_EQ(refusal<MapRequest>({{"top", 1.9}}).where, "top");
  EXPECT_EQ(refusal<MapRequest>({{"pool", "most"}}).message,
            "expected mean or max but got \"most\"");
  EXPECT_EQ(refusal<MapRequest>({{"size", {999999, 999999}}}).where, "size");
  EXPECT_EQ(refusal<MapRequest>({{"rows", {9, 3}}}).where, "rows");
  EXPECT_EQ(refusal<DistanceRequest>({{"pairs", 0}}).message,
            "expected a number from 1 to 1000000000 but got 0");
  EXPECT_EQ(refusal<ShiftRequest>({{"method", {"ids", "both"}}}).where, "method");
  EXPECT_EQ(refusal<HeadsRequest>({{"corpus", 3}}).where, "corpus");
  // It would stand for the bundled texts.
  EXPECT_EQ(refusal<HeadsRequest>({{"corpus", ""}}).where, "corpus");
  EXPECT_EQ(refusal<CompareRequest>(json::array()).message, "compare must be an object");
}

template <class R>
std::string refused_word(const std::string& key, const std::string& word) {
  R request;
  for (BoundField& field : detail::bound_fields(request)) {
    if (field.key != key) continue;
    try {
      field.parse(word);
    } catch (const RequestError& error) {
      return error.info().message;
    }
  }
  ADD_FAILURE() << key << " " << word << " was taken";
  return {};
}

TEST(Request, SaysANumberOutsideItsRangeAsItWasWritten) {
  const std::string range = "expected a number from 1 to 1000000000 but got ";
  EXPECT_EQ(refused_word<DistanceRequest>("pairs", "9223372036854775807"),
            range + "9223372036854775807");
  EXPECT_EQ(refusal<DistanceRequest>({{"pairs", 9223372036854775807}}).message,
            range + "9223372036854775807");
  EXPECT_EQ(refused_word<DistanceRequest>("pairs", "1.5"),
            "expected a whole number but got \"1.5\"");
}

// 2^64 - 1 in 64 bits with a sign is -1, which some fields take.
TEST(Request, ReadsNoNumberOfMoreDigitsThanAWholeNumberHas) {
  const std::string wanted = "expected a whole number of 64 bits but got ";
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(refusal<DistanceRequest>({{"pairs", most}}).message, wanted + "18446744073709551615");
  EXPECT_EQ(refusal<ShiftRequest>({{"by", {1, most}}}).message, wanted + "18446744073709551615");
  EXPECT_EQ(refusal<MapRequest>({{"rows", {0, most}}}).message, wanted + "18446744073709551615");
  EXPECT_EQ(refused_word<DistanceRequest>("pairs", "18446744073709551615"),
            wanted + "18446744073709551615");
  EXPECT_EQ(refused_word<ShiftRequest>("by", "1,99999999999999999999"),
            wanted + "99999999999999999999");
}

template <class T>
struct OneNumber {
  T number = 0;
  template <class V>
  void fields(V& v) {
    v("number", number);
  }
};

template <class T>
void expect_outside(const json& number) {
  EXPECT_THROW((from_json_form<OneNumber<T>>(json{{"number", number}})), std::invalid_argument)
      << number;
}

TEST(JsonForm, ReadsNoNumberThatItsTypeDoesNotHold) {
  expect_outside<int>(2147483648);
  expect_outside<int>(-2147483649);
  expect_outside<long>(9223372036854775808u);
  expect_outside<long>(1e20);
  expect_outside<unsigned long>(-1);
  const auto read = [](const json& j) { return from_json_form<OneNumber<long>>(j).number; };
  EXPECT_EQ(read({{"number", std::numeric_limits<std::int64_t>::min()}}),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read({{"number", 9223372036854775807u}}), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(read({{"number", 4.0}}), 4);
}

// What is named twice would be measured and drawn twice; compare may stand a model beside itself.
TEST(Request, NothingIsNamedTwice) {
  const ErrorInfo twice = refusal<ShiftRequest>({{"models", {"rope", "tape", "rope"}}});
  EXPECT_EQ(twice.message, "expected different names but got \"rope\" twice");
  EXPECT_EQ(twice.where, "models");
  EXPECT_EQ(request_of<CompareRequest>({{"models", {"rope", "rope"}}}).models.size(), 2u);
  EXPECT_EQ(refusal<TheoryRequest>({{"check", {"rope.lemma", "rope.lemma"}}}).where, "check");
}

// What is drawn by a seed below 0 would be that of another number.
TEST(Request, SeedsAreNotNegative) {
  EXPECT_EQ(refusal<ShiftRequest>({{"models", {"rope"}}, {"seed", -1}}).message,
            "expected a number at least 0 but got -1");
}

// 17.B15: what belongs to one task alone is refused by its name, also where it is as by default.
TEST(Request, RefusesWhatBelongsToAnother) {
  const json asked{{"task", "addition"}, {"models", {"m"}}, {"trials", 3}};
  EXPECT_EQ(params_of(request_of<EvalRequest>(asked)), asked);
  const json of_perplexity{{"window", "disjoint"},
                           {"metric", "perplexity"},
                           {"corpus", true},
                           {"input", {{"prompt", "a"}}}};
  for (const auto& [key, value] : of_perplexity.items()) {
    json with = asked;
    with[key] = value;
    EXPECT_NE(refusal<EvalRequest>(with).message.find("addition has no such option"),
              std::string::npos)
        << key;
    with["task"] = "perplexity";
    EXPECT_NO_THROW(request_of<EvalRequest>(with)) << key;
  }
  EvalRequest request{.task = "addition", .models = {"m"}};
  request.perplexity.window = "last_k:3";
  EXPECT_THROW(params_of(request), RequestError);
  EXPECT_EQ(fields_of<EvalRequest>().at(3).help.find("of perplexity: which tokens count"), 0u);
}

TEST(Request, WhatBelongsToTwoTasksIsTakenByBoth) {
  for (const char* task : {"needle", "needle_noise"}) {
    const json asked{{"task", task}, {"models", {"m"}}, {"generate", true}};
    EXPECT_EQ(params_of(request_of<EvalRequest>(asked)), asked) << task;
  }
  for (const char* task : {"perplexity", "passkey"}) {
    EXPECT_EQ(
        refusal<EvalRequest>({{"task", task}, {"models", {"m"}}, {"generate", false}}).message,
        "--generate is of the task needle or needle_noise alone; " + std::string(task) +
            " has no such option");
  }
}

TEST(Request, SaysItselfAsACommandLine) {
  MapRequest map{.model = "my model", .head = {"L2H1"}};
  map.rows = Range{100, 200};
  map.size = {64, 32};
  map.reading.input = {.prompt = "it's", .name = "prompt"};
  map.running.set.list = {"encoding.scaling=yarn", "encoding.factor=2"};
  EXPECT_EQ(command_line(map),
            "phasescope map 'my model' --prompt 'it'\\''s' --set encoding.scaling=yarn --set "
            "encoding.factor=2 --head L2H1 --rows 100:200 --size 64x32");
  EXPECT_EQ(command_line(MapRequest{.model = "rope", .head = {"L0H1", "L2"}}),
            "phasescope map rope --head L0H1,L2");
  ShiftRequest shift{.models = {"rope", "rope (yarn x2)"}};
  shift.by = {1, 5};
  EXPECT_EQ(command_line(shift), "phasescope shift rope 'rope (yarn x2)' --by 1,5");
  HeadsRequest heads{.model = "rope", .thumbnails = 64};  // which the command line always asks for
  heads.reading.corpus.asked = true;
  EXPECT_EQ(command_line(heads), "phasescope heads rope --corpus");
}

TEST(Request, PutsWordsThatBeginWithADashBehindTheirOption) {
  MapRequest map{.model = "rope"};
  map.reading.input.prompt = "--json";
  EXPECT_EQ(command_line(map), "phasescope map rope --prompt=--json");
}

// What is no UTF-8 is in no line of JSON, and a POSIX shell makes it again.
TEST(Request, WritesAPromptOfAnyBytesAsPrintfMakesThem) {
  MapRequest map{.model = "rope"};
  map.reading.input.base64 = formats::base64_of("\xff'a");
  map.reading.input.name = kNameOfPromptBytes;
  EXPECT_EQ(command_line(map), R"sh(phasescope map rope --prompt "$(printf '\377\047\141')")sh");
}

TEST(Request, CutsWordsAtCommasOutsideParentheses) {
  EXPECT_EQ(split_words("rope (scaling=yarn, factor=2),tapa,"),
            (std::vector<std::string>{"rope (scaling=yarn, factor=2)", "tapa"}));
}

TEST(Request, DescribesItsFieldsForThePageOfMethods) {
  const std::string page =
      page_of({{"map", "the attention map of a head", fields_of<MapRequest>()}});
  EXPECT_NE(
      page.find("| `pool` | a word | `\"mean\"` | how a cell's pairs are pooled: mean or max |"),
      std::string::npos)
      << page;
}

}  // namespace
}  // namespace phasescope::protocol
