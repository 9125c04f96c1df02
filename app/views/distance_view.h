#pragma once

#include "app/views/field_form.h"
#include "app/views/model_table.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "protocol/messages/distance.h"

namespace phasescope::app {

struct DistanceState {
  static constexpr const char* kView = "distance";
  std::string figure = "near - far";
  std::int64_t layer = -1;                      // -1: all layers pooled
  std::int64_t head = -1;                       // -1: all heads of the layer pooled
  nlohmann::json options = {{"corpus", true}};  // of the request (field_form.h)
  template <class V>
  void fields(V& v) {
    v("figure", figure), v("layer", layer), v("head", head), v("options", options);
  }
};

inline constexpr Asks<protocol::DistanceResult> kDistance{
    "distance", protocol::DistanceRequest::method, "measuring distances", Lane::slow};

// How scores and weights depend on distance, for all open models over each other.
class DistanceView : public View {
 public:
  std::string id() const override { return "distance"; }
  std::string title() const override { return "Distance bias"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right_bottom; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override {
    return kernels_of(context, kDistance);
  }
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override {
    return command_of<protocol::DistanceRequest>(asked_of_all(context, kDistance));
  }

 private:
  void draw_controls(ViewContext& context);
  bool draw_place(ViewContext& context, DistanceState& state);
  void draw_results(ViewContext& context, const ShownAnswers<protocol::DistanceResult>& answers);
  ModelRows numbers_of(const ViewContext& context, const protocol::DistanceResult& result) const;

  OptionsForm form_;
  PlotGrid grid_;
  Cached<protocol::DistanceResult> result_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
  Cached<ModelRows> numbers_;
  ModelTable table_;
};

}  // namespace phasescope::app
