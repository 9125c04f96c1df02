#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forward_clamp.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/forward-inl.h"
#include "kernels/variants/clamp-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

void forward_clamp(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  run_forward<ClampScore>(inputs, outputs, probes);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void forward_clamp(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  PHASESCOPE_SELECT_TARGET(forward_clamp)(inputs, outputs, probes);
}

}  // namespace phasescope::kernels
#endif
