#pragma once

#include "app/views/view.h"
#include "protocol/messages/distance.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

struct DistanceState {
  static constexpr const char* kView = "distance";
  std::string figure = "near - far";
  bool corpus = true;
  int64_t layer = -1;  // -1: all layers pooled
  template <class V>
  void fields(V& v) {
    v("figure", figure), v("corpus", corpus), v("layer", layer);
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
  void draw_results(ViewContext& context, const ShownAnswers<protocol::DistanceResult>& answers);
  void draw_table(const ViewContext& context, const protocol::DistanceResult& result);

  Cached<protocol::DistanceResult> result_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
