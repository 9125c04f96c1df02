#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
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
  void declare(Options& options) override {
    options.argument("MODEL", model_, kModelHelp);
    input_.declare(options);
    set_.declare(options);
    options.option(
        "--what", what_,
        "input_ids, logits, hidden, attn, scores, content, positional, position, q, k, v, "
        "rotated (q.L.rotated, k.L.rotated), lse, entropy, or one tensor (attn.2); "
        "comma separated");
    options.option("--layers", layers_, "e.g. 0,3 (default: all)");
    options.option("--heads", heads_, "e.g. 0,3 (default: all)");
    options.option("--rows", rows_, "queries a:b of attention tensors");
    options.option("--cols", columns_, "keys a:b of attention tensors");
  }
  Output run(Run& run) override {
    nlohmann::json params{{"model", model_}, {"what", split_list(what_)}};
    input_.add_to(params);
    set_.add_to(params);
    if (!layers_.empty()) params["layers"] = integer_list(layers_, "--layers");
    if (!heads_.empty()) params["heads"] = integer_list(heads_, "--heads");
    if (!rows_.empty()) params["rows"] = integer_range(rows_, "--rows");
    if (!columns_.empty()) params["cols"] = integer_range(columns_, "--cols");
    protocol::Reply reply = run.call("capture", std::move(params));
    Output output{.result = std::move(reply.result), .tensors = std::move(reply.tensors)};
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
    const std::string cut = output.result.at("provenance").value("note", "");
    table.notes.push_back(cut);
    if (run.common().out.empty()) table.notes.push_back("not written: name a file with --out");
    output.tables = {std::move(table)};
    return output;
  }

 private:
  std::string model_, what_ = "logits", layers_, heads_, rows_, columns_;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> capture_verb() { return std::make_unique<CaptureVerb>(); }

}  // namespace phasescope::app
