#include "app/views/views.h"

#include "app/views/acuity_view.h"
#include "app/views/addressing_view.h"
#include "app/views/arcs_view.h"
#include "app/views/compare_view.h"
#include "app/views/cost_view.h"
#include "app/views/demand_view.h"
#include "app/views/distance_view.h"
#include "app/views/extrapolation_view.h"
#include "app/views/heads_view.h"
#include "app/views/intervene_view.h"
#include "app/views/jobs_view.h"
#include "app/views/map_view.h"
#include "app/views/models_view.h"
#include "app/views/pair_view.h"
#include "app/views/patterns_view.h"
#include "app/views/profile_view.h"
#include "app/views/query_key_view.h"
#include "app/views/query_view.h"
#include "app/views/shift_view.h"
#include "app/views/text_view.h"
#include "app/views/theory_view.h"
#include "app/views/xray_view.h"

namespace phasescope::app {

std::vector<std::unique_ptr<View>> all_views() {
  std::vector<std::unique_ptr<View>> views;
  views.push_back(std::make_unique<ModelsView>());
  views.push_back(std::make_unique<TextView>());
  views.push_back(std::make_unique<HeadsView>());
  views.push_back(std::make_unique<MapView>());
  views.push_back(std::make_unique<QueryKeyView>());
  views.push_back(std::make_unique<PatternsView>());
  views.push_back(std::make_unique<DistanceView>());
  views.push_back(std::make_unique<ShiftView>());
  views.push_back(std::make_unique<TheoryView>());
  views.push_back(std::make_unique<CompareView>());
  views.push_back(std::make_unique<ExtrapolationView>());
  views.push_back(std::make_unique<JobsView>());
  views.push_back(std::make_unique<DemandView>());
  views.push_back(std::make_unique<AddressingView>());
  views.push_back(std::make_unique<ProfileView>());
  views.push_back(std::make_unique<XrayView>());
  views.push_back(std::make_unique<AcuityView>());
  views.push_back(std::make_unique<CostView>());
  views.push_back(std::make_unique<PairView>());
  views.push_back(std::make_unique<InterveneView>());
  views.push_back(std::make_unique<ArcsView>());
  views.push_back(std::make_unique<QueryView>());
  return views;
}

}  // namespace phasescope::app
