#include "app/views/profile_view.h"

namespace phasescope::app {

std::string ProfileView::help_text() const {
  return "How much a head's scores move with position (positional score) and how surely the "
         "order of two keys at one distance is that of their content (semantic score), arXiv "
         "2609.39929. A dot is a head; a click in the table selects it.";
}

std::string ProfileView::what_it_shows() const {
  return "How much of a head's scores is positional and how much semantic: a dot a head.";
}

double ProfileView::passes_of_a_text(const protocol::ProfileRequest&,
                                     const protocol::LoadReport&) const {
  return 1;
}

}  // namespace phasescope::app
