#pragma once
// How a head is called everywhere: in figures, tables, options and files.
#include <cstdint>
#include <string>

namespace phasescope::protocol {

// "L3H5", "L3" for the mean of a layer's heads.
inline std::string name_of_head(std::int64_t layer, std::int64_t head) {
  const std::string name = "L" + std::to_string(layer);
  return head < 0 ? name : name + "H" + std::to_string(head);
}

}  // namespace phasescope::protocol
