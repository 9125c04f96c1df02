#pragma once

#include <array>
#include <chrono>
#include <map>

#include "app/figures/figures.h"
#include "app/figures/map_look.h"
#include "app/views/text_view.h"
#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// Which region of the map is on show stands in the session itself, and so does A: the selected
// head.
struct MapState {
  static constexpr const char* kView = "map";
  std::string of = "weight", pool = "max";
  std::string show = "a";  // a, both, difference
  MapLook look = {};
  bool square = true;         // cells
  std::string b = {};         // model of B; empty: the first open one that is not A's
  std::int64_t b_layer = -1;  // of B's head; -1: the same head as A's
  std::int64_t b_head = 0;    // -1: the mean of the layer's heads
  std::string b_stack = {};   // of an encoder-decoder, as Selection has it
  std::string b_text = {};    // what B reads (id_of_text); empty: the text that A reads
  bool mean = false;          // A alone, and it is the mean of the heads chosen in Heads
  template <class V>
  void fields(V& v) {
    v("of", of), v("pool", pool), v("show", show), v("look", look), v("square", square);
    v("b", b), v("b_layer", b_layer), v("b_head", b_head), v("b_stack", b_stack);
    v("b_text", b_text);
    v("mean", mean);
  }
};

inline constexpr Asks<protocol::MapResult> kMap{"map", protocol::MapRequest::method,
                                                "computing the map"};
// B where it is another head of A's model.
inline constexpr Asks<protocol::MapResult> kMapBeside{"map beside", protocol::MapRequest::method,
                                                      "computing the map"};

// "12, 3": a query and a key; "12": a query, and itself as the key. Nothing where it is neither.
std::optional<std::pair<std::int64_t, std::int64_t>> pair_in(const std::string& words);
// The region on show, moved so that a pair is in its middle; a small one where all of the text is
// on show.
Region region_around(const Region& now, std::int64_t query, std::int64_t key, std::int64_t queries,
                     std::int64_t keys);
// The region on show, `by` times as many queries and keys of those that there are, around the
// selected pair, or its own middle where none is. Empty, which is all, where that is all.
Region zoomed(const Region& now, double by, const Selection& selection, std::int64_t queries,
              std::int64_t keys);

// Beside a map: the mean of each column of cells, or (upright) the largest weight of each row of
// cells, whose mean says nothing, and of other quantities its mean.
widgets::PlotSpec map_profile(const Answer<protocol::MapResult>& answer, bool upright);
// The texts of the tokens on [axis.low, axis.high] as labels in the middle of their cells, of the
// text that an answer is about; none where a cell of so many pixels has no room for one.
std::vector<widgets::AxisTick> token_ticks(const ViewContext& context, std::size_t model,
                                           const Asked& about, const widgets::AxisLink& axis,
                                           float pixels, bool upright);

// The attention map of the selected head, from the whole down to single pairs; two models side by
// side or their difference.
class MapView : public View {
 public:
  std::string id() const override { return "map"; }
  std::string title() const override { return "Attention map"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right; }
  void add_commands(std::vector<Command>& list) const override;
  // Only the models whose maps are shown have to be known: the others may still be opened.
  bool ready(const ViewContext& context) const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

  using MapAnswer = Answer<protocol::MapResult>;
  // A map on show; old: another one is asked for by now.
  struct Shown {
    const MapAnswer* answer;
    std::size_t model;
    bool old;
    std::string text = {};  // what it is called where it is not the session's
  };

 private:
  // A or B: whose map it is.
  struct Side {
    std::size_t model = 0;
    std::vector<std::string> heads;  // as a request has them: "L3H1", "cross.L0H2"; several: mean
    bool beside = false;             // asked as kMapBeside
    std::string obstacle;            // why it cannot be shown; empty where it can
    TextInput text = {};             // what it reads
    std::string text_name = {};      // where that is not the session's
  };
  struct Picture {
    widgets::HeatmapTexture texture;
    Cached<widgets::PlotSpec> plot;
    std::uint64_t texture_version = 0;
    ImVec2 labels{0, 0};  // what the axes' labels took in the frame before
    ImVec2 axes{0, 0};    // and the size of the axes themselves
    std::vector<widgets::AxisTick> x_ticks, y_ticks;
  };
  struct Scene {
    std::vector<Shown> maps;
    std::vector<const widgets::PlotSpec*> plots;  // one for each map, then the difference
    bool difference = false;
    std::string obstacle;  // why there is none, where it is wanted
    bool old(std::size_t plot) const;
  };
  // Pictures beside each other: so many in a row, each with so much room.
  struct Places {
    int columns = 1;
    ImVec2 size{0, 0};
  };
  // "rope L3H1", of an encoder-decoder with its stack; "rope mean of L3H1, L4H0".
  static std::string words_of(const Session& session, const Shown& shown);
  // The heads of a model that are chosen in Heads, as a request has them.
  static std::vector<std::string> chosen_heads(const ViewContext& context, std::size_t model);
  std::vector<Side> sides(const ViewContext& context) const;
  const KeptText& text_of_b(const ViewContext& context) const;
  bool draw_text_of_b(const ViewContext& context, MapState& state);
  std::vector<Asked> asked_of_maps(const ViewContext& context) const;
  QuestionOf<protocol::MapResult>& question_of(const ViewContext& context, const Side& side) const;
  std::vector<Shown> maps_shown(const ViewContext& context) const;
  Scene scene_of(ViewContext& context);
  void draw_controls(ViewContext& context);
  bool draw_colors(ViewContext& context, MapState& state);
  bool draw_mean(const ViewContext& context, MapState& state);
  bool draw_b(const ViewContext& context, MapState& state);
  bool draw_head_of_b(const ViewContext& context, MapState& state);
  void draw_goto(ViewContext& context);
  void draw_maps(ViewContext& context);
  static void draw_obstacle(const Scene& scene);
  void draw_one(ViewContext& context, const Scene& scene, std::size_t plot, ImVec2 room,
                std::size_t model);
  static std::string values_at(const Scene& scene, widgets::PlotPointer at);
  void set_token_ticks(const ViewContext& context, Picture& picture, std::size_t model,
                       const Asked& about) const;
  void draw_title(ViewContext& context);
  void draw_single(ViewContext& context, const Scene& scene, ImVec2 room);
  void draw_side_by_side(ViewContext& context, const Scene& scene, ImVec2 room);
  Places places_of(int count, ImVec2 room) const;
  void draw_selection(ViewContext& context);
  static widgets::PlotSpec map_figure(const ViewContext& context, const Shown& shown);
  MapLook look_of(const ViewContext& context, const std::vector<Shown>& maps) const;
  MapLook look_to_say(const ViewContext& context, const std::vector<Shown>& maps,
                      bool subtracts) const;
  widgets::PlotSpec plot_of(const ViewContext& context, const Shown& shown,
                            const MapLook& look) const;
  void follow_session(ViewContext& context, std::int64_t tokens, std::int64_t keys);
  void settle(ViewContext& context, std::int64_t tokens, std::int64_t keys);
  double ratio() const;

  std::array<Picture, 3> pictures_;
  mutable Cached<KeptText> text_of_b_;
  Cached<MapLook> look_;
  Cached<std::array<widgets::PlotSpec, 2>> profiles_;
  widgets::AxisLink x_, y_;
  Region applied_;                                      // the region that the axes were last set to
  std::int64_t applied_tokens_ = 0, applied_keys_ = 0;  // that there were then
  widgets::AxisLink seen_x_, seen_y_;
  std::chrono::steady_clock::time_point moved_at_;
  bool moving_ = false;
  int cells_ = 384;  // of an edge, as asked for
  std::string pointer_text_, goto_;
};

}  // namespace phasescope::app
