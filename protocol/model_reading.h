#pragma once
// A model and the settings it is read with, as one name that every request, table and figure can
// carry: "rope (yarn x2)" is rope with encoding.scaling=yarn and encoding.factor=2, "rope
// (base=1e6)" with encoding.base=1e6.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phasescope::protocol {

using Settings = std::vector<std::pair<std::string, std::string>>;  // as --set takes them

struct ModelReading {
  std::string model;
  Settings settings = {};
};

// "NAME (SETTINGS)"; NAME alone where there are none. Settings of the encoding lose their
// "encoding.", a scaling and its factor become "yarn x2".
std::string name_of(const ModelReading& reading);

// The other way. A name that does not end in such settings, or that a file or folder here has, is a
// model's as it stands.
ModelReading model_reading(const std::string& name);

}  // namespace phasescope::protocol
