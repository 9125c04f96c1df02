#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class CompareVerb : public Verb {
 public:
  std::string name() const override { return "compare"; }
  std::string help() const override {
    return "the same text through two models: divergence a head, loss";
  }
  std::string example() const override { return "phasescope compare rope tapa"; }
  void declare(Options& options) override {
    options.argument("A", a_, "first model");
    options.argument("B", b_, "second model");
    input_.declare(options);
    set_.declare(options);
  }
  Output run(Run& run) override {
    nlohmann::json params{{"a", a_}, {"b", b_}, {"models", {a_, b_}}};
    input_.add_to(params);
    set_.add_to(params);
    protocol::Reply reply = run.call("compare", std::move(params));
    const auto compare = result_of<protocol::CompareResult>(reply);
    Output output{.result = std::move(reply.result)};
    Table losses{.title = "loss (nats a token)", .columns = {"model", "loss"}};
    for (const auto& [name, value] : compare.loss) {
      const std::string label = name == "a" ? compare.a : name == "b" ? compare.b : name;
      losses.rows.push_back({{"model", label}, {"loss", protocol::detail::write_double(value)}});
    }
    losses.notes.push_back(compare.provenance.note);
    output.tables = {table_of("", output.result["heads"], {"layer", "head", "js_divergence"}),
                     std::move(losses)};
    output.figures = {divergence_figure(compare)};
    nlohmann::json input = nlohmann::json::object();
    input_.add_to(input);
    set_.add_to(input);
    if (auto difference = largest_difference(run, compare, {a_, b_}, input)) {
      output.figures.push_back(std::move(*difference));
    }
    return output;
  }

 private:
  std::string a_, b_;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> compare_verb() { return std::make_unique<CompareVerb>(); }

}  // namespace phasescope::app
