#include "formats/near_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace phasescope::formats {
namespace {

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string comma_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> names_near(const std::string& name,
                                    const std::vector<std::string>& known) {
  std::vector<std::string> near;
  for (const std::string& candidate : known) {
    const std::size_t allowed = std::max<std::size_t>(1, name.size() / 3);
    const bool contains = name.size() >= 3 && candidate.find(name) != std::string::npos;
    if (contains || edit_distance(name, candidate) <= allowed) near.push_back(candidate);
  }
  return near;
}

std::string near_names(const std::string& name, const std::vector<std::string>& known) {
  const std::vector<std::string> near = names_near(name, known);
  if (!near.empty()) return "; near: " + comma_list(near);
  return known.size() <= 12 && !known.empty() ? "; known: " + comma_list(known) : "";
}

std::string hint_of_names(const std::vector<std::string>& unknown,
                          const std::vector<std::string>& known) {
  std::vector<std::string> near;
  for (const std::string& name : unknown) {
    for (std::string& one : names_near(name, known)) {
      if (std::ranges::find(near, one) == near.end()) near.push_back(std::move(one));
    }
  }
  return near.empty() ? "known: " + comma_list(known) : "near: " + comma_list(near);
}

}  // namespace phasescope::formats
