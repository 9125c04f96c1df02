#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/backward_query_table.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/backward-inl.h"
#include "kernels/cpu/entries.h"
#include "kernels/variants/query_table-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

void backward_query_table(const AttentionInputs& inputs, const SavedForward& saved,
                          const Gradients& gradients) {
  BackwardPass<QueryTableScore>(inputs, saved, gradients).run();
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void backward_query_table(const AttentionInputs& inputs, const SavedForward& saved,
                          const Gradients& gradients) {
  PHASESCOPE_SELECT_TARGET(backward_query_table)(inputs, saved, gradients);
}

}  // namespace phasescope::kernels
#endif
