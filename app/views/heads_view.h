#pragma once

#include <map>

#include "app/views/view.h"
#include "protocol/messages/heads.h"
#include "widgets/head_grid.h"

namespace phasescope::app {

struct HeadsState {
  static constexpr const char* kView = "heads";
  std::string metric = "entropy";
  bool sorted = false;  // by the metric, largest first; else layers down, heads across
  double at_least = 0;  // heads whose metric is below are dimmed
  bool filtered = false;
  template <class V>
  void fields(V& v) {
    v("metric", metric), v("sorted", sorted), v("at_least", at_least), v("filtered", filtered);
  }
};

inline constexpr Asks<protocol::HeadsResult> kHeads{"heads", protocol::HeadsRequest::method,
                                                    "measuring the heads"};

// Every head of every open model as a thumbnail.
class HeadsView : public View {
 public:
  std::string id() const override { return "heads"; }
  std::string title() const override { return "Heads"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }
  void add_commands(std::vector<Command>& list) const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

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
  widgets::HeadGridSpec spec_of(const ViewContext& context, std::size_t index,
                                const HeadsAnswer& answer) const;

  std::map<std::string, Grid> grids_;
};

}  // namespace phasescope::app
