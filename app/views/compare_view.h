#pragma once

#include "app/figures/intervention_figures.h"
#include "app/views/field_form.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/heads.h"
#include "widgets/data_table.h"

namespace phasescope::app {

struct CompareState {
  static constexpr const char* kView = "compare";
  std::string a = {}, b = {};  // models; empty: the selected one, and the first other one
  std::string figure = "same heads";
  std::string other = {};  // file of a second text that A reads, in place of B; empty: none
  nlohmann::json options = nlohmann::json::object();  // of the request (field_form.h)
  template <class V>
  void fields(V& v) {
    v("a", a), v("b", b), v("figure", figure), v("other", other), v("options", options);
  }
};

inline constexpr Asks<protocol::CompareResult> kCompare{"compare", protocol::CompareRequest::method,
                                                        "comparing", Lane::slow};
// What is asked about the heads of A with one another.
inline constexpr Asks<protocol::HeadsResult> kDivergences{"compare", protocol::HeadsRequest::method,
                                                          "comparing heads", Lane::slow};

// Whether a matrix of heads has over twice as many on one side as on the other: as a strip of
// square cells its names would lie on each other, so its cells take the room that there is.
bool is_oblong(const widgets::PlotSpec& plot);
// Puts the marks of a map's cells in their middles: in a figure's file they leave room for the
// cell's number, which the window does not write.
void centre_marks(widgets::PlotSpec& plot);

// Two open models, or one on two texts, head by head: how far the same heads are apart, which heads
// of any layer are most alike, and where in the text the losses differ; and the heads of one model
// with one another.
class CompareView : public View {
 public:
  std::string id() const override { return "compare"; }
  std::string title() const override { return "Compare"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  // What is shown: of one model alone, or of two.
  struct Models {
    std::string a, b;
  };
  Models models_of(const ViewContext& context) const;
  bool of_one_model(const ViewContext& context) const;
  void draw_controls(ViewContext& context);
  bool draw_model_choice(const ViewContext& context, const char* id, const std::string& now,
                         std::string& chosen);
  bool draw_other_text(const ViewContext& context, CompareState& state);
  std::vector<widgets::PlotSpec> plots_of(const ViewContext& context) const;
  std::string key_of(const ViewContext& context) const;
  void draw_results(ViewContext& context);
  void draw_matches(ViewContext& context, const protocol::CompareResult& result);
  void show_pair(ViewContext& context, const protocol::HeadMatch& heads);
  static std::optional<HeadsALayer> heads_of(const ViewContext& context,
                                             const Answer<protocol::CompareResult>& answer);
  void click_on_matrix(ViewContext& context, const widgets::PlotSpec& plot,
                       const widgets::PlotDrawn& drawn);

  OptionsForm form_;
  std::string path_;  // that is being typed
  PlotGrid grid_;
  widgets::DataTable table_;
  Cached<widgets::TableSpec> rows_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
