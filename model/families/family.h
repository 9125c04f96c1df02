#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "formats/tensors/safetensors.h"
#include "model/config.h"

// A checkpoint family: how to know its files, its configuration in ours, its tensors' names in
// ours. Nothing outside model/families and the load report knows which family a model came from.

namespace phasescope::model {

struct FamilyInput {
  const Json& config;
  const std::vector<formats::TensorEntry>& tensors;  // of the file; none where it is not there
  std::string where;                                 // the configuration's file, for errors
  bool config_alone = false;  // what tensors there are is then what the configuration says
  std::string prefix = {};    // of keys in messages, where `config` is a part ("text_config.")

  const formats::TensorEntry* find(const std::string& name) const;  // null where there is none
};

// Where a tensor of the file goes.
struct TensorPlace {
  std::string name;      // canonical; empty for a tensor nobody expects
  bool ignored = false;  // known, and not needed
  // From the file's shape to ours, where they differ. The result may be a view.
  std::function<at::Tensor(const at::Tensor&)> convert = {};
  // The shape in the file, where it is not the canonical one; unchecked where `convert` stands
  // alone.
  std::vector<std::int64_t> stored = {};
  // Several canonical tensors in one of the file (query_key_value); `name` is empty then.
  std::vector<TensorPlace> parts = {};
  std::string why = {};  // it is ignored; empty: it is computed here
};

struct Translation {
  ModelConfig config;
  std::string encoding_why;           // what in the files says which encoding it is
  std::vector<std::string> quirks;    // departures that were reproduced
  std::vector<std::string> warnings;  // clashes and the like
  std::function<TensorPlace(const std::string& name)> place;
};

struct Family {
  const char* key;
  bool (*claims)(const FamilyInput& input);
  // Throws Error "bad_input" that lists all problems.
  Translation (*translate)(const FamilyInput& input);
};

// Asked in this order; the first that claims a checkpoint reads it.
const std::vector<Family>& families();

// By the family that claims it, whose key comes in `family`. Throws Error "bad_input" where none
// does, and as the family's translate.
Translation translate(const FamilyInput& input, std::string& family);

}  // namespace phasescope::model
