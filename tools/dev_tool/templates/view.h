#pragma once

#include "app/views/view.h"

namespace phasescope::app {

// Write me: what it shows.
class NewNameView : public View {
 public:
  std::string id() const override { return "NEW_NAME"; }
  std::string title() const override { return "NEW_NAME"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right; }
  bool has_figures() const override { return false; }
  void draw_content(ViewContext& context) override;
};

}  // namespace phasescope::app
