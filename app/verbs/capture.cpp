#include "protocol/messages/capture.h"

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

// cli.md's --what takes the name of a group ("attn") or of a single tensor ("attn.2").
class CaptureVerb : public Verb {
 public:
  std::string name() const override { return "capture"; }
  std::string help() const override { return "write tensors of a run to .safetensors"; }
  std::string example() const override {
    return "phasescope capture rope --prompt 'In the beginning' --what logits,attn "
           "--out out/c.safetensors";
  }
  std::string missing_forms() const override { return ".svg .pdf .png"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [capture, json, tensors] = run.ask<protocol::CaptureResult>(request_);
    Output output{.result = std::move(json),
                  .provenance = provenance_of(capture),
                  .tensors = std::move(tensors)};
    if (run.common().out.ends_with(".npy") && output.tensors.size() > 1) {
      throw formats::bad_usage("a .npy file holds one array and " +
                                   std::to_string(output.tensors.size()) + " were captured",
                               run.common().out,
                               "write .safetensors, or one tensor: --what attn.0");
    }
    Table table{.columns = {"tensor", "dtype", "shape"}};
    for (const protocol::TensorRef& tensor : output.tensors) {
      table.rows.push_back(
          {{"tensor", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
    }
    table.notes.push_back(capture.provenance.note);
    if (run.common().out.empty()) table.notes.push_back("not written: name a file with --out");
    output.tables = {std::move(table)};
    return output;
  }

 private:
  protocol::CaptureRequest request_;
};

}  // namespace

std::unique_ptr<Verb> capture_verb() { return std::make_unique<CaptureVerb>(); }

}  // namespace phasescope::app
