#pragma once
// Captured tensors, and checks against a reference.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Tensors of a forward pass: a CaptureResult.
struct CaptureRequest {
  static constexpr const char* method = "capture";
  static constexpr const char* verb = "capture";
  std::string model;
  Running running;
  Reading reading;
  std::string stack;
  std::vector<std::string> what{"logits"};
  std::optional<std::vector<std::int64_t>> layers, heads;
  std::optional<Range> rows, cols;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("what", what,
      About{.help =
                "input_ids, logits, hidden, streams, attn, scores, content, positional, position, "
                "q, k, v, "
                "rotated (q.L.rotated, k.L.rotated), lse, entropy, or one tensor (attn.2); comma "
                "separated"});
    v("stack", stack,
      About{.help = "which stack of an encoder-decoder: dec, enc or cross (default: all)"});
    constexpr About which{.help = "which of them, e.g. 0,3 (default: all)", .low = 0};
    v("layers", layers, which), v("heads", heads, which);
    v("rows", rows, About{.help = "queries a:b of attention tensors"});
    v("cols", cols, About{.help = "keys a:b of attention tensors"});
  }
};

// Compares a model with a reference file: a ReferenceCheckResult.
struct CheckRequest {
  static constexpr const char* method = "check";
  static constexpr const char* verb = "check";
  std::string model;
  Running running;
  std::string reference;
  std::optional<double> tolerance;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    v("reference", reference,
      About{.help = "safetensors file with inputs and expected tensors (default: "
                    "expected.safetensors in the model's folder)"});
    v("tolerance", tolerance,
      About{.help = "largest error that passes, relative to each tensor's largest magnitude "
                    "(default: 1e-10 in f64; in f32 1e-5 or, if that is more, 3 times what the "
                    "reference's own f32 loses against its f64)"});
    running.fields(v);
  }
};

// The tensors themselves are those of the reply, under cli.md's names.
struct CaptureResult {
  std::string model;
  std::vector<std::string> names;
  std::int64_t bytes = 0;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("names", names, About{.title = "tensors"}), v("bytes", bytes),
        v("provenance", provenance);
  }
};

struct CheckedTensor {
  std::string name;
  double error = 0, tolerance = 0;  // relative to the tensor's largest magnitude
  bool ok = false;
  std::string dtype;
  template <class V>
  void fields(V& v) {
    v("name", name, About{.title = "tensor"});
    v("error", error, About{.unit = "of the largest magnitude"});
    v("tolerance", tolerance, About{.unit = "likewise"}), v("ok", ok), v("dtype", dtype);
  }
};

struct ReferenceCheckResult {
  std::string model, reference, verdict;  // verdict: equal, differs, nothing compared
  std::vector<CheckedTensor> tensors;     // worst first
  std::vector<std::string> not_compared;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("reference", reference), v("verdict", verdict), v("tensors", tensors);
    v("not_compared", not_compared), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
