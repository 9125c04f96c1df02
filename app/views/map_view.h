#pragma once

#include <array>
#include <chrono>
#include <map>

#include "app/figures/figures.h"
#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// Which region of the map is on show stands in the session itself.
struct MapState {
  static constexpr const char* kView = "map";
  std::string of = "weight", pool = "max";
  std::string show = "a";  // a, both, difference
  bool logarithmic = false;
  template <class V>
  void fields(V& v) {
    v("of", of), v("pool", pool), v("show", show), v("logarithmic", logarithmic);
  }
};

inline constexpr Asks<protocol::MapResult> kMap{"map", protocol::MapRequest::method,
                                                "computing the map"};

// The attention map of the selected head, from the whole down to single pairs; two models side by
// side or their difference.
class MapView : public View {
 public:
  std::string id() const override { return "map"; }
  std::string title() const override { return "Attention map"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right; }
  void add_commands(std::vector<Command>& list) const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  using MapAnswer = Answer<protocol::MapResult>;
  struct Picture {
    widgets::HeatmapTexture texture;
    Cached<widgets::PlotSpec> plot;
    std::uint64_t texture_version = 0;
  };
  // A map on show; old: another one is asked for by now.
  struct Shown {
    const MapAnswer* answer;
    bool old;
  };
  struct Scene {
    std::vector<Shown> maps;
    std::vector<const widgets::PlotSpec*> plots;  // one for each map, then the difference
    bool difference = false;
    bool old(std::size_t plot) const;
  };
  std::vector<Shown> maps_shown(const ViewContext& context) const;
  Scene scene_of(ViewContext& context);
  void draw_controls(ViewContext& context);
  void draw_maps(ViewContext& context);
  void draw_obstacle(ViewContext& context, const Scene& scene);
  void draw_one(ViewContext& context, const char* name, const widgets::PlotSpec& plot,
                Picture& picture, ImVec2 size, bool alone);
  void draw_title(ViewContext& context);
  void draw_single(ViewContext& context, const Scene& scene, ImVec2 room);
  void draw_side_by_side(ViewContext& context, const Scene& scene, ImVec2 room);
  void draw_selection(ViewContext& context);
  widgets::PlotSpec plot_of(const ViewContext& context, const MapAnswer& answer) const;
  void follow_session(ViewContext& context, int64_t tokens);
  void settle(ViewContext& context, int64_t tokens);
  std::vector<std::size_t> shown_models(const ViewContext& context) const;

  std::array<Picture, 3> pictures_;
  Cached<std::array<widgets::PlotSpec, 2>> profiles_;
  widgets::AxisLink x_, y_;
  Region applied_;  // the region that the axes were last set to
  int64_t applied_tokens_ = 0;
  widgets::AxisLink seen_x_, seen_y_;
  std::chrono::steady_clock::time_point moved_at_;
  bool moving_ = false;
  int cells_ = 384;  // of an edge, as asked for
  std::string pointer_text_;
};

}  // namespace phasescope::app
