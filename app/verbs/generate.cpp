#include "protocol/messages/generate.h"

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class GenerateVerb : public Verb {
 public:
  std::string name() const override { return "generate"; }
  std::string help() const override { return "continue a text, greedy or sampled with a seed"; }
  std::string example() const override {
    return "phasescope generate rope --prompt 'And it came to pass' --tokens 80";
  }
  void declare(Options& options) override {
    options.argument("MODEL", model_, kModelHelp);
    input_.declare(options);
    set_.declare(options);
    options.option("--tokens", tokens_, "how many to add");
    options.option("--temperature", temperature_, "0 is greedy");
  }
  Output run(Run& run) override {
    nlohmann::json params{{"model", model_}, {"tokens", tokens_}, {"temperature", temperature_}};
    input_.add_to(params);
    set_.add_to(params);
    Output output{.result = run.call("generate", std::move(params)).result};
    const auto written = result_of<protocol::GenerateResult>({output.result, {}});
    output.text = (written.text.empty() ? ids_of(written) : written.text) + "\n";
    if (!written.provenance.note.empty()) run.say(written.provenance.note);
    return output;
  }

 private:
  // Without a tokenizer there is no text.
  static std::string ids_of(const protocol::GenerateResult& written) {
    std::string line;
    for (const int64_t id : written.ids) line += (line.empty() ? "" : " ") + std::to_string(id);
    return line;
  }

  std::string model_;
  int64_t tokens_ = 64;
  double temperature_ = 0;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> generate_verb() { return std::make_unique<GenerateVerb>(); }

}  // namespace phasescope::app
