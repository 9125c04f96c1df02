#include "app/views/xray_view.h"

namespace phasescope::app {

std::string XrayView::help_text() const {
  return "Which heads fail past the trained length: the loss beyond it where a head alone is "
         "given a window or a clamp, and where all but it are; the weight on what training never "
         "showed. With \"repair\" the fewest heads found whose treatment is enough, measured "
         "on other texts. Many passes over each text.";
}

std::string XrayView::what_it_shows() const {
  return "Which heads fail past the trained length, and the smallest repair.";
}

// As it is, all treated, and each place treated alone and left out alone.
double XrayView::passes_of_a_text(const protocol::XrayRequest& request,
                                  const protocol::LoadReport& report) const {
  const auto count = [](const std::vector<std::int64_t>& chosen, std::int64_t all) {
    return static_cast<double>(chosen.empty() ? all : static_cast<std::int64_t>(chosen.size()));
  };
  double places = count(request.chosen.layers, report.model.layers);
  if (request.by == "head") places *= count(request.chosen.heads, report.model.heads);
  return 2 + 2 * places;
}

}  // namespace phasescope::app
