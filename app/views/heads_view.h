#pragma once

#include <map>

#include "app/views/view.h"
#include "widgets/head_grid.h"

namespace phasescope::app {

// Every head of every open model as a thumbnail.
class HeadsView : public View {
 public:
  std::string id() const override { return "heads"; }
  std::string title() const override { return "Heads"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  using HeadsAnswer = Answer<protocol::HeadsResult>;
  struct Grid {
    widgets::HeatmapTexture atlas;
    std::uint64_t atlas_serial = 0;
    widgets::CellMarks marks;
    Cached<widgets::HeadGridSpec> spec;
  };
  void draw_controls(ViewContext& context);
  void draw_model(ViewContext& context, std::size_t index);
  void draw_head_tooltip(const ViewContext& context, const HeadsAnswer& answer, int cell) const;
  widgets::HeadGridSpec spec_of(const Session& session, std::size_t index,
                                const HeadsAnswer& answer) const;

  std::map<std::string, Grid> grids_;
};

}  // namespace phasescope::app
