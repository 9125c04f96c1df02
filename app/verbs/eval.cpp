#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class EvalVerb : public Verb {
 public:
  std::string name() const override { return "eval"; }
  std::string help() const override { return "extrapolation tests: a task against length"; }
  std::string example() const override {
    return "phasescope eval perplexity rope 'rope (yarn x2)' alibi --lengths 256,512 --trials 4";
  }
  void declare(Options& options) override {
    options.argument("TASK", task_, "perplexity");
    options.arguments("MODEL", models_, kModelsHelp);
    options.option("--lengths", lengths_, "comma separated");
    options.option("--window", window_, "disjoint, sliding:STRIDE, last_k:K or per_position");
    options.option("--trials", trials_, "texts read (default: all)");
    options.option("--job", job_, "run as a background job in this folder");
    set_.declare(options);
  }
  Output run(Run& run) override {
    nlohmann::json params{{"task", task_},
                          {"models", models_param(models_)},
                          {"lengths", integer_list(lengths_, "--lengths")}};
    if (!window_.empty()) params["window"] = window_;
    if (trials_ > 0) params["trials"] = trials_;
    if (!job_.empty()) return start_job(run, std::move(params));
    set_.add_to(params);
    protocol::Reply reply = run.call("eval", std::move(params));
    const auto eval = result_of<protocol::EvalResult>(reply);
    Output output{.result = std::move(reply.result)};
    output.tables = {
        table_of(eval.task + ": " + eval.metric, output.result["rows"],
                 {"model", "metric", "length", "value", "low", "high", "n", "window"})};
    add_notes(output.tables[0].notes, eval.provenance);
    output.figures = {eval_figure(eval)};
    if (!eval.positions.empty()) output.figures.push_back(position_loss_figure(eval));
    return output;
  }

 private:
  Output start_job(Run& run, nlohmann::json params) {
    for (nlohmann::json& model : params["models"]) {
      model = set_.applied_to(model.get<std::string>());
    }
    Output output{
        .result =
            run.call("jobs.start", {{"kind", "eval"}, {"dir", job_}, {"config", std::move(params)}})
                .result};
    output.text = "job " + output.result.value("dir", job_) + " started\n";
    return output;
  }

  std::string task_, lengths_ = "256,512,1024", window_, job_;
  std::vector<std::string> models_;
  int64_t trials_ = 0;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> eval_verb() { return std::make_unique<EvalVerb>(); }

}  // namespace phasescope::app
