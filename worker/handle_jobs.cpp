#include "worker/handle_jobs.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/json.h"
#include "model/checkpoints/weights.h"
#include "model/devices.h"
#include "model/encoding.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/sweep.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/kept_jobs.h"
#include "training/jobs/slurm_array.h"
#include "training/jobs/sweep_table.h"
#include "training/run_config.h"
#include "training/trainer.h"

namespace phasescope::worker {
namespace {

namespace fs = std::filesystem;
using protocol::JobStatus;
using protocol::Reply;

fs::path named(const std::string& job) {
  if (job.empty()) throw formats::bad_usage("the job's folder or name is missing", "dir");
  return training::job_named(job);
}

// The jobs right below a folder that was named.
std::vector<fs::path> jobs_below(const fs::path& root) {
  std::vector<fs::path> dirs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (training::is_job(entry.path())) dirs.push_back(entry.path());
  }
  if (error) {
    throw formats::bad_input("the folder cannot be read: " + error.message(), root.string());
  }
  return dirs;
}

Reply jobs_list(const protocol::JobsRequest& request, RequestContext&) {
  const std::string& root = request.root;
  protocol::JobsResult result;
  for (const fs::path& dir : root.empty() ? training::find_jobs() : jobs_below(root)) {
    result.jobs.push_back(training::read_job(dir, training::CurveDetail::none));
  }
  return reply_of(result);
}

Reply jobs_show(const protocol::JobRequest& request, RequestContext&) {
  return reply_of(training::read_job(named(request.dir), training::CurveDetail::thinned));
}

training::JobStart start_of(const protocol::StartRequest& request) {
  training::JobStart start;
  start.dir = request.dir;
  start.name = request.name;
  start.config = request.config;
  start.settings = request.set.list;
  if (!request.device.empty()) start.settings.push_back("train.device=" + request.device);
  if (request.resume) start.existing = training::ExistingJob::resume;
  start.launched = request.launched;
  return start;
}

// Options of the encoding that a configuration names, with those of every encoding; none of one
// that is not known.
void add_encoding(const nlohmann::json& config, protocol::ConfigForm& form) {
  const nlohmann::json own = config.is_object() && config.contains("encoding")
                                 ? config.at("encoding")
                                 : training::to_json(training::RunConfig{}).at("encoding");
  const std::string key =
      own.is_object() && own.contains("key") && own["key"].is_string() ? own["key"] : "";
  protocol::ConfigField named{.key = "encoding.key", .help = "the positional encoding"};
  named.value = key, named.fallback = "rope";
  for (const model::EncodingEntry& entry : model::encodings()) {
    named.choices.push_back(entry.info->key);
  }
  form.fields_of.push_back(std::move(named));
  const model::EncodingEntry* found = model::find_encoding(key);
  if (!found) return;
  for (const model::OptionInfo& option : found->info->options) {
    protocol::ConfigField field{
        .key = "encoding." + option.key, .help = option.help, .choices = option.choices};
    field.fallback = option.fallback;
    field.value = own.contains(option.key) ? own.at(option.key) : option.fallback;
    if (option.min > -model::kNoLimit) field.low = option.min;
    if (option.max < model::kNoLimit) field.high = option.max;
    form.fields_of.push_back(std::move(field));
  }
}

// Why a training would not start with it, and what it takes where it would.
void add_check(const nlohmann::json& config, protocol::ConfigForm& form) {
  try {
    const auto run = training::run_config_from_json(training::filled_in_from_model(config),
                                                    "the run configuration");
    const model::ModelConfig model = training::model_config_of(run);
    const auto encoding = model::make_encoding(model);
    for (const model::TensorSpec& spec : model::tensor_specs(model, *encoding)) {
      std::int64_t size = spec.optional ? 0 : 1;
      for (const std::int64_t n : spec.shape) size *= n;
      form.parameters += size;
    }
    if (run.of_text()) form.tokens = run.train.steps * run.train.batch_tokens;
  } catch (const formats::Error& error) {
    form.problem = error.full_text();
  }
}

Reply jobs_form(const protocol::FormRequest& request, RequestContext&) {
  protocol::ConfigForm form;
  const formats::JsonRules each_key_once{.duplicate_keys = formats::DuplicateKeys::refuse};
  form.config = request.config.is_string() ? formats::json_from_file(request.config, each_key_once)
                : request.config.is_null() ? nlohmann::json::object()
                                           : request.config;
  for (const std::string& setting : request.set.list) training::apply_setting(form.config, setting);
  form.fields_of = training::fields_of_config(form.config);
  add_encoding(form.config, form);
  add_check(form.config, form);
  return reply_of(form);
}

Reply jobs_start(const protocol::StartRequest& request, RequestContext&) {
  if (request.kind == "eval" && !request.device.empty()) {
    throw formats::bad_usage("an eval has its device among its parameters", "device",
                             "put it into config");
  }
  const training::JobStart start = start_of(request);
  formats::FileSystem& files = formats::real_file_system();
  if (request.kind == "train") return reply_of(training::start_training(files, start));
  if (start.config.is_object()) model::device_named(start.config.value("device", "cpu"));
  return reply_of(training::start_eval(files, start, start.config));
}

Reply jobs_control(const protocol::ControlRequest& request, RequestContext&) {
  const fs::path dir = named(request.dir);
  formats::FileSystem& files = formats::real_file_system();
  if (request.action != "remove") {
    return reply_of(training::control_job(files, dir, request.action));
  }
  JobStatus status = training::read_job(dir, training::CurveDetail::none);
  status.message = "removed " + training::remove_job(files, dir);
  return reply_of(status);
}

Reply jobs_log(const protocol::LogRequest& request, RequestContext&) {
  const fs::path dir = named(request.dir);
  return {{{"dir", dir.string()},
           {"log", training::log_tail(dir, static_cast<std::size_t>(request.lines))}},
          {}};
}

std::string folder_of(const nlohmann::json& cell) {
  const bool fits = cell.is_object() && cell.contains("dir") && cell.at("dir").is_string();
  if (!fits) throw formats::bad_usage("each cell of a sweep has a \"dir\"", "cells");
  return cell.at("dir").get<std::string>();
}

// Whether a cell is evaluated after its training.
bool evaluates(const nlohmann::json& cell) {
  return cell.contains("eval") && cell.at("eval").is_object();
}

std::string asked_otherwise(const nlohmann::json& cell) {
  const fs::path dir = folder_of(cell);
  try {
    const std::string keys = training::asked_otherwise(dir, cell.at("config"));
    if (!keys.empty() || !evaluates(cell)) return keys;
    return training::eval_asked_otherwise(dir / "eval", cell.at("eval"));
  } catch (const formats::Error&) {
    return {};  // texts that are gone are said where they are needed
  }
}

// A cell that says what it is about can be trained and evaluated, and is not taken for what was
// trained, or evaluated, otherwise.
void check_cell(const nlohmann::json& cell) {
  if (!cell.contains("config")) return;
  const fs::path dir = folder_of(cell);
  const std::string name = dir.filename().string();
  const model::ModelConfig model = training::model_config_of(
      training::run_config_from_json(training::filled_in_from_model(cell.at("config")), name));
  if (evaluates(cell)) training::check_eval(cell.at("eval"), name, model);
  const std::string keys = asked_otherwise(cell);
  if (keys.empty()) return;
  throw formats::bad_input("the job in the sweep's folder was asked otherwise, in: " + keys,
                           dir.string(), "name another folder, or put the sweep back as it was");
}

Reply jobs_sweep(const protocol::SweepRequest& request, RequestContext&) {
  std::vector<training::SweepPlace> places;
  const bool list = request.cells.is_array();
  for (const nlohmann::json& cell : list ? request.cells : nlohmann::json::array()) {
    places.push_back({folder_of(cell), cell.value("group", "")});
    check_cell(cell);
  }
  if (places.empty()) throw formats::bad_usage("a sweep has at least one cell", "cells");
  return reply_of(training::sweep_table(places));
}

// Makes the folders of a cell, and says whether something of it is left to do.
bool prepared(const protocol::SlurmRequest& request, const nlohmann::json& cell) {
  formats::FileSystem& files = formats::real_file_system();
  const fs::path dir = folder_of(cell), eval = dir / "eval";
  training::prepare_training(files, {.dir = dir, .config = cell.value("config", nlohmann::json())});
  const bool evaluates = request.eval.is_object();
  if (evaluates) {
    nlohmann::json asked = request.eval;
    asked["models"] = {dir.string()};
    training::prepare_eval(files, {.dir = eval}, asked);
  }
  const auto done = [](const fs::path& job) {
    return training::is_job(job) &&
           training::read_job(job, training::CurveDetail::none).state == "done";
  };
  return !done(dir) || (evaluates && !done(eval));
}

std::int64_t threads_of(const nlohmann::json& cell) {
  const auto config = cell.value("config", nlohmann::json());
  if (!config.is_object()) return 1;
  return std::max<std::int64_t>(1, config.value("/train/threads"_json_pointer, std::int64_t{1}));
}

training::SlurmQueue submitted(const protocol::SlurmRequest& request) {
  training::SlurmArray array{.folder = request.dir, .at_once = request.at_once};
  array.options = request.options;
  std::vector<std::int64_t> left;
  for (std::size_t n = 0; n < request.cells.size(); ++n) {
    const nlohmann::json& cell = request.cells[n];
    array.cells.emplace_back(folder_of(cell));
    array.threads = std::max(array.threads, threads_of(cell));
    if (prepared(request, cell)) left.push_back(static_cast<std::int64_t>(n));
  }
  return training::submit_array(formats::real_file_system(), array, left);
}

Reply jobs_keep(const protocol::KeepRequest& request, RequestContext&) {
  if (request.file.empty()) throw formats::bad_usage("the file is missing", "file");
  std::vector<training::KeptCell> cells;
  for (const nlohmann::json& cell :
       request.cells.is_array() ? request.cells : nlohmann::json::array()) {
    cells.push_back({folder_of(cell), cell.value("config", nlohmann::json())});
  }
  training::KeptJobs found =
      training::keep_jobs(formats::real_file_system(), request.file, cells, request.eval);
  return reply_of(protocol::KeptResult{.restored = std::move(found.restored),
                                       .others = std::move(found.others),
                                       .kept = found.kept});
}

Reply jobs_slurm(const protocol::SlurmRequest& request, RequestContext&) {
  if (request.dir.empty()) throw formats::bad_usage("the sweep's folder is missing", "dir");
  if (request.submit && !request.cells.is_array()) {
    throw formats::bad_usage("a sweep has a list of cells", "cells");
  }
  const training::SlurmQueue queue =
      request.submit ? submitted(request) : training::array_queue(request.dir);
  protocol::SlurmResult result{.id = queue.id};
  for (const auto& [cell, state] : queue.states) result.queue.push_back({cell, state});
  return reply_of(result);
}

}  // namespace

std::vector<Handler> jobs_handlers() {
  return {method("trainings and evals, running and ended", jobs_list),
          method("one job with its curve", jobs_show),
          method("the fields of a run configuration, for a form", jobs_form),
          method("starts or resumes a job as a process of its own", jobs_start),
          method("pauses, resumes, cancels or removes a job", jobs_control),
          method("the last lines of a job's log", jobs_log),
          method("what the jobs of a sweep have come to", jobs_sweep),
          method("what jobs of a sweep came to, in a file that is kept", jobs_keep),
          method("the jobs of a sweep as an array of Slurm's", jobs_slurm)};
}

}  // namespace phasescope::worker
