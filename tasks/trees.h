#pragma once
// Transduction of binary trees: the encoder reads a tree breadth-first, the decoder writes another
// one breadth- or depth-first. A node's place: the root 1, children of p 2p and 2p + 1.
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace phasescope::tasks {

struct Tree {
  std::int64_t id = 0;
  std::vector<Tree> children;  // none, or two
  bool leaf() const { return children.empty(); }
};

inline constexpr std::int64_t kDeepestTree = 62;  // places are 64 bits

struct TreeRule {
  const char* name;  // copy, rotate, c3, ops
  const char* title;
  const char* help;
  const char* differs;
  std::int64_t vocabulary = 22;
  std::int64_t leaf_symbols = 10, inner_symbols = 10;  // leaves have the lower ids, from 1 on
  std::int64_t least_depth = 0, most_depth = 12;
  Tree (*draw)(std::int64_t depth, Random& random) = nullptr;
  Tree (*output)(const Tree& input) = nullptr;
};

enum class TreeOrder { breadth, depth };
std::unique_ptr<Task> tree_task(const TreeRule& rule, TreeOrder order);

// A shape of this depth: one child of depth - 1, the other of any smaller depth, sides by coin.
// `leaf` and `inner` give the ids.
template <class Leaf, class Inner>
Tree drawn_tree(std::int64_t depth, Random& random, Leaf&& leaf, Inner&& inner) {
  if (depth == 0) return {leaf(random), {}};
  Tree tree{inner(random), {}};
  const std::int64_t other = random.below(depth);
  const bool deep_left = random.coin();
  for (const bool left : {true, false}) {
    tree.children.push_back(drawn_tree(left == deep_left ? depth - 1 : other, random, leaf, inner));
  }
  return tree;
}

// The task's leaves 1..10 and inner nodes 11..20.
Tree plain_tree(std::int64_t depth, Random& random);

}  // namespace phasescope::tasks
