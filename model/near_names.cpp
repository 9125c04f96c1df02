#include "model/near_names.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace phasescope::model {
namespace {

// Levenshtein distance.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::string near_names(const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::string> near;
  for (const std::string& candidate : known) {
    const std::size_t allowed = std::max<std::size_t>(1, name.size() / 3);
    const bool contains = name.size() >= 3 && candidate.find(name) != std::string::npos;
    if (contains || edit_distance(name, candidate) <= allowed) near.push_back(candidate);
  }
  if (!near.empty()) return "; near: " + joined(near);
  return known.size() <= 12 && !known.empty() ? "; known: " + joined(known) : "";
}

}  // namespace phasescope::model
