#pragma once
// What tables call the fields of a result: titles and units, as its list of fields has them.
#include <map>
#include <string>

#include "protocol/about.h"

namespace phasescope::protocol {

// "loss (nats)": how units stand behind what they are of, in tables, figures and the window. Square
// brackets are those of intervals.
inline std::string with_unit(const std::string& words, const std::string& unit) {
  return unit.empty() ? words : words + " (" + unit + ")";
}

// "loss (nats)", "length (tokens)": the title, or the name where that is clear, and the unit.
inline std::string heading_of(const std::string& name, const About& about) {
  return with_unit(*about.title ? about.title : name, about.unit);
}

// By name, of every field of Row.
template <class Row>
std::map<std::string, std::string> headings_of() {
  std::map<std::string, std::string> headings;
  auto visit = [&headings](const char* name, auto&, const About& about = {}) {
    headings[name] = heading_of(name, about);
  };
  Row row{};
  row.fields(visit);
  return headings;
}

}  // namespace phasescope::protocol
