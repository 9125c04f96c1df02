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
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [written, json, tensors] = run.ask<protocol::GenerateResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(written)};
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

  protocol::GenerateRequest request_;
};

}  // namespace

std::unique_ptr<Verb> generate_verb() { return std::make_unique<GenerateVerb>(); }

}  // namespace phasescope::app
