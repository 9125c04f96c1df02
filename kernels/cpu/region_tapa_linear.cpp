#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/region_tapa_linear.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/region-inl.h"
#include "kernels/variants/tapa-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

void region_tapa_linear(const RegionCall& call) { run_region<TapaLinearScore>(call); }

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void region_tapa_linear(const RegionCall& call) {
  PHASESCOPE_SELECT_TARGET(region_tapa_linear)(call);
}

}  // namespace phasescope::kernels
#endif
