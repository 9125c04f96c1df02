#pragma once
// Converted checkpoints.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Writes a model in another form: a ConvertResult.
struct ConvertRequest {
  static constexpr const char* method = "convert";
  static constexpr const char* verb = "convert";
  std::string model;
  Assignments set;
  std::string to, out, dtype;
  std::int64_t seed = 0;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    v("to", to,
      About{.help =
                "safetensors (one file, tensors unchanged), phasescope (our own form), tape, ape, "
                "rope, or random (weights drawn for the sizes of a model or a config.json)"});
    v("set", set, kSetAbout);
    v("dtype", dtype,
      About{.help = "number format that tensors are written in (default: their own)",
            .choices = kDtypes});
    v("seed", seed, kSeedAbout);
    v("out", out, kFolderAbout);
  }
};

// The forms a model can be converted to: {"forms": [{"key", "help"}]}.
struct ConvertListRequest {
  static constexpr const char* method = "convert.list";
  static constexpr const char* verb = "";
  template <class V>
  void fields(V&) {}
};

// The files lie in the folder `out`.
struct ConvertResult {
  std::string model, to, out;
  std::vector<std::string> files;
  std::vector<std::string> notes;  // what was done to the tensors, and what to know
  std::int64_t tensors = 0, parameters_before = 0, parameters = 0, bytes = 0;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("to", to), v("out", out), v("files", files), v("notes", notes);
    v("tensors", tensors), v("parameters_before", parameters_before);
    v("parameters", parameters), v("bytes", bytes), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
