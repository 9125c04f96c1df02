#pragma once

#include "app/views/view.h"
#include "protocol/messages/theory.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

struct TheoryState {
  static constexpr const char* kView = "theory";
  std::string check;  // the one shown in full
  template <class V>
  void fields(V& v) {
    v("check", check);
  }
};

inline constexpr Asks<protocol::TheoryResult> kTheory{"theory", protocol::TheoryRequest::method,
                                                      "checking", Lane::slow};

// Every theorem check on every open model: verdict, number, bound, noise, and its plot.
class TheoryView : public View {
 public:
  std::string id() const override { return "theory"; }
  std::string title() const override { return "Theory"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override {
    return kernels_of(context, kTheory);
  }
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override {
    return command_of<protocol::TheoryRequest>(asked_of_all(context, kTheory));
  }

 private:
  void draw_list(ViewContext& context, const std::vector<const protocol::CheckResult*>& checks);
  void draw_check(const ViewContext& context, const protocol::CheckResult& check);

  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
