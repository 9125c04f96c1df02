#pragma once

#include <map>

#include "app/figures/figures.h"
#include "app/views/field_form.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"

namespace phasescope::app {

struct PatternsState {
  static constexpr const char* kView = "patterns";
  std::int64_t layer = 0;
  std::string figure = "dot products";
  nlohmann::json options = nlohmann::json::object();  // of the request (field_form.h)
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("figure", figure), v("options", options);
  }
};

inline constexpr Asks<protocol::PatternsResult> kPatterns{
    "patterns", protocol::PatternsRequest::method, "computing the patterns"};

// What the encoding itself does: dot products of positions, mean and head by head, drift with
// depth, bias, spectra and angles.
class PatternsView : public View {
 public:
  std::string id() const override { return "patterns"; }
  std::string title() const override { return "PE patterns"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }
  void drop_closed(const Session& session) override { keep_open(session, pictures_); }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override {
    return kernels_of(context, kPatterns);
  }
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  using PatternsAnswer = Answer<protocol::PatternsResult>;
  struct Picture {
    Cached<std::vector<GroupedFigure>> figures;    // all that the encoding has
    Cached<std::vector<widgets::PlotSpec>> plots;  // those on show
    PlotGrid grid;
  };
  void draw_controls(ViewContext& context);
  void draw_model(ViewContext& context, std::size_t index);
  void draw_drift(ViewContext& context);
  Saved saved_drift(const ViewContext& context,
                    const ShownAnswers<protocol::PatternsResult>& answers);
  // The drift of the state of these, in one figure; none where no state drifts.
  std::vector<widgets::PlotSpec> drift_of(const ViewContext& context,
                                          const ShownAnswers<protocol::PatternsResult>& answers);
  const std::vector<GroupedFigure>& figures_of_answer(const ViewContext& context,
                                                      const PatternsAnswer& answer);
  // Layers of which some model has the figure on show.
  std::vector<std::int64_t> layers_of_all(const ViewContext& context);

  // The figures that some model has, in the order in which results list them.
  std::vector<std::string> groups_of_all(const ViewContext& context);

  std::map<std::string, Picture> pictures_;
  Cached<std::vector<widgets::PlotSpec>> drift_;
  PlotGrid drift_grid_;
  OptionsForm form_;
};

}  // namespace phasescope::app
