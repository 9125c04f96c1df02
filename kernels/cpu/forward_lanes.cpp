#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forward_lanes.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/forward-inl.h"
#include "kernels/variants/lanes-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

void forward_lanes(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  run_forward<LaneScore>(inputs, outputs, probes);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void forward_lanes(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  PHASESCOPE_SELECT_TARGET(forward_lanes)(inputs, outputs, probes);
}

}  // namespace phasescope::kernels
#endif
