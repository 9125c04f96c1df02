#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/backward_table_tokens.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/backward-inl.h"
#include "kernels/cpu/entries.h"
#include "kernels/variants/table-inl.h"
#include "kernels/variants/tokens-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

void backward_table_tokens(const AttentionInputs& inputs, const SavedForward& saved,
                           const Gradients& gradients) {
  BackwardPass<TokenScore<TableScore>>(inputs, saved, gradients).run();
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void backward_table_tokens(const AttentionInputs& inputs, const SavedForward& saved,
                           const Gradients& gradients) {
  PHASESCOPE_SELECT_TARGET(backward_table_tokens)(inputs, saved, gradients);
}

}  // namespace phasescope::kernels
#endif
