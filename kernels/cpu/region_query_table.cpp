#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/region_query_table.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/region-inl.h"
#include "kernels/variants/query_table-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

void region_query_table(const RegionCall& call) { run_region<QueryTableScore>(call); }

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void region_query_table(const RegionCall& call) {
  PHASESCOPE_SELECT_TARGET(region_query_table)(call);
}

}  // namespace phasescope::kernels
#endif
