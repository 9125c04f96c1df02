// Random attention problems of every variant, with sizes and terms that trained models have: what
// `bench kernels` times. A new variant adds its function here and a line in kernel_rivals.cpp.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model/encoding.h"

namespace phasescope::worker {

struct KernelSize {
  std::int64_t heads = 1, n = 1, d = 1;  // tokens; numbers a head
};

// How q, k and v lie in memory: the rows of a head one behind the other, or a token's heads beside
// each other, as V of every model lies, and q and k where nothing turns them.
enum class Layout { contiguous, model };

// From one row of a head to the next in a model's layout, where these heads are not wider by
// themselves: the numbers of a model of 32 heads of 128. In float32 they are 16 KiB, so that all
// rows fall into one set of an L1 cache.
inline constexpr std::int64_t kModelRow = 4096;

// q, k, v and a state in one dtype; everything else float32.
struct KernelProblem {
  KernelSize size;
  at::Generator random;  // of what `make` draws
  model::AttentionProgram program;
  at::Tensor v;
  bool gradients = false;  // q, k and v ask for them
  // What the program adds to the scores of all pairs, for rivals that read it from memory; copies
  // of the problem share it. Undefined before make_dense_bias().
  std::shared_ptr<at::Tensor> bias = std::make_shared<at::Tensor>();
};

// Causal, of one text; `make` adds what a variant has, null for plain. One seed, one problem.
// In every layout the same numbers.
KernelProblem random_problem(void (*make)(KernelProblem&), const KernelSize& size,
                             at::ScalarType dtype, std::uint64_t seed,
                             Layout layout = Layout::contiguous);
// The same numbers, of which the gradients are wanted.
KernelProblem with_gradients(const KernelProblem& problem);

void make_table(KernelProblem& problem);
void make_tapa(KernelProblem& problem);
void make_tape(KernelProblem& problem);
void make_cape(KernelProblem& problem);
void make_fire(KernelProblem& problem);

// (1, H, N, N) where q is and of its dtype, -inf above the diagonal; once a problem.
void make_dense_bias(const KernelProblem& problem);

}  // namespace phasescope::worker
