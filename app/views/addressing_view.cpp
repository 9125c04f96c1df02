#include "app/views/addressing_view.h"

namespace phasescope::app {

std::string AddressingView::help_text() const {
  return "What the scores of a head are made of: shares of their variance within rows that "
         "effects of distance and of key fit, and the rest, which only the pair can say. A dot "
         "is a head in the triangle of the three; a whisker ends where it would stand if its "
         "trend, which distance and key can both have, were the key's. A click selects a head.";
}

std::string AddressingView::what_it_shows() const {
  return "Whether a head addresses by distance, by key, or by what only the pair can say: a dot "
         "a head in a triangle.";
}

double AddressingView::passes_of_a_text(const protocol::AddressingRequest&,
                                        const protocol::LoadReport&) const {
  return 1;
}

}  // namespace phasescope::app
