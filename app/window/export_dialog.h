#pragma once

#include <string>
#include <vector>

#include "app/window/figure_file.h"
#include "app/window/view_context.h"

namespace phasescope::app {

// What a view asks to be saved, as it was when it asked.
struct ExportRequest {
  std::string title;  // of the view
  std::vector<FigureToSave> figures;
};

// Where, how large and in which form figures are written. Shown while window.to_export holds a
// request. Nothing is written over a file that is there before the dialog has said so.
class ExportDialog {
 public:
  void draw(ViewContext& context);

 private:
  void draw_which();
  void draw_form(FigureForm& form);
  bool draw_place(FigureForm& form);
  void draw_buttons(ViewContext& context, const FigureForm& form);
  std::vector<const FigureToSave*> chosen() const;
  std::vector<std::string> paths(const FigureForm& form) const;
  void write(ViewContext& context, const FigureForm& form);

  std::shared_ptr<const ExportRequest> request_;
  int which_ = -1;  // of the request's figures; -1: all
};

}  // namespace phasescope::app
