#include "protocol/messages/import.h"

#include <filesystem>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class ImportVerb : public Verb {
 public:
  std::string name() const override { return "import"; }
  std::string help() const override {
    return "attention maps, or queries and keys, of another program as a model that views open";
  }
  std::string example() const override {
    return "phasescope capture rope --prompt 'abc abc abc' --what attn --out out/attn.safetensors\n"
           "phasescope import out/attn.safetensors --out out/imported\n"
           "phasescope map out/imported --head L0H1";
  }
  bool exports() const override { return false; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    if (run.common().out.empty()) throw formats::bad_usage("name a folder to write to", "--out");
    const bool here = run.common().remote.empty();
    const auto absolute = [&](const std::string& path) {
      return here ? std::filesystem::absolute(path).string() : path;
    };
    request_.out = absolute(run.common().out);
    for (std::string& file : request_.files) file = absolute(file);
    auto [imported, json, tensors] = run.ask<protocol::ImportResult>(request_);
    Output output{.result = std::move(json)};
    Table table =
        facts_table("", output.result,
                    {"out", "as", "layers", "heads", "kv_heads", "head_dim", "tokens", "causal"});
    table.notes = imported.notes;
    output.tables = {std::move(table)};
    return output;
  }

 private:
  protocol::ImportRequest request_;
};

}  // namespace

std::unique_ptr<Verb> import_verb() { return std::make_unique<ImportVerb>(); }

}  // namespace phasescope::app
