#pragma once

#include <array>
#include <chrono>
#include <map>

#include "app/figures/figures.h"
#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// The attention map of the selected head, from the whole down to single pairs; two models side by
// side or their difference.
class MapView : public View {
 public:
  std::string id() const override { return "map"; }
  std::string title() const override { return "Attention map"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  using MapAnswer = Answer<protocol::MapResult>;
  struct Picture {
    widgets::HeatmapTexture texture;
    Cached<widgets::PlotSpec> plot;
    std::uint64_t texture_version = 0;
  };
  struct Scene {
    std::vector<const MapAnswer*> answers;
    std::vector<const widgets::PlotSpec*> plots;  // one for each answer, then the difference
    bool difference = false;
  };
  Scene scene_of(ViewContext& context);
  void draw_controls(ViewContext& context);
  void draw_maps(ViewContext& context);
  void draw_one(ViewContext& context, const char* name, const widgets::PlotSpec& plot,
                Picture& picture, ImVec2 size, bool alone);
  void draw_single(ViewContext& context, const Scene& scene, ImVec2 room);
  void draw_side_by_side(ViewContext& context, const Scene& scene, ImVec2 room);
  void draw_selection(ViewContext& context);
  widgets::PlotSpec plot_of(const Session& session, const MapAnswer& answer) const;
  void follow_session(ViewContext& context, int64_t tokens);
  void settle(ViewContext& context, int64_t tokens);
  std::vector<std::size_t> shown_models(const Session& session) const;

  std::array<Picture, 3> pictures_;
  Cached<std::array<widgets::PlotSpec, 2>> profiles_;
  widgets::AxisLink x_, y_;
  MapState applied_;  // the region that the axes were last set to
  int64_t applied_tokens_ = 0;
  widgets::AxisLink seen_x_, seen_y_;
  std::chrono::steady_clock::time_point moved_at_;
  bool moving_ = false;
  int cells_ = 384;  // of an edge, as asked for
  std::string pointer_text_;
};

}  // namespace phasescope::app
