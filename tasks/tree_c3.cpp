#include "tasks/factories.h"
#include "tasks/trees.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kOperator = 4;

Tree c3_tree(std::int64_t depth, Random& random) {
  return drawn_tree(
      depth, random, [](Random& r) { return r.between(1, 3); }, [](Random&) { return kOperator; });
}

// Every operator over two leaves becomes their product in the cyclic group of three, once.
Tree reduced(const Tree& tree) {
  if (tree.leaf()) return tree;
  const Tree &left = tree.children[0], &right = tree.children[1];
  if (left.leaf() && right.leaf()) return {(left.id + right.id - 2) % 3 + 1, {}};
  Tree result{tree.id, {}};
  result.children.push_back(reduced(left));
  result.children.push_back(reduced(right));
  return result;
}

constexpr TreeRule kTreeC3{.name = "c3",
                           .title = "Reduction in C3",
                           .help = "each operator over two leaves replaced by its value",
                           .differs = "one pass, as in the public code",
                           .leaf_symbols = 3,
                           .inner_symbols = 1,
                           .draw = c3_tree,
                           .output = reduced};

}  // namespace

std::unique_ptr<Task> tree_c3() { return tree_task(kTreeC3, TreeOrder::breadth); }
std::unique_ptr<Task> tree_c3_depth() { return tree_task(kTreeC3, TreeOrder::depth); }

}  // namespace phasescope::tasks
