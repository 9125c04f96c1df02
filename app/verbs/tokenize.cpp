#include <iostream>

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class TokenizeVerb : public Verb {
 public:
  std::string name() const override { return "tokenize"; }
  std::string help() const override { return "text to ids and back"; }
  std::string example() const override { return "phasescope tokenize rope --prompt 'a text'"; }
  void declare(Options& options) override {
    options.argument("MODEL", model_, "folder, .safetensors file or bundled name");
    input_.declare(options);
    options.flag("--jsonl", lines_,
                 "{\"text\"} a line on stdin, {\"ids\", \"decoded\"} a line out");
    options.flag("--no-special", no_special_, "no template");
  }
  Output run(Run& run) override {
    if (lines_) return run_lines(run);
    nlohmann::json params{{"model", model_}, {"no_special", no_special_}};
    input_.add_to(params);
    Output output{.result = run.call("tokenize", std::move(params)).result};
    output.text = output.result["ids"].dump() + "\n";
    return output;
  }

 private:
  Output run_lines(Run& run) {
    Output output{.result = nlohmann::json::array()};
    for (std::string line; std::getline(std::cin, line);) {
      const auto item = nlohmann::json::parse(line, nullptr, false);
      if (!item.is_object() || !item.contains("text")) {
        throw formats::bad_input("a line is not {\"text\": ...}",
                                 "line " + std::to_string(output.result.size() + 1));
      }
      auto reply = run.call(
          "tokenize",
          {{"model", model_}, {"no_special", no_special_}, {"input", {{"text", item["text"]}}}});
      const nlohmann::json answer{{"ids", reply.result["ids"]},
                                  {"decoded", reply.result["decoded"]}};
      output.text += answer.dump() + "\n";
      output.result.push_back(answer);
    }
    return output;
  }

  std::string model_;
  bool lines_ = false, no_special_ = false;
  InputOptions input_;
};

}  // namespace

std::unique_ptr<Verb> tokenize_verb() { return std::make_unique<TokenizeVerb>(); }

}  // namespace phasescope::app
