// Random attention problems of every variant, with sizes and terms that trained models have: what
// `bench kernels` times. A new variant adds its function here and a line in kernel_rivals.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/encoding.h"

namespace phasescope::worker {

struct KernelSize {
  std::int64_t heads = 1, n = 1, d = 1;  // tokens; numbers a head
};

// q, k, v and a state in one dtype; everything else float32.
struct KernelProblem {
  KernelSize size;
  model::AttentionProgram program;
  at::Tensor v;
  bool gradients = false;  // q, k and v ask for them
};

// Causal, of one text; `make` adds what a variant has, null for plain.
KernelProblem random_problem(void (*make)(KernelProblem&), const KernelSize& size,
                             at::ScalarType dtype, bool gradients);

void make_table(KernelProblem& problem);
void make_tapa(KernelProblem& problem);
void make_tape(KernelProblem& problem);
void make_cape(KernelProblem& problem);
void make_fire(KernelProblem& problem);

}  // namespace phasescope::worker
