#include "app/views/pair_view.h"

namespace phasescope::app {

std::string PairView::help_text() const {
  return "One query and one key of the selected head: their phasors head to tail, and the score "
         "and the weight that the key would have at every other distance, the other keys staying "
         "where they are. Click a cell of the attention map, or a token, to choose the pair.";
}

std::string PairView::what_it_shows() const {
  return "Where the key of the selected pair would have to stand to be read.";
}

double PairView::passes_of_a_text(const protocol::PairRequest&, const protocol::LoadReport&) const {
  return 1;
}

// A key that the query cannot see has no score.
std::string PairView::obstacle(const ViewContext& context, std::size_t index) const {
  const Selection& at = context.session().selection;
  if (at.head < 0) return "Select one head: the mean of a layer has no pair of its own.";
  if (at.query && at.key && *at.key > *at.query) {
    return "Select a key that the query sees, at or before it.";
  }
  return head_obstacle(context, index);
}

void PairView::add_selection(protocol::PairRequest& request, const Session& session) const {
  const Selection& at = session.selection;
  request.head = name_of_head(at.layer, at.head);
  if (at.query) request.query = *at.query;
  if (at.query && at.key) request.key = *at.key;
}

}  // namespace phasescope::app
