#include "tasks/factories.h"
#include "tasks/trees.h"

namespace phasescope::tasks {
namespace {

// A node n whose left child p is no leaf becomes p, with n to its right; anything else ends the
// branch.
Tree rotated(const Tree& n) {
  if (n.leaf() || n.children[0].leaf()) return n;
  const Tree& p = n.children[0];
  Tree right{n.id, {}};
  right.children.push_back(rotated(p.children[1]));
  right.children.push_back(rotated(n.children[1]));
  Tree top{p.id, {}};
  top.children.push_back(rotated(p.children[0]));
  top.children.push_back(std::move(right));
  return top;
}

constexpr TreeRule kTreeRotate{
    .name = "rotate",
    .title = "Rotation of a tree",
    .help = "the tree rotated to the right where the left child is no leaf",
    .differs =
        "one pass from the root, as in the public code; the paper's text says until nothing "
        "changes",
    .draw = plain_tree,
    .output = rotated};

}  // namespace

std::unique_ptr<Task> tree_rotate() { return tree_task(kTreeRotate, TreeOrder::breadth); }
std::unique_ptr<Task> tree_rotate_depth() { return tree_task(kTreeRotate, TreeOrder::depth); }

}  // namespace phasescope::tasks
