#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "model/config.h"

// A checkpoint family: how to know its files, its configuration in ours, its tensors' names in
// ours. Nothing outside model/families and the load report knows which family a model came from.

namespace phasescope::model {

struct FamilyInput {
  const Json& config;
  const formats::TensorArchive& tensors;
  std::string where;  // the configuration's file, for errors
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

}  // namespace phasescope::model
