#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/limits.h"
#include "protocol/messages/models.h"

namespace phasescope::app {

namespace {

class InfoVerb : public Verb {
 public:
  std::string name() const override { return "info"; }
  std::string help() const override {
    return "load report: family, encoding, dtypes, tensors, parameters, memory, quirks";
  }
  std::string example() const override { return "phasescope info rope"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    Output output{.result = run.call(request_).result};
    nlohmann::json facts = output.result;
    facts.update(output.result.value("model", nlohmann::json::object()));
    facts["encoding_options"] = facts.value("encoding_options", nlohmann::json::object()).dump();
    facts["dtypes"] = facts.value("dtypes", nlohmann::json::object()).dump();
    output.tables.push_back(facts_table("", facts,
                                        {"name",
                                         "path",
                                         "family",
                                         "encoding",
                                         "encoding_why",
                                         "encoding_title",
                                         "encoding_source",
                                         "scaling",
                                         "encoding_options",
                                         "note",
                                         "parameters",
                                         "layers",
                                         "heads",
                                         "kv_heads",
                                         "head_dim",
                                         "width",
                                         "ffn_width",
                                         "vocab_size",
                                         "context",
                                         "dtypes",
                                         "tokenizer",
                                         "dtype",
                                         "weight_bytes",
                                         "memory_bytes_at_context",
                                         "length",
                                         "memory_bytes",
                                         "missing",
                                         "unexpected",
                                         "tied",
                                         "quirks",
                                         "warnings",
                                         "hash"}));
    const auto flagged = output.result.value("flagged", nlohmann::json::array());
    if (!flagged.empty()) {
      output.tables.push_back(
          table_of("Flagged tensors", flagged, {"name", "dtype", "shape", "flag"}));
    }
    return output;
  }

 private:
  protocol::InfoRequest request_;
};

}  // namespace

std::unique_ptr<Verb> info_verb() { return std::make_unique<InfoVerb>(); }

}  // namespace phasescope::app
