#include "tasks/factories.h"
#include "tasks/trees.h"

namespace phasescope::tasks {
namespace {

constexpr TreeRule kTreeCopy{.name = "copy",
                             .title = "Copy of a tree",
                             .help = "the same tree again",
                             .differs = "",
                             .draw = plain_tree,
                             .output = [](const Tree& tree) { return tree; }};

}  // namespace

std::unique_ptr<Task> tree_copy() { return tree_task(kTreeCopy, TreeOrder::breadth); }
std::unique_ptr<Task> tree_copy_depth() { return tree_task(kTreeCopy, TreeOrder::depth); }

}  // namespace phasescope::tasks
