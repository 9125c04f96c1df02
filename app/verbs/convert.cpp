#include <filesystem>

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class ConvertVerb : public Verb {
 public:
  std::string name() const override { return "convert"; }
  std::string help() const override {
    return "a model in another form: RoPE to TAPE, RoPE to APE and back, any to safetensors";
  }
  std::string example() const override {
    return "phasescope convert rope --to tape --out out/tape";
  }
  bool exports() const override { return false; }
  void declare(Options& options) override {
    options.argument("MODEL", model_, kModelHelp);
    options.option(
        "--to", to_,
        "safetensors (one file, tensors unchanged), phasescope (our own form), tape, ape "
        "or rope");
    set_.declare(options);
  }
  Output run(Run& run) override {
    if (to_.empty()) throw formats::bad_usage("say what to convert to", "--to");
    if (run.common().out.empty()) throw formats::bad_usage("name a folder to write to", "--out");
    // A worker may have another folder than this program.
    const std::string out = run.common().remote.empty()
                                ? std::filesystem::absolute(run.common().out).string()
                                : run.common().out;
    nlohmann::json params{{"model", model_}, {"to", to_}, {"out", out}};
    set_.add_to(params);
    Output output{.result = run.call("convert", std::move(params)).result};
    Table table = facts_table(
        "", output.result,
        {"model", "to", "out", "files", "tensors", "parameters_before", "parameters", "bytes"});
    for (const auto& note : output.result.value("notes", nlohmann::json::array())) {
      table.notes.push_back(note);
    }
    output.tables = {std::move(table)};
    return output;
  }

 private:
  std::string model_, to_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> convert_verb() { return std::make_unique<ConvertVerb>(); }

}  // namespace phasescope::app
