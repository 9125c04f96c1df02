#include "protocol/messages/convert.h"

#include <filesystem>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class ConvertVerb : public Verb {
 public:
  std::string name() const override { return "convert"; }
  std::string help() const override {
    return "a model in another form: RoPE to TAPE, RoPE to APE and back, any to safetensors, or "
           "its sizes with random weights";
  }
  std::string example() const override {
    return "phasescope convert rope --to tape --out out/tape";
  }
  bool exports() const override { return false; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    if (request_.to.empty()) throw formats::bad_usage("say what to convert to", "--to");
    if (run.common().out.empty()) throw formats::bad_usage("name a folder to write to", "--out");
    // A worker may have another folder than this program.
    request_.out = run.common().remote.empty()
                       ? std::filesystem::absolute(run.common().out).string()
                       : run.common().out;
    auto [converted, json, tensors] = run.ask<protocol::ConvertResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(converted)};
    Table table = facts_table(
        "", output.result,
        {"model", "to", "out", "files", "tensors", "parameters_before", "parameters", "bytes"});
    table.notes = converted.notes;
    output.tables = {std::move(table)};
    return output;
  }

 private:
  protocol::ConvertRequest request_;
};

}  // namespace

std::unique_ptr<Verb> convert_verb() { return std::make_unique<ConvertVerb>(); }

}  // namespace phasescope::app
