#include "protocol/messages/eval.h"

#include "app/outputs/eval_output.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "protocol/messages/jobs.h"

namespace phasescope::app {

namespace {

class EvalVerb : public Verb {
 public:
  std::string name() const override { return "eval"; }
  std::string help() const override {
    return "extrapolation tests: perplexity or a task against length";
  }
  std::string example() const override {
    return "phasescope eval perplexity rope 'rope (yarn x2)' alibi --lengths 256,512 --trials 4";
  }
  void declare(Options& options) override {
    options.request(request_);
    options.option("--job", job_, "run as a background job in this folder");
  }
  std::string missing_forms() const override {
    return job_.empty() ? ".npy .safetensors" : ".csv .md .svg .pdf .png .npy .safetensors";
  }
  Output run(Run& run) override {
    if (!job_.empty()) return start_job(run);
    auto [eval, json, tensors] = run.ask<protocol::EvalResult>(request_);
    return eval_output(eval, std::move(json), names_in(eval));
  }

 private:
  Output start_job(Run& run) {
    for (std::string& model : request_.models) {
      model = with_settings(model, request_.running.set);
    }
    request_.running.set = {};
    const protocol::StartRequest start{
        .kind = "eval", .dir = job_, .config = protocol::params_of(request_)};
    Output output{.result = run.call(start).result};
    output.text = "job " + output.result.value("dir", job_) + " started\n";
    return output;
  }

  protocol::EvalRequest request_;
  std::string job_;
};

}  // namespace

std::unique_ptr<Verb> eval_verb() { return std::make_unique<EvalVerb>(); }

}  // namespace phasescope::app
