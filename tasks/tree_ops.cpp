#include <numeric>

#include "formats/error.h"
#include "tasks/factories.h"
#include "tasks/trees.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kLeaves = 64, kInner = 60;
constexpr std::int64_t kSubtree = 124, kExchanged = 125, kCut = 126, kWhole = 127;

// 1 + first .. first + count in a drawn order (Fisher and Yates).
Ids shuffled(std::int64_t first, std::int64_t count, Random& random) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), first + 1);
  for (std::int64_t i = count - 1; i > 0; --i) {
    std::swap(ids[static_cast<std::size_t>(i)], ids[static_cast<std::size_t>(random.below(i + 1))]);
  }
  return ids;
}

void collect(const Tree& tree, Ids& ids) {
  ids.push_back(tree.id);
  for (const Tree& child : tree.children) collect(child, ids);
}

// A tree of distinct nodes; one that has more than there are ids is drawn again.
Tree distinct_tree(std::int64_t depth, Random& random) {
  while (true) {
    const Ids leaves = shuffled(0, kLeaves, random), inner = shuffled(kLeaves, kInner, random);
    std::size_t leaf = 0, node = 0;
    const auto next = [](const Ids& ids, std::size_t& at) {
      return ids[std::min(at++, ids.size() - 1)];
    };
    Tree tree = drawn_tree(
        depth, random, [&](Random&) { return next(leaves, leaf); },
        [&](Random&) { return next(inner, node); });
    if (leaf <= leaves.size() && node <= inner.size()) return tree;
  }
}

// op(leaf that names a node, tree): depth is that of the whole.
Tree ops_tree(std::int64_t depth, Random& random) {
  Tree tree = distinct_tree(depth - 1, random);
  Ids ids;
  collect(tree, ids);
  const std::int64_t named =
      ids[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(ids.size())))];
  Tree whole{kSubtree + random.below(4), {}};
  whole.children.push_back({named, {}});
  whole.children.push_back(std::move(tree));
  return whole;
}

const Tree* found(const Tree& tree, std::int64_t id) {
  if (tree.id == id) return &tree;
  for (const Tree& child : tree.children) {
    if (const Tree* in = found(child, id)) return in;
  }
  return nullptr;
}

Tree cut_back(const Tree& tree, std::int64_t id) {
  if (tree.id == id) return {id, {}};
  Tree result{tree.id, {}};
  for (const Tree& child : tree.children) result.children.push_back(cut_back(child, id));
  return result;
}

Tree ops_output(const Tree& whole) {
  if (whole.leaf()) throw formats::bad_input("an input of ops is an operator over leaf and tree");
  const std::int64_t named = whole.children[0].id;
  const Tree& tree = whole.children[1];
  if (whole.id == kWhole) return tree;
  if (whole.id == kCut) return cut_back(tree, named);
  const Tree* subtree = found(tree, named);
  if (subtree == nullptr || (whole.id != kSubtree && whole.id != kExchanged)) {
    throw formats::bad_input("an input of ops names no node of its tree, or no operator");
  }
  Tree result = *subtree;
  if (whole.id == kExchanged && !result.leaf()) std::swap(result.children[0], result.children[1]);
  return result;
}

constexpr TreeRule kTreeOps{
    .name = "ops",
    .title = "Operations on a tree",
    .help = "a subtree, its exchange, a cut, or the whole, as an operator says",
    .differs =
        "the cut subtree becomes a leaf of its id; 124 is an operator and an inner node's "
        "id, as in the public code",
    .vocabulary = 130,
    .leaf_symbols = kLeaves,
    .inner_symbols = kInner,
    .least_depth = 1,
    .draw = ops_tree,
    .output = ops_output};

}  // namespace

std::unique_ptr<Task> tree_ops() { return tree_task(kTreeOps, TreeOrder::breadth); }
std::unique_ptr<Task> tree_ops_depth() { return tree_task(kTreeOps, TreeOrder::depth); }

}  // namespace phasescope::tasks
