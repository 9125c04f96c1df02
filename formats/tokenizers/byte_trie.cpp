#include "formats/tokenizers/byte_trie.h"

#include <algorithm>

namespace phasescope::formats {
namespace {

// Entries [first, last) share their first `depth` bytes and hang below `node`.
struct Task {
  std::size_t node, first, last, depth;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<std::pair<std::string, std::int64_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  nodes_.emplace_back();
  std::vector<Task> tasks = {{0, 0, entries.size(), 0}};
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    auto [node, first, last, depth] = tasks[t];
    for (; first < last && entries[first].first.size() == depth; ++first) {
      nodes_[node].value = entries[first].second;
    }
    nodes_[node].first_edge = static_cast<std::uint32_t>(targets_.size());
    while (first < last) {
      const char byte = entries[first].first[depth];
      std::size_t end = first;
      while (end < last && entries[end].first[depth] == byte) ++end;
      bytes_.push_back(static_cast<unsigned char>(byte));
      targets_.push_back(static_cast<std::uint32_t>(nodes_.size()));
      ++nodes_[node].edges;
      tasks.push_back({nodes_.size(), first, end, depth + 1});
      nodes_.emplace_back();
      first = end;
    }
  }
}

bool ByteTrie::step(std::size_t& node, unsigned char byte) const {
  if (nodes_.empty()) return false;
  const Node& from = nodes_[node];
  const auto first = bytes_.begin() + from.first_edge;
  const auto last = first + from.edges;
  const auto edge = std::lower_bound(first, last, byte);
  if (edge == last || *edge != byte) return false;
  node = targets_[static_cast<std::size_t>(edge - bytes_.begin())];
  return true;
}

std::pair<std::size_t, std::int64_t> ByteTrie::longest_prefix(std::string_view text) const {
  std::pair<std::size_t, std::int64_t> longest{0, -1};
  each_prefix(text, [&longest](std::size_t length, std::int64_t value) {
    longest = {length, value};
  });
  return longest;
}

}  // namespace phasescope::formats
