#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "formats/error.h"
#include "formats/gathered_errors.h"
#include "formats/json.h"
#include "model/checkpoints/config_without_weights.h"
#include "model/checkpoints/constructed.h"
#include "model/checkpoints/open_model.h"
#include "model/devices.h"
#include "model/settings.h"
#include "protocol/model_reading.h"
#include "protocol/request.h"
#include "protocol/spawn.h"
#include "training/checkpoint.h"
#include "training/corpus.h"
#include "training/evals/eval_task.h"
#include "training/head_probe.h"
#include "training/jobs/asked_eval.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"
#include "training/start/start_model.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::JobStatus;

constexpr std::chrono::seconds kStartLimit{20};

// The worker that runs the job takes its lock when it is up; one that cannot start ends before.
JobStatus wait_until_running(const fs::path& dir) {
  const auto limit = std::chrono::steady_clock::now() + kStartLimit;
  while (std::chrono::steady_clock::now() < limit) {
    JobStatus status = read_job(dir, CurveDetail::none);
    if (status.state != "queued") return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  JobStatus status = read_job(dir, CurveDetail::none);
  status.message = "the job's process has not begun yet; see log.txt";
  return status;
}

// A process that was just killed has its folder for a moment more.
bool dies_now(const fs::path& dir) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (!job_is_alive(dir)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// The folder says that its process is to come, and is found again wherever it lies.
JobStatus queued(formats::FileSystem& files, const fs::path& dir, const std::string& kind,
                 std::int64_t steps) {
  clear_request(files, dir);
  JobStatus status;
  status.dir = fs::absolute(dir).string();
  status.name = fs::absolute(dir).filename().string();
  status.kind = kind;
  status.state = "queued";
  status.steps = steps;
  write_status(files, dir, status);
  remember_job(files, dir);
  return status;
}

// The process of a job that is queued.
JobStatus process_begun(const fs::path& dir, const fs::path& program) {
  const std::string folder = fs::absolute(dir).string();
  try {
    protocol::start_detached({program.string(), kJobArgument, folder}, dir / job_file::log);
  } catch (const std::system_error& error) {
    throw formats::internal_error("the job's process cannot be started: " + error.code().message(),
                                  program.string());
  }
  return wait_until_running(dir);
}

JobStatus launch(formats::FileSystem& files, const fs::path& dir, const std::string& kind,
                 std::int64_t steps, const fs::path& program) {
  queued(files, dir, kind, steps);
  return process_begun(dir, program);
}

void write_config(formats::FileSystem& files, const fs::path& dir, const json& config) {
  formats::write_file_atomically(files, dir / job_file::config, config.dump(1) + "\n");
}

// Nobody else makes a job of the folder while `work` does: of two that start there at once one
// comes too late.
template <class Function>
void alone_in(formats::FileSystem& files, const fs::path& dir, Function&& work) {
  formats::make_directories(files, dir);
  const std::optional<JobLock> lock = JobLock::try_take(dir);
  if (!lock) throw folder_in_use(dir);
  work();
}

// The folder of a job that is not started, unless another one has it meanwhile.
void prepare(formats::FileSystem& files, const fs::path& dir, const json& config) {
  alone_in(files, dir, [&] {
    if (!fs::exists(dir / job_file::config)) write_config(files, dir, config);
  });
}

// Paths of a configuration are meant from where the job was started.
void make_paths_absolute(RunConfig& config) {
  for (std::string* path : {&config.data.corpus, &config.data.validation}) {
    if (*path != "desk" && !path->empty()) *path = fs::absolute(*path).string();
  }
  std::string& tokenizer = config.data.tokenizer;
  if (!tokenizer.empty()) tokenizer = fs::absolute(tokenizer).lexically_normal().string();
  // A name that is no path is a bundled model's.
  std::string& model = config.start.model;
  if (!model.empty() && fs::exists(model)) model = fs::absolute(model).lexically_normal().string();
}

RunConfig config_to_start(const JobStart& start) {
  json given = start.config;
  formats::GatheredErrors errors;
  for (const std::string& setting : start.settings) {
    errors.run([&] { apply_setting(given, setting); });
  }
  errors.throw_if_any("settings");
  RunConfig config = run_config_from_json(filled_in_from_model(given), "the run configuration");
  make_paths_absolute(config);
  check_patterns(config.start, model_config_of(config));  // sizes and options of the encoding too
  check_probe(config.eval);
  if (!config.from_model()) text_tokenizer(config, nullptr);
  // A missing text, or samples that do not fit, are said here, not in a log.
  if (!config.of_text()) {
    TaskData{config};
    return config;
  }
  if (config.data.corpus != "desk" && !config.from_model()) {
    check_corpus(config.data.corpus, config.model.context);
  }
  if (config.data.validation != "desk") {
    read_validation_texts(config.data.validation, config.model.context);
  }
  return config;
}

// Settings for all models become part of their names, and paths are kept as they are meant here.
json eval_to_start(protocol::EvalRequest request) {
  eval_task(request.task).check(request);
  if (request.models.empty()) {
    throw formats::bad_usage("an eval needs at least one model", "models");
  }
  model::dtype_to_compute_in(request.running.dtype, at::kCPU, "");
  for (const std::string& setting : std::exchange(request.running.set.list, {})) {
    const std::size_t equals = setting.find('=');
    if (equals == setting.npos) throw formats::bad_usage("a setting is key=value", setting);
    for (std::string& name : request.models) {
      protocol::ModelReading reading = protocol::model_reading(name);
      reading.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
      name = protocol::name_of(reading);
    }
  }
  std::string& corpus = request.perplexity.corpus.path;
  if (!corpus.empty() && corpus != "desk") corpus = fs::absolute(corpus).lexically_normal();
  json asked = protocol::params_of(request);
  asked["folder"] = fs::current_path().string();
  return asked;
}

std::string in_words(const std::vector<std::string>& keys) {
  std::string list;
  for (const std::string& key : keys) list += (list.empty() ? "" : ", ") + key;
  return list;
}

// Keys in which a configuration that is given differs from a job's own.
std::string differing(const JobStart& start, const json& own) {
  if (!start.config.is_object()) return {};
  json wanted = to_json(config_to_start(start));
  for (const char* key : {"corpus_sha256", "tokenizer_sha256"}) {
    wanted["data"][key] = own.value(json::json_pointer(std::string("/data/") + key), "");
  }
  wanted["start"]["model_sha256"] = own.value("/start/model_sha256"_json_pointer, "");
  return in_words(differing_keys(wanted, with_defaults(own)));
}

std::string differences(const JobStart& start, const json& own) {
  const std::string list = differing(start, own);
  if (list.empty()) return {};
  return "the job goes on with its own configuration, which differs from the one given in: " + list;
}

// The configuration of a model as its files, or its makers, have it: no weights are read.
model::ModelConfig config_of_model(const std::string& model) {
  if (const auto* constructed = model::find_constructed(model)) return constructed->make().config;
  return model::config_without_weights(model);
}

// That models and texts are there and can be read, and that the task can be asked of the models as
// they are set; what is in the weights the job says.
void require_askable(const protocol::EvalRequest& request, const fs::path& folder) {
  const EvalTask& task = eval_task(request.task);
  std::vector<AskedModel> models;
  for (const std::string& name : request.models) {
    const protocol::ModelReading reading = protocol::model_reading(name);
    const std::string path = found_from(folder, reading.model);
    model::ModelConfig config = config_of_model(path);
    model::set_fields(config, reading.settings);
    models.push_back({name, std::move(config), path});
  }
  if (task.check_models != nullptr) task.check_models(request, models);
}

// Throws what can be said of a job's own configuration before there is a process to run it.
void check_job(const fs::path& dir) {
  const fs::path path = dir / job_file::config;
  const json own = formats::json_from_file(path);
  if (!own.is_object() || !own.contains("eval_job")) {
    run_config_from_json(own, path.string());
    model::device_named(config_to_start({.config = own}).train.device);
    return;
  }
  const auto [folder, request] = asked_eval(own.at("eval_job"));
  eval_to_start(request);
  require_askable(request, folder);
  model::device_named(request.running.device);
}

// An eval of whichever models, from whichever folder.
json eval_alone(json asked, const fs::path& dir) {
  if (!asked.is_object()) {
    throw formats::bad_input("an eval is an object, not " + asked.dump().substr(0, 100),
                             "eval_job");
  }
  asked.erase("folder");
  asked["models"] = {dir.string()};
  json whole = eval_to_start(protocol::request_of<protocol::EvalRequest>(asked));
  whole.erase("folder");
  return whole;
}

std::string name_of(const JobStart& start, const std::string& fallback) {
  return start.name.empty() ? fallback : start.name;
}

JobStatus begun(formats::FileSystem& files, const JobStart& start, const fs::path& dir,
                std::int64_t steps) {
  return start.launched ? queued(files, dir, "train", steps)
                        : launch(files, dir, "train", steps, start.program);
}

// Whether a job that says that it is done has the checkpoint that it ended with. Where there are
// none at all somebody wanted the results alone, as those of kept trainings.
bool is_done(const formats::FileSystem& files, const fs::path& dir, const JobStatus& status) {
  if (status.state != "done") return false;
  if (status.kind != "train" || status.checkpoints.empty()) return true;
  try {
    verify_checkpoint(files, checkpoint_folder(dir / job_file::checkpoints, status.step));
    return true;
  } catch (const formats::Error&) {
    return false;  // its process logs what it finds
  }
}

// Whether the configuration asks for more or fewer steps than when the job ran.
bool has_another_end(const json& own, const JobStatus& status) {
  const json::json_pointer steps("/train/steps");
  return status.steps > 0 && own.contains(steps) && own.at(steps) != status.steps;
}

// Whether there is nothing to resume, whoever asks.
bool has_ended(const formats::FileSystem& files, const fs::path& dir, const JobStatus& status) {
  return is_done(files, dir, status) &&
         !has_another_end(formats::json_from_file(dir / job_file::config), status);
}

JobStatus resume(formats::FileSystem& files, const JobStart& start) {
  const json own = formats::json_from_file(start.dir / job_file::config);
  if (own.is_object() && own.contains("eval_job")) {
    throw formats::bad_usage("the folder holds an eval, which is no training", start.dir.string(),
                             "phasescope jobs resume goes on with one that was cut short");
  }
  const std::string note = differences(start, own);
  const bool alive = job_is_running(start.dir);
  JobStatus status = fs::exists(start.dir / job_file::status)
                         ? read_job(start.dir, CurveDetail::none)
                         : JobStatus{};
  if (!alive && (start.launched || !has_ended(files, start.dir, status))) {
    const RunConfig config = run_config_from_json(own, (start.dir / job_file::config).string());
    status = begun(files, start, start.dir, config.train.steps);
  }
  if (!note.empty()) status.message = note;
  return status;
}

// One that ends before it has begun is no job that goes on.
JobStatus resumed(formats::FileSystem& files, const fs::path& dir, const JobStatus& before,
                  const fs::path& program) {
  check_job(dir);
  const json own = formats::json_from_file(dir / job_file::config);
  const std::int64_t steps = own.value("/train/steps"_json_pointer, before.steps);
  JobStatus status = launch(files, dir, before.kind, steps, program);
  if (status.state == "failed") {
    throw formats::Error(status.code.value_or("internal"), status.message, dir.string());
  }
  if (status.state == "died") {
    throw formats::internal_error("the job's process ended before it began", dir.string(),
                                  "its log says more: phasescope jobs log");
  }
  return status;
}

formats::Error holds_a_job(const fs::path& dir) {
  return formats::bad_usage("the folder holds a job already", dir.string(),
                            "add --resume to go on with it, or name another folder");
}

}  // namespace

std::string asked_otherwise(const fs::path& dir, const json& config) {
  if (!fs::exists(dir / job_file::config)) return {};
  const json own = formats::json_from_file(dir / job_file::config);
  if (!own.is_object() || own.contains("eval_job")) return "kind";
  // Of one that was kept it is as short as in the file that it was asked for with.
  return differing({.dir = dir, .config = config}, to_json(config_to_start({.config = own})));
}

std::string eval_asked_otherwise(const fs::path& dir, const json& request) {
  if (!fs::exists(dir / job_file::config)) return {};
  const json own = formats::json_from_file(dir / job_file::config);
  if (!own.is_object() || !own.contains("eval_job")) return "kind";
  return in_words(differing_keys(eval_alone(request, dir), eval_alone(own.at("eval_job"), dir)));
}

void check_eval(const json& request) { eval_alone(request, "model"); }

void check_eval(const json& request, const std::string& name, const model::ModelConfig& config) {
  const auto eval = protocol::request_of<protocol::EvalRequest>(eval_alone(request, name));
  const EvalTask& task = eval_task(eval.task);
  if (task.check_models != nullptr) task.check_models(eval, {{name, config, ""}});
}

JobStatus start_training(formats::FileSystem& files, const JobStart& start) {
  const bool there = !start.dir.empty() && fs::exists(start.dir / job_file::config);
  if (there && start.existing == ExistingJob::resume) return resume(files, start);
  if (there) throw holds_a_job(start.dir);
  if (!start.config.is_object()) {
    throw formats::bad_usage("there is no job in the folder and no configuration to start one",
                             start.dir.string());
  }
  const RunConfig config = config_to_start(start);
  model::device_named(config.train.device);  // here; a cluster's nodes have others
  const fs::path dir =
      start.dir.empty() ? new_job_folder(name_of(start, config.encoding.at("key"))) : start.dir;
  alone_in(files, dir, [&] {
    if (fs::exists(dir / job_file::config)) throw holds_a_job(dir);
    write_config(files, dir, to_json(config));
  });
  return begun(files, start, dir, config.train.steps);
}

JobStatus start_eval(formats::FileSystem& files, const JobStart& start, const json& request) {
  const auto eval = protocol::request_of<protocol::EvalRequest>(request);
  const json asked = eval_to_start(eval);
  require_askable(asked_eval(asked).request, {});  // all settings among the names
  const fs::path dir =
      start.dir.empty()
          ? new_job_folder(name_of(start, "eval-" + asked.at("task").get<std::string>()))
          : start.dir;
  const auto require_free = [&dir] {
    if (!is_job(dir)) return;  // or merely prepared
    throw formats::bad_usage(
        "the folder holds a job already", dir.string(),
        "jobs resume goes on with one that was cut short; or name another folder");
  };
  require_free();
  alone_in(files, dir, [&] {
    require_free();
    write_config(files, dir, {{"eval_job", asked}});
    queued(files, dir, "eval", 100);
  });
  return process_begun(dir, start.program);
}

void prepare_training(formats::FileSystem& files, const JobStart& start) {
  if (fs::exists(start.dir / job_file::config)) return;
  prepare(files, start.dir, to_json(config_to_start(start)));
}

void prepare_eval(formats::FileSystem& files, const JobStart& start, const json& request) {
  if (fs::exists(start.dir / job_file::config)) return;
  const json asked = eval_to_start(protocol::request_of<protocol::EvalRequest>(request));
  prepare(files, start.dir, {{"eval_job", asked}});
}

JobStatus control_job(formats::FileSystem& files, const fs::path& dir, const std::string& request,
                      const fs::path& program) {
  const JobRequest wanted = job_request_of(request);
  bool alive = job_is_running(dir);
  JobStatus status = read_job(dir, CurveDetail::none);
  if (alive && wanted == JobRequest::resume && status.state == "running") alive = !dies_now(dir);
  // One whose process is yet to come finds the request when it begins.
  const bool to_come = status.state == "queued" && wanted != JobRequest::resume;
  if (alive || to_come) {
    write_request(files, dir, wanted);
    return status;
  }
  const bool done =
      wanted == JobRequest::resume ? has_ended(files, dir, status) : status.state == "done";
  if (done) throw formats::bad_usage("the job is done", dir.string());
  if (wanted == JobRequest::resume) return resumed(files, dir, status, program);
  if (wanted == JobRequest::pause) {
    throw formats::bad_usage("the job is not running", dir.string(), "resume starts it again");
  }
  status.state = "cancelled";
  write_status(files, dir, status);
  return status;
}

}  // namespace phasescope::training
