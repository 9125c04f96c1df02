#include "app/views/acuity_view.h"

#include <cmath>

namespace phasescope::app {

std::string AcuityView::help_text() const {
  return "How finely a model needs to know distance, and where: in every row the keys of a band "
         "of distances are shown at each other's distances, and the loss changes by what that "
         "costs. Over rows that see at least half of the band; many passes over each text.";
}

std::string AcuityView::what_it_shows() const {
  return "How finely the models need to know distance, band by band.";
}

// One as it is, and one for each band, seed and place that is permuted alone.
double AcuityView::passes_of_a_text(const protocol::AcuityRequest& request,
                                    const protocol::LoadReport& report) const {
  const protocol::ModelSummary& model = report.model;
  const auto count = [](const std::vector<std::int64_t>& chosen, std::int64_t all) {
    return static_cast<double>(chosen.empty() ? all : static_cast<std::int64_t>(chosen.size()));
  };
  double bands = static_cast<double>(request.bands.size());
  if (request.bands.empty()) {  // octaves to the trained length
    bands = std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(model.context, 2))));
  }
  double places = 1;
  if (request.by != "model") places += count(request.chosen.layers, model.layers);
  if (request.by == "head") {
    places =
        1 + count(request.chosen.layers, model.layers) * count(request.chosen.heads, model.heads);
  }
  return 1 + bands * static_cast<double>(request.seeds.size()) * places;
}

}  // namespace phasescope::app
