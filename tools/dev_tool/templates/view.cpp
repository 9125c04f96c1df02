#include "app/views/NEW_NAME_view.h"

namespace phasescope::app {

std::string NewNameView::help_text() const { return "Write me: what is shown, and how to read it."; }

void NewNameView::draw_content(ViewContext&) { ImGui::TextUnformatted("write me"); }

}  // namespace phasescope::app
