// Starts of jobs in one folder at the same time, and requests before the first step.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "model/checkpoints/open_model.h"
#include "protocol/model_reading.h"
#include "protocol/request.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/evals/eval_task.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"
#include "training/start/start_model.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

class JobStarts : public testing::Test {
 protected:
  JobStarts() {
    setenv("XDG_DATA_HOME", (folder_.path() / "data").c_str(), 1);
    setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
  }
  ~JobStarts() override { unsetenv("XDG_CACHE_HOME"); }

  // No process is started: a launcher would.
  JobStart launched(const fs::path& dir, std::int64_t steps) const {
    JobStart start;
    start.dir = dir, start.launched = true;
    start.config = to_json(small_run(folder_.path(), steps));
    return start;
  }

  TemporaryFolder folder_;
  formats::FileSystem& files_ = formats::real_file_system();
};

// All look into the empty folder before any has written; one job is there in the end, as its
// starter asked for it, and every other starter knows that it has none.
TEST_F(JobStarts, OfManyAtOnceOneHasTheFolder_Risk12) {
  constexpr std::size_t kStarts = 6;
  const fs::path dir = folder_.path() / "j";
  std::vector<JobStart> starts;
  for (std::size_t n = 0; n < kStarts; ++n) {
    starts.push_back(launched(dir, 100 + static_cast<std::int64_t>(n)));
  }
  std::vector<std::string> said(kStarts);
  std::barrier ready(static_cast<std::ptrdiff_t>(kStarts));
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < kStarts; ++n) {
    threads.emplace_back([&, n] {
      ready.arrive_and_wait();
      try {
        start_training(files_, starts[n]);
      } catch (const formats::Error& error) {
        said[n] = error.code() + ": " + error.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(std::ranges::count(said, ""), 1);
  const auto winner = std::ranges::find(said, "") - said.begin();
  EXPECT_EQ(formats::json_from_file(dir / job_file::config).at("train").at("steps"), 100 + winner);
  for (const std::string& one : said) {
    if (!one.empty()) {
      EXPECT_TRUE(one.starts_with("bad_usage: ")) << one;
    }
  }
}

// A folder that somebody works in is not written into.
TEST_F(JobStarts, AFolderInUseIsLeftAsItIs) {
  const fs::path dir = folder_.path() / "j";
  fs::create_directories(dir);
  const auto lock = JobLock::try_take(dir);
  ASSERT_TRUE(lock);
  EXPECT_THROW(start_training(files_, launched(dir, 5)), formats::Error);
  JobStart eval;
  eval.dir = dir;
  EXPECT_THROW(start_eval(files_, eval, {{"task", "perplexity"}, {"models", {"rope"}}}),
               formats::Error);
  EXPECT_FALSE(fs::exists(dir / job_file::config));
  EXPECT_FALSE(fs::exists(dir / job_file::status));
}

// A large text is hashed and cut for minutes or hours: who cancels need not wait for the first
// step.
TEST_F(JobStarts, ACancelIsObeyedWhileATextIsPrepared) {
  RunConfig config = small_run(folder_.path(), 5);
  fs::create_directories(folder_.path() / "texts");
  std::ofstream(folder_.path() / "texts/a.txt") << small_text();
  config.data.corpus = (folder_.path() / "texts").string();
  const fs::path dir = folder_.path() / "j";
  fs::create_directories(dir);
  std::ofstream(dir / job_file::config) << to_json(config);
  protocol::JobStatus status;
  status.state = "queued";
  write_status(files_, dir, status);
  write_request(files_, dir, JobRequest::cancel);
  EXPECT_EQ(run_job(dir), 130);
  EXPECT_EQ(read_job(dir, CurveDetail::none).state, "cancelled");
  EXPECT_FALSE(fs::exists(folder_.path() / "cache/phasescope/tokens"));
  clear_request(files_, dir);
  EXPECT_EQ(run_job(dir), 0) << log_tail(dir, 5);
}

// What stands in a job's config.json may have been changed, and what it names may be gone: a resume
// that starts nothing of use says so, and starts nothing.
TEST_F(JobStarts, AResumeOfWhatCannotBeUsedSaysWhy) {
  const fs::path dir = folder_.path() / "j", nothing = folder_.path() / "nothing";
  protocol::JobStatus status = start_training(files_, launched(dir, 5));
  status.state = "failed", status.message = "as it was";
  write_status(files_, dir, status);
  const nlohmann::json whole = formats::json_from_file(dir / job_file::config);
  const auto told = [&](const nlohmann::json& config) -> std::string {
    std::ofstream(dir / job_file::config) << config;
    try {
      control_job(files_, dir, "resume", nothing);
    } catch (const formats::Error& error) {
      EXPECT_EQ(read_job(dir, CurveDetail::none).message, "as it was") << error.full_text();
      return error.code() + ": " + error.full_text();
    }
    return "";
  };
  const auto with = [&whole](const char* key, const nlohmann::json& value) {
    nlohmann::json config = whole;
    config[nlohmann::json::json_pointer(key)] = value;
    return config;
  };
  const std::string unknown = told(with("/train/stepz", 3));
  EXPECT_TRUE(unknown.starts_with("bad_input: ") && unknown.find("train.stepz") != unknown.npos)
      << unknown;
  EXPECT_TRUE(told(with("/encoding/key", "ropes")).starts_with("bad_input: "));
  EXPECT_NE(told(with("/data/corpus", "/missing.txt")).find("/missing.txt"), std::string::npos);
  EXPECT_TRUE(told(with("/train/device", "cuda:99")).starts_with("device_unavailable: "));
  EXPECT_TRUE(told(nlohmann::json::array()).starts_with("bad_input: "));
  const nlohmann::json eval = {{"task", "nosuch"}, {"models", {"rope"}}, {"folder", "/"}};
  EXPECT_NE(told({{"eval_job", eval}}).find("no such task"), std::string::npos);
  const nlohmann::json gone = {
      {"task", "perplexity"}, {"models", {"not/there"}}, {"folder", "/nowhere"}};
  EXPECT_NE(told({{"eval_job", gone}}).find("/nowhere/not/there"), std::string::npos);
  nlohmann::json number = gone;
  number["folder"] = 5;
  const std::string no_folder = told({{"eval_job", number}});
  EXPECT_TRUE(no_folder.starts_with("bad_input: ") &&
              no_folder.find("eval_job.folder") != no_folder.npos)
      << no_folder;
  EXPECT_EQ(run_job(dir), 2);  // its process says the same
  EXPECT_NE(read_job(dir, CurveDetail::none).message.find("eval_job.folder"), std::string::npos);
}

// A process that comes to no step of its own: what it left in the folder is told.
TEST_F(JobStarts, AResumeWhoseProcessEndsAtOnceSaysWhy) {
  const fs::path dir = folder_.path() / "j", program = folder_.path() / "program";
  protocol::JobStatus status = start_training(files_, launched(dir, 5));
  const auto told = [&](protocol::JobStatus left) -> std::string {
    status.state = "cancelled";
    write_status(files_, dir, status);
    // The program puts what it says last in place of the state, as a job's process does.
    const fs::path other = folder_.path() / "other";
    fs::create_directories(other);
    write_status(files_, other, left);
    std::ofstream(program) << "#!/bin/sh\nmv " << (other / job_file::status)
                           << " \"$2/status.json\"\n";
    fs::permissions(program, fs::perms::owner_all);
    try {
      control_job(files_, dir, "resume", program);
    } catch (const formats::Error& error) {
      return error.code() + ": " + error.full_text();
    }
    return "";
  };
  protocol::JobStatus left = status;
  left.state = "failed", left.message = "no room for a step", left.code = "out_of_memory";
  EXPECT_TRUE(told(left).starts_with("out_of_memory: no room for a step")) << told(left);
  left.code.reset();
  EXPECT_TRUE(told(left).starts_with("internal: no room for a step")) << told(left);
  left.state = "running", left.message = "";
  EXPECT_TRUE(told(left).starts_with("internal: the job's process ended before it began"))
      << told(left);
}

// What an eval cannot do is known before the models are: a sweep asks before it trains them.
TEST_F(JobStarts, AnEvalIsLookedAtWithoutItsModels) {
  const auto told = [](const nlohmann::json& asked) -> std::string {
    try {
      check_eval(asked);
    } catch (const formats::Error& error) {
      return error.code() + ": " + error.full_text();
    }
    return "";
  };
  constexpr std::int64_t kLongest = std::int64_t{1} << 24;  // windows of perplexity
  EXPECT_EQ(told({{"task", "perplexity"}, {"lengths", {16, kLongest}}}), "");
  const std::string longer = told({{"task", "perplexity"}, {"lengths", {16, kLongest + 1}}});
  EXPECT_TRUE(longer.starts_with("bad_usage: a window has 16777216 tokens at most, not 16777217"))
      << longer;
  EXPECT_NE(told({{"task", "perplexity"}, {"window", "slides:3"}}).find("no such window rule"),
            std::string::npos);
  EXPECT_EQ(told({{"task", "addition"}, {"lengths", {6}}}), "");
  for (const nlohmann::json& none :
       {nlohmann::json(), nlohmann::json(5), nlohmann::json("x"), nlohmann::json::array()}) {
    EXPECT_TRUE(told(none).starts_with("bad_input: an eval is an object, not ")) << told(none);
  }
  EXPECT_EQ(told({{"task", "addition"}}), "");
  const std::string no_length = told({{"task", "addition"}, {"lengths", {5000}}});
  EXPECT_NE(no_length.find("a length of addition"), std::string::npos) << no_length;
  EXPECT_TRUE(no_length.ends_with("(lengths)")) << no_length;  // the request's field
  JobStart start;
  start.dir = folder_.path() / "eval";
  EXPECT_THROW(
      start_eval(files_, start,
                 {{"task", "perplexity"}, {"models", {"rope"}}, {"lengths", {kLongest + 1}}}),
      formats::Error);
  EXPECT_THROW(start_eval(files_, start, {{"task", "perplexity"}, {"models", {"not/there"}}}),
               formats::Error);
  EXPECT_FALSE(fs::exists(start.dir));
}

// Without a folder that would hold a configuration which no resume can use.
TEST_F(JobStarts, ATrainingOfTensorsThatAreNotThereIsRefused) {
  for (const char* key : {"train", "freeze", "lora"}) {
    JobStart start = launched(folder_.path() / key, 1);
    start.config = {{"start",
                     {{"model", "rope"},
                      {"lora_rank", std::string(key) == "lora" ? 2 : 0},
                      {key, {"*.mlp.*", "*embedding*"}}}},
                    {"data", {{"corpus", start.config.at("data").at("corpus")}}},
                    {"eval", {{"every", 0}}}};
    try {
      start_training(files_, start);
      ADD_FAILURE() << key;
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.where(), std::string("start.") + key);
      EXPECT_NE(error.message().find(" of the model is called \"*embedding*\""), std::string::npos)
          << error.message();
    }
    EXPECT_FALSE(fs::exists(start.dir)) << key;
  }
}

// `train --resume` of an eval's folder: it is no configuration with a key too many.
TEST_F(JobStarts, AnEvalIsNotResumedAsATraining) {
  JobStart start;
  start.dir = folder_.path() / "eval", start.existing = ExistingJob::resume;
  fs::create_directories(start.dir);
  std::ofstream(start.dir / job_file::config)
      << R"({"eval_job": {"task": "perplexity", "models": ["rope"]}})";
  try {
    start_training(files_, start);
    ADD_FAILURE();
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.message(), "the folder holds an eval, which is no training");
    EXPECT_EQ(error.code(), "bad_usage");
  }
  EXPECT_FALSE(fs::exists(start.dir / job_file::status));
}

// What the same eval says in the foreground, with its models open.
std::string said_in_the_foreground(const nlohmann::json& asked) {
  const auto request = protocol::request_of<protocol::EvalRequest>(asked);
  protocol::NoProgress progress;
  NoEvalLog log;
  try {
    std::vector<EvalModel> models;
    for (const std::string& name : request.models) {
      const protocol::ModelReading reading = protocol::model_reading(name);
      models.push_back({name, model::open_model(reading.model, {.overrides = reading.settings})});
    }
    eval_task(request.task).run(models, request, progress, log);
  } catch (const formats::Error& error) {
    return error.code() + ": " + error.full_text();
  }
  return "";
}

// A model of files whose tokenizer lies beside it, as other libraries have it.
std::string model_with_a_tokenizer(const fs::path& folder) {
  fs::create_directories(folder);
  fs::copy_file(
      fs::path(PHASESCOPE_SOURCE) / "tests/data/hf/tokenizers/llama3_bytelevel/tokenizer.json",
      folder / "tokenizer.json");
  model::ModelConfig config = model_config_of(small_run(folder.parent_path(), 1));
  config.tokenizer = nullptr, config.vocab_size = 600;
  const auto drawn = model::random_model(config, 1);
  model::save_model(formats::real_file_system(), folder, config, drawn->encoding(),
                    drawn->decoder.weights());
  return folder.string();
}

// There is no job whose log alone would say it.
TEST_F(JobStarts, AnEvalThatCannotSuitItsModelsIsRefusedInTheForegroundsWords) {
  JobStart start;
  start.dir = folder_.path() / "eval";
  start.program = folder_.path() / "nothing";
  const auto told = [&](const nlohmann::json& asked) -> std::string {
    try {
      start_eval(files_, start, asked);
    } catch (const formats::Error& error) {
      return error.code() + ": " + error.full_text();
    }
    return "";
  };
  const std::string gone = (folder_.path() / "gone").string();
  const std::string empty = (folder_.path() / "empty").string();
  fs::create_directories(empty);
  const std::string broken = (folder_.path() / "broken.jsonl").string();
  std::ofstream(broken) << "{\"text\": 1}\n";
  const std::string blank = (folder_.path() / "blank.jsonl").string();
  std::ofstream(blank) << "\n";
  const std::string shorter = (folder_.path() / "shorter.jsonl").string();
  std::ofstream(shorter) << "{\"text\": \"a text\"}\n{\"text\": \"another text\"}\n";
  const std::string with_tokenizer = model_with_a_tokenizer(folder_.path() / "beside");
  const auto perplexity = [](const std::string& model, const std::string& corpus) {
    return nlohmann::json{
        {"task", "perplexity"}, {"models", {model}}, {"lengths", {16}}, {"corpus", corpus}};
  };
  for (const nlohmann::json& asked : std::vector<nlohmann::json>{
           {{"task", "addition"}, {"models", {"rope"}}, {"lengths", {6}}},
           {{"task", "copy"}, {"models", {"alibi", "rope"}}, {"lengths", {6}}},
           {{"task", "passkey"}, {"models", {"not/there"}}, {"lengths", {64}}},
           {{"task", "passkey"}, {"models", {"rope (nosuch=1)"}}, {"lengths", {64}}},
           perplexity("rope", gone),
           perplexity("rope", gone + ".jsonl"),
           perplexity("rope", empty),
           perplexity("rope", broken),
           perplexity("rope", blank),
           perplexity("rope", shorter),
           perplexity(with_tokenizer, shorter),
           {{"task", "perplexity"},
            {"models", {"rope"}},
            {"lengths", {16}},
            {"input", {{"text", "short"}}}},
           {{"task", "perplexity"}, {"models", {"proof-sink"}}, {"lengths", {100'000}}},
           {{"task", "passkey"}, {"models", {"rope"}}}}) {
    const std::string wanted = said_in_the_foreground(asked);
    EXPECT_NE(wanted, "") << asked;
    EXPECT_EQ(told(asked), wanted) << asked;
    EXPECT_FALSE(fs::exists(start.dir)) << asked;
  }
  // Settings of all models are looked at too; without a name of their own they are fields.
  const nlohmann::json of_all = {
      {"task", "passkey"}, {"models", {"rope"}}, {"lengths", {64}}, {"set", {"nosuch=1"}}};
  EXPECT_EQ(told(of_all), "bad_usage: \"nosuch\" is no field of this model (--set)");
  // A constructed model has no files, and what suits is only kept from running by the program.
  for (const char* model : {"proof-copy7", "rope (yarn x2)"}) {
    start.dir = folder_.path() / model;
    const nlohmann::json asked = {{"task", "perplexity"}, {"models", {model}}, {"lengths", {16}}};
    EXPECT_TRUE(told(asked).starts_with("internal: the job's process cannot be started"))
        << told(asked);
  }
}

}  // namespace
}  // namespace phasescope::training
