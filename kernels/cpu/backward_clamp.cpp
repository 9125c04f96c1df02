#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/backward_clamp.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/backward-inl.h"
#include "kernels/cpu/entries.h"
#include "kernels/variants/clamp-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

void backward_clamp(const AttentionInputs& inputs, const SavedForward& saved,
                    const Gradients& gradients) {
  BackwardPass<ClampScore>(inputs, saved, gradients).run();
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void backward_clamp(const AttentionInputs& inputs, const SavedForward& saved,
                    const Gradients& gradients) {
  PHASESCOPE_SELECT_TARGET(backward_clamp)(inputs, saved, gradients);
}

}  // namespace phasescope::kernels
#endif
