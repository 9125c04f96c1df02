// Random attention problems as `bench kernels` times them: those that the kernels' tests draw too
// (kernels/problems/), as a model's program. A new variant adds a line in kernel_rivals.cpp, and
// how its numbers become a program's here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "kernels/problems/problems.h"
#include "model/attention_program.h"

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

// What belongs to tokens (q, k and v, a state, a gate, far q and k) in one dtype; everything else
// float32.
struct KernelProblem {
  KernelSize size;
  model::AttentionProgram program;
  at::Tensor v;
  bool gradients = false;  // q, k and v ask for them
  // What the program adds to the scores of all pairs, for rivals that read it from memory; copies
  // of the problem share it. Undefined before make_dense_bias() or make_sink_bias().
  std::shared_ptr<at::Tensor> bias = std::make_shared<at::Tensor>();
};

// Causal, of one text, of a form: its variant and what stands beside it. One seed, one problem, and
// in every layout the same numbers. `beside`: a problem of the same size, dtype, seed and layout,
// with which it shares q, k and v, that are the same numbers; null for none.
KernelProblem random_problem(const kernels::problems::Problem& form, const KernelSize& size,
                             at::ScalarType dtype, std::uint64_t seed,
                             Layout layout = Layout::contiguous,
                             const KernelProblem* beside = nullptr);
// The same numbers, of which the gradients are wanted.
KernelProblem with_gradients(const KernelProblem& problem);

// (1, H, N, N) where q is and of its dtype, -inf above the diagonal; once a problem.
void make_dense_bias(const KernelProblem& problem);
// The same with columns behind it for keys of 0, (1, H, N, N + kSinkColumns): the sinks in the
// first of these, -inf in the others.
void make_sink_bias(const KernelProblem& problem);
// A GPU's rows of a bias begin at multiples of 16 bytes.
inline constexpr std::int64_t kSinkColumns = 8;

}  // namespace phasescope::worker
