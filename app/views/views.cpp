#include "app/views/views.h"

#include "app/views/compare_view.h"
#include "app/views/distance_view.h"
#include "app/views/extrapolation_view.h"
#include "app/views/heads_view.h"
#include "app/views/jobs_view.h"
#include "app/views/map_view.h"
#include "app/views/models_view.h"
#include "app/views/patterns_view.h"
#include "app/views/query_key_view.h"
#include "app/views/shift_view.h"
#include "app/views/text_view.h"
#include "app/views/theory_view.h"

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
  return views;
}

}  // namespace phasescope::app
