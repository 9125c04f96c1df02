#pragma once
// One factory for each task; tasks.cpp lists them.
#include <memory>

#include "tasks/task.h"

namespace phasescope::tasks {

std::unique_ptr<Task> addition();
std::unique_ptr<Task> passkey();
std::unique_ptr<Task> needle();
std::unique_ptr<Task> needle_noise();
std::unique_ptr<Task> even_pairs();
std::unique_ptr<Task> parity_check();
std::unique_ptr<Task> cycle_navigation();
std::unique_ptr<Task> modular_arithmetic_simple();
std::unique_ptr<Task> modular_arithmetic();
std::unique_ptr<Task> solve_equation();
std::unique_ptr<Task> stack_manipulation();
std::unique_ptr<Task> reverse_string();
std::unique_ptr<Task> duplicate_string();
std::unique_ptr<Task> missing_duplicate();
std::unique_ptr<Task> odds_first();
std::unique_ptr<Task> binary_addition();
std::unique_ptr<Task> binary_multiplication();
std::unique_ptr<Task> compute_sqrt();
std::unique_ptr<Task> bucket_sort();
std::unique_ptr<Task> s5();
std::unique_ptr<Task> s5_identity();
std::unique_ptr<Task> seq_copy();
std::unique_ptr<Task> seq_reverse();
std::unique_ptr<Task> seq_repeat();
std::unique_ptr<Task> tree_copy();
std::unique_ptr<Task> tree_copy_depth();
std::unique_ptr<Task> tree_rotate();
std::unique_ptr<Task> tree_rotate_depth();
std::unique_ptr<Task> tree_c3();
std::unique_ptr<Task> tree_c3_depth();
std::unique_ptr<Task> tree_ops();
std::unique_ptr<Task> tree_ops_depth();
std::unique_ptr<Task> shapes();
std::unique_ptr<Task> cifar10();

}  // namespace phasescope::tasks
