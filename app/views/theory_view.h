#pragma once

#include "app/views/field_form.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "protocol/messages/theory.h"
#include "widgets/data_table.h"

namespace phasescope::app {

struct TheoryState {
  static constexpr const char* kView = "theory";
  std::string check;                                  // the one shown in full
  std::string verdict;                                // of those that are listed; empty: all
  nlohmann::json options = nlohmann::json::object();  // of the request (field_form.h)
  template <class V>
  void fields(V& v) {
    v("check", check), v("verdict", verdict), v("options", options);
  }
};

inline constexpr Asks<protocol::TheoryResult> kTheory{"theory", protocol::TheoryRequest::method,
                                                      "checking", Lane::slow};
// Which checks there are; asked of no model.
struct TheoryChecks {
  std::vector<protocol::CheckInfo> checks;
  template <class V>
  void fields(V& v) {
    v("checks", checks);
  }
};
inline constexpr Asks<TheoryChecks> kTheoryChecks{"theory", protocol::TheoryListRequest::method,
                                                  "listing the checks"};

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
  using Checks = std::vector<const protocol::CheckResult*>;
  void draw_controls(ViewContext& context);
  bool draw_choice_of_checks(const ViewContext& context, TheoryState& state);
  Checks listed(const ViewContext& context) const;
  // The one that was chosen, or else the first.
  static const protocol::CheckResult& shown_check(const ViewContext& context, const Checks& checks);
  void draw_list(ViewContext& context, const Checks& checks);
  void draw_check(ViewContext& context, const protocol::CheckResult& check);

  OptionsForm form_;
  PlotGrid grid_;
  widgets::DataTable table_;
  Cached<widgets::TableSpec> rows_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
