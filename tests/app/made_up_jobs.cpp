#include <cmath>

#include "protocol/messages/jobs.h"
#include "tests/app/made_up_replies.h"

namespace phasescope::app {
namespace {

using namespace protocol;

JobStatus job(const std::string& dir, const MadeUpShape& shape) {
  JobStatus status;
  status.dir = dir, status.name = dir.substr(dir.rfind('/') + 1), status.kind = "train";
  status.state = shape.jobs;
  status.config = {{"train", {{"steps", 200}}}, {"data", {{"corpus_sha256", "of the last start"}}}};
  status.checkpoints = {"step-50", "step-100"};
  status.step = 120, status.steps = 200, status.seconds = 64, status.seconds_left = 42;
  status.kernel = shape.ran.text();
  for (int step = 0; step < 120; step += 4) {
    MetricPoint point;
    point.step = step, point.loss = 2 + 3 * std::exp(-step / 30.0), point.lr = 2e-3;
    point.tokens = 2048 * step, point.time = 0.5 * step, point.gradient_norm = 1.0 / (1 + step);
    status.curve.push_back(point);
  }
  status.last = status.curve.back();
  return status;
}

Reply jobs_list(const nlohmann::json&, const MadeUpShape& shape) {
  return {to_json_form(JobsResult{{job("jobs/tapa", shape), job("jobs/rope", shape)}}), {}};
}

Reply jobs_show(const nlohmann::json& params, const MadeUpShape& shape) {
  return {to_json_form(job(params.value("dir", std::string("jobs/tapa")), shape)), {}};
}

Reply jobs_start(const nlohmann::json&, const MadeUpShape& shape) {
  return {to_json_form(job("jobs/tapa", shape)), {}};
}

Reply jobs_log(const nlohmann::json& params, const MadeUpShape&) {
  return {{{"dir", params["dir"]}, {"log", "step 1\nstep 2\n"}}, {}};
}

// A configuration of three fields; one of 7 steps would not start.
Reply jobs_form(const nlohmann::json& params, const MadeUpShape&) {
  ConfigForm form;
  form.config = params.value("config", nlohmann::json::object());
  const auto value = [&](const char* section, const char* key, const nlohmann::json& fallback) {
    const auto own = form.config.value(section, nlohmann::json::object());
    ConfigField field{.key = std::string(section) + "." + key, .help = "made up"};
    field.value = own.value(key, fallback), field.fallback = fallback;
    return field;
  };
  ConfigField steps = value("train", "steps", 2442), dtype = value("train", "dtype", "bf16");
  steps.low = 1, dtype.choices = {"f32", "bf16"};
  form.fields_of = {value("encoding", "key", "rope"), steps, dtype};
  if (steps.value == 7) form.problem = "7 steps are made up to be too few";
  form.parameters = 1'900'000, form.tokens = 5'000'000;
  return {to_json_form(form), {}};
}

Reply jobs_control(const nlohmann::json&, const MadeUpShape&) {
  return {nlohmann::json::object(), {}};
}

}  // namespace

const ReplyMakers& made_up_jobs() {
  static const ReplyMakers kMakers{{"jobs.list", jobs_list},   {"jobs.log", jobs_log},
                                   {"jobs.form", jobs_form},   {"jobs.show", jobs_show},
                                   {"jobs.start", jobs_start}, {"jobs.control", jobs_control}};
  return kMakers;
}

}  // namespace phasescope::app
