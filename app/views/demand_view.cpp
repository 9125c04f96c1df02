#include "app/views/demand_view.h"

namespace phasescope::app {

std::string DemandView::help_text() const {
  return "At which distances each head wants more weight: minus the derivative of the loss by a "
         "bias at that distance, summed over buckets. Positive where the loss falls if weight "
         "moves there. With \"fit\" the bias itself is fitted on some of the texts, and chosen and "
         "measured on others. A click in the table selects a head; the figure follows the "
         "selected layer.";
}

std::string DemandView::what_it_shows() const {
  return "At which distances the heads want more weight, and the bias that would repair a model.";
}

// A pass forward and one backward. A fit does so at every step on a quarter of the texts, and reads
// another quarter; the rest is for what is told.
double DemandView::passes_of_a_text(const protocol::DemandRequest& request,
                                    const protocol::LoadReport&) const {
  return 3 + (request.fit ? static_cast<double>(request.steps) + 2 : 0);
}

}  // namespace phasescope::app
