#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phasescope::formats {

// Strings that texts are searched for, byte by byte.
class ByteTrie {
 public:
  ByteTrie() = default;
  // (string, value >= 0); of equal strings the last one counts. Empty strings are left out.
  explicit ByteTrie(std::vector<std::pair<std::string, std::int64_t>> entries);

  // Calls found(length, value) for every string that the text begins with, shortest first.
  template <typename Found>
  void each_prefix(std::string_view text, Found found) const {
    std::size_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (!step(node, static_cast<unsigned char>(text[at]))) return;
      if (nodes_[node].value >= 0) found(at + 1, nodes_[node].value);
    }
  }

  // The length of the longest string that the text begins with and its value; 0 where there is
  // none.
  std::pair<std::size_t, std::int64_t> longest_prefix(std::string_view text) const;
  bool empty() const { return nodes_.size() <= 1; }

 private:
  struct Node {
    std::uint32_t first_edge = 0, edges = 0;
    std::int64_t value = -1;
  };

  bool step(std::size_t& node, unsigned char byte) const;

  std::vector<Node> nodes_;  // the edges of a node lie together, ordered by their byte
  std::vector<unsigned char> bytes_;
  std::vector<std::uint32_t> targets_;
};

}  // namespace phasescope::formats
