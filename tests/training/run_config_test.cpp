#include "training/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "formats/error.h"

namespace phasescope::training {
namespace {

using nlohmann::json;

std::string problem_with(const json& config) {
  try {
    run_config_from_json(config, "test.json");
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_EQ(error.where(), "test.json");
    return error.full_text();
  }
  return "";
}

TEST(RunConfig, KeepsEverythingThroughItsJsonForm) {
  RunConfig config;
  config.model.layers = 7;
  config.encoding = {{"key", "tapa"}, {"phase_gain", 0.1}};
  config.train.curriculum = {{16, 0.25}, {32, 0.5}};
  config.train.keep_steps = {5, 9};
  config.data.corpus = "a.txt";
  const json form = to_json(config);
  EXPECT_EQ(to_json(run_config_from_json(form, "form")), form);
  EXPECT_EQ(run_config_from_json(form, "form").train.curriculum, config.train.curriculum);
}

TEST(RunConfig, WhatIsLeftOutTakesItsDefault) {
  const RunConfig config = run_config_from_json({{"train", {{"steps", 12}}}}, "test.json");
  EXPECT_EQ(config.train.steps, 12);
  EXPECT_EQ(config.train.batch_tokens, RunConfig{}.train.batch_tokens);
  EXPECT_EQ(config.encoding.at("key"), "rope");
}

TEST(RunConfig, FixedNamesAreThere) {
  const auto keys = known_keys();
  for (const char* name : {"train.steps", "train.checkpoint_every", "train.seed",
                           "train.batch_tokens", "model.context", "encoding.key"}) {
    EXPECT_NE(std::find(keys.begin(), keys.end(), name), keys.end()) << name;
  }
}

// A form has every key that --set takes but the options of encodings, with what its list says.
TEST(RunConfig, AFormHasEveryFieldWithItsRangeAndValue) {
  const auto fields = fields_of_config({{"train", {{"steps", 12}}}});
  std::set<std::string> keys{"encoding.key"};
  for (const auto& field : fields) {
    keys.insert(field.key);
    EXPECT_FALSE(field.help.empty()) << field.key;
    if (field.key == "train.steps") {
      EXPECT_EQ(field.value, 12);
      EXPECT_EQ(field.fallback, RunConfig{}.train.steps);
      EXPECT_EQ(field.low, 1);
    }
    if (field.key == "train.dtype") {
      EXPECT_EQ(field.choices, (std::vector<std::string>{"f32", "bf16"}));
    }
  }
  const auto known = known_keys();
  EXPECT_EQ(keys, std::set<std::string>(known.begin(), known.end()));
}

TEST(RunConfig, WhatAFieldDoesNotTakeIsSaid) {
  const auto says = [](const char* section, const json& values, const std::string& words) {
    EXPECT_NE(problem_with({{section, values}}).find(words), std::string::npos) << values;
  };
  says("train", {{"steps", 0}}, "must be at least 1");
  says("train", {{"keep_steps", {5, -3}}}, "train.keep_steps[1]: must be at least 1");
  says("train", {{"threads", -1}}, "must be 0 to 1024");
  says("train", {{"batch_tokens", 1e15}}, "must be 1 to 100000000");
  says("eval", {{"windows", 1e12}}, "must be 1 to 1000000");
  says("train", {{"final_share", 1.5}}, "must be 0 to 1");
  says("train", {{"dtype", "f16"}}, "must be f32 or bf16");
  says("train", {{"backend", "best"}}, "must be auto, fused, plain or cuda-unverified");
  says("model", {{"layers", 20000}}, "must be 1 to 10000");
  says("model", {{"heads", 0}}, "must be at least 1");
  says("model", {{"width", 190}}, "must be a multiple of model.heads");
  says("positions", {{"map", "mirrored"}},
       "must be identity, shift, interpolate, random or random_by_layer");
}

// Sums in any order are asked for by name, for the CUDA kernels alone, and never by default.
TEST(RunConfig, AtomicSumsAreChosenAndSaidWhereTheyChangeNothing) {
  EXPECT_FALSE(run_config_from_json(json::object(), "test.json").train.atomic_dq);
  EXPECT_FALSE(with_defaults({{"train", {{"steps", 3}}}}).at("train").at("atomic_dq"));
  json config = json::object();
  apply_setting(config, "train.atomic_dq=true");
  const TrainSection chosen = run_config_from_json(config, "test.json").train;
  EXPECT_TRUE(chosen.atomic_dq);
  EXPECT_NE(problem_with({{"train", {{"atomic_dq", "always"}}}}).find("train.atomic_dq"),
            std::string::npos);
  EXPECT_NE(problem_with({{"train", {{"atomicdq", true}}}}).find("near: train.atomic_dq"),
            std::string::npos);
  EXPECT_EQ(differing_keys(to_json(RunConfig{}), to_json(RunConfig{.train = chosen})),
            (std::vector<std::string>{"train.atomic_dq"}));

  const auto note = [](const char* device, const char* backend, bool atomic = true) {
    TrainSection train;
    train.device = device, train.backend = backend, train.atomic_dq = atomic;
    return note_of_atomic_dq(train);
  };
  for (const char* backend : {"auto", "fused", "plain"}) {
    EXPECT_EQ(note("cpu", backend).find("train.atomic_dq changes nothing here"), 0u) << backend;
    EXPECT_EQ(note("cpu", backend, false), "") << backend;
  }
  EXPECT_NE(note("cuda:1", "plain"), "");
  EXPECT_EQ(note("cuda:1", "auto"), "");
  EXPECT_EQ(note("cpu", "cuda-unverified"), "");
}

TEST(RunConfig, AnUnknownKeyNamesTheNearOnes) {
  EXPECT_NE(problem_with({{"train", {{"step", 3}}}}).find("train.steps"), std::string::npos);
  EXPECT_NE(problem_with({{"train", {{"batchtokens", 3}}}}).find("train.batch_tokens"),
            std::string::npos);
  // The right name in the wrong section.
  EXPECT_NE(problem_with({{"train", {{"context", 3}}}}).find("model.context"), std::string::npos);
  EXPECT_NE(problem_with({{"trian", json::object()}}).find("trian"), std::string::npos);
  // What a step of text has stands before what a step of a task has.
  EXPECT_NE(problem_with({{"train", {{"batch", 2}}}}).find("near: train.batch_tokens, task.batch"),
            std::string::npos);
}

// A way out is a setting that is taken: an empty list, and the whole list where one is too long.
TEST(RunConfig, ACurriculumThatDoesNotFitSaysWhatHelps) {
  const json shorter = {{"model", {{"context", 64}}},
                        {"train", {{"curriculum", {{{"length", 128}, {"share", 0.5}}}}}}};
  const std::string text = problem_with(shorter);
  EXPECT_NE(text.find("a length of 128 must be 1 to model.context, 64"), std::string::npos) << text;
  EXPECT_NE(text.find("train.curriculum=[]"), std::string::npos) << text;
  json helped = shorter;
  apply_setting(helped, "train.curriculum=[]");
  EXPECT_TRUE(run_config_from_json(helped, "test.json").train.curriculum.empty());
}

TEST(RunConfig, AllProblemsAreListedAtOnce) {
  const std::string text =
      problem_with({{"train", {{"steps", "many"}, {"seeed", 1}}}, {"model", {{"width", 1.5}}}});
  EXPECT_NE(text.find("train.steps"), std::string::npos);
  EXPECT_NE(text.find("train.seeed"), std::string::npos);
  EXPECT_NE(text.find("model.width"), std::string::npos);
}

TEST(RunConfig, ValuesOutOfRangeAreProblems) {
  EXPECT_NE(problem_with({{"train", {{"steps", 0}}}}).find("train.steps"), std::string::npos);
  EXPECT_NE(problem_with({{"model", {{"width", 190}}}}).find("model.width"), std::string::npos);
  EXPECT_NE(problem_with({{"train", {{"dtype", "f64"}}}}).find("train.dtype"), std::string::npos);
  const json too_much = {{{"length", 16}, {"share", 0.7}}, {{"length", 32}, {"share", 0.5}}};
  EXPECT_NE(problem_with({{"train", {{"curriculum", too_much}}}}).find("train.curriculum"),
            std::string::npos);
  const json too_long = {{{"length", 512}, {"share", 0.5}}};
  EXPECT_NE(problem_with({{"train", {{"curriculum", too_long}}}}).find("train.curriculum"),
            std::string::npos);
}

// As a variable of a shell leaves it that is not set: no file has that name, and none is meant.
TEST(RunConfig, AnEmptyNameOfATextIsAProblemOfItsKey) {
  for (const char* key : {"corpus", "validation"}) {
    const std::string text = problem_with({{"data", {{key, ""}}}});
    EXPECT_NE(text.find(std::string("data.") + key + ": must name "), std::string::npos) << text;
  }
}

// What 64 bits do not hold would be another number: 1e19 and 2^63 are below 0 there, and 2^53 + 1
// is no double.
TEST(RunConfig, WholeNumbersThatAreNotHeldAreProblems) {
  const auto seeded = [](const char* number) {
    return json{{"train", {{"seed", json::parse(number)}}}};
  };
  for (const char* number : {"1e19", "-1e19", "1e300", "9223372036854775808", "9007199254740994.0",
                             "18446744073709551615"}) {
    EXPECT_NE(problem_with(seeded(number)).find("train.seed: expected a whole number of at most"),
              std::string::npos)
        << number;
  }
  EXPECT_NE(problem_with(seeded("1.5")).find("expected a whole number but"), std::string::npos);
  const auto seed = [&](const char* number) {
    return run_config_from_json(seeded(number), "test.json").train.seed;
  };
  EXPECT_EQ(seed("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(seed("0"), 0);
  EXPECT_EQ(seed("2e3"), 2000);
  EXPECT_EQ(seed("9007199254740992.0"), std::int64_t{1} << 53);
}

// As those of every verb are: an unsigned number is made of them.
TEST(RunConfig, SeedsAreNotBelowZero) {
  for (const char* section : {"train", "positions"}) {
    const std::string text = problem_with({{section, {{"seed", -1}}}});
    EXPECT_NE(text.find(std::string(section) + ".seed: must be 0 or more"), std::string::npos)
        << text;
  }
}

// A step cannot be read in more parts than it has rows.
TEST(RunConfig, PartsOfAStepAreNoMoreThanItsRows) {
  const auto of_text = [](int parts) {
    return json{{"model", {{"context", 64}}},
                {"train", {{"batch_tokens", 300}, {"accumulate", parts}}}};
  };
  EXPECT_EQ(run_config_from_json(of_text(4), "test.json").train.accumulate, 4);
  const std::string text = problem_with(of_text(5));
  EXPECT_NE(text.find("train.accumulate: must be at most 4, the rows of a step"), std::string::npos)
      << text;
  const json config = {{"model", {{"vocab_size", 19}}},
                       {"task", {{"name", "addition"}, {"batch", 3}}},
                       {"train", {{"accumulate", 4}}}};
  const std::string of_task = problem_with(config);
  EXPECT_NE(of_task.find("train.accumulate: must be at most 3, the rows of a step"),
            std::string::npos)
      << of_task;
}

// Which of its kind a device was says nothing of the bits, and ties no resume to it.
TEST(RunConfig, ACheckpointNotesTheKindOfADevice) {
  const auto noted = [](const char* device) {
    const json whole = as_noted({{"train", {{"device", device}}}});
    EXPECT_EQ(whole.at("train").at("steps"), RunConfig{}.train.steps);
    return whole.at("train").at("device").get<std::string>();
  };
  EXPECT_EQ(noted("cuda:1"), "cuda");
  EXPECT_EQ(noted("cuda"), "cuda");
  EXPECT_EQ(noted("cpu"), "cpu");
}

TEST(RunConfig, SettingsAddressKeysByTheirDots) {
  json config = json::object();
  apply_setting(config, "train.steps=200");
  apply_setting(config, "train.learning_rate=1e-3");
  apply_setting(config, "encoding.phase_gain=0.2");
  apply_setting(config, "encoding.key=tapa");
  apply_setting(config, "train.curriculum=[{\"length\":16,\"share\":0.5}]");
  const RunConfig read = run_config_from_json(config, "test.json");
  EXPECT_EQ(read.train.steps, 200);
  EXPECT_DOUBLE_EQ(read.train.learning_rate, 1e-3);
  EXPECT_EQ(read.encoding, (json{{"key", "tapa"}, {"phase_gain", 0.2}}));
  ASSERT_EQ(read.train.curriculum.size(), 1u);
}

TEST(RunConfig, ASettingThatIsNotInTheSchemaIsAnError) {
  json config = json::object();
  for (const char* setting : {"train.stepz=3", "steps", "=3", "nosuch.key=1", "train=3"}) {
    try {
      apply_setting(config, setting);
      ADD_FAILURE() << setting;
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_usage") << setting;
    }
  }
  EXPECT_TRUE(config.empty());
}

TEST(RunConfig, DifferingKeysAreNamed) {
  RunConfig a, b;
  b.train.steps = 9;
  b.encoding["phase_gain"] = 0.1;
  EXPECT_EQ(differing_keys(to_json(a), to_json(b)),
            (std::vector<std::string>{"encoding.phase_gain", "train.steps"}));
  EXPECT_TRUE(differing_keys(to_json(a), to_json(a)).empty());
}

}  // namespace
}  // namespace phasescope::training
