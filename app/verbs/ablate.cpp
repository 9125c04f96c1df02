#include "protocol/messages/ablate.h"

#include <filesystem>

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class AblateVerb : public Verb {
 public:
  std::string name() const override { return "ablate"; }
  std::string help() const override {
    return "what a model loses when heads are taken out or limited, or when it is read with other "
           "settings (--set)";
  }
  std::string example() const override {
    return "phasescope ablate rope --head L3H1 --texts 0:70:10\n"
           "phasescope ablate rope --by layer --how mean --texts 0:70:35 --out out/means\n"
           "phasescope ablate rope --head all --how sink --limit 0.1 --texts 0:70:35\n"
           "phasescope ablate rope --set encoding.base=5e4 --texts 0:70:35";
  }
  std::string missing_forms() const override { return request_.how == "mean" ? "" : kNoArrays; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [ablate, json, tensors] = run.ask<protocol::AblateResult>(request_);
    name_file(run.common().out, ablate, json);
    const ModelNames names({ablate.model});
    return question_output({{std::move(ablate), std::move(json), std::move(tensors)}}, names);
  }

 private:
  // The readings with mean outputs name the file that --out writes them to.
  static void name_file(const std::string& out, protocol::AblateResult& result,
                        nlohmann::json& json) {
    if (out.empty()) return;
    const std::filesystem::path path(out);
    if (path.has_extension() && path.extension() != ".safetensors") return;
    const std::string file = path.has_extension() ? out : (path / "tensors.safetensors").string();
    for (std::size_t n = 0; n < result.rows.size(); ++n) {
      std::string& reading = result.rows[n].reading;
      const std::string form = "FILE.safetensors";
      const std::size_t at = reading.find(form);
      if (at == std::string::npos) continue;
      reading.replace(at, form.size(), file);
      json["rows"][n]["reading"] = reading;
    }
  }

  protocol::AblateRequest request_;
};

}  // namespace

std::unique_ptr<Verb> ablate_verb() { return std::make_unique<AblateVerb>(); }

}  // namespace phasescope::app
