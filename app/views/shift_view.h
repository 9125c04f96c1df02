#pragma once

#include "app/views/field_form.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "protocol/messages/shift.h"
#include "widgets/data_table.h"

namespace phasescope::app {

struct ShiftState {
  static constexpr const char* kView = "shift";
  std::int64_t shown = 3;  // in the figures by layer; the table has all
  std::string figure = "attention by layer";
  nlohmann::json options = nlohmann::json::object();  // of the request (field_form.h)
  template <class V>
  void fields(V& v) {
    v("shown", shown), v("figure", figure), v("options", options);
  }
};

inline constexpr Asks<protocol::ShiftResult> kShift{"shift", protocol::ShiftRequest::method,
                                                    "shifting", Lane::slow};

// What moving a text does to a model: its position ids shifted, or tokens put before it.
class ShiftView : public View {
 public:
  std::string id() const override { return "shift"; }
  std::string title() const override { return "Shift stability"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right_bottom; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override { return kernels_of(context, kShift); }
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override {
    return command_of<protocol::ShiftRequest>(asked_of_all(context, kShift));
  }

 private:
  void draw_controls(ViewContext& context);
  widgets::PlotSpec plot_of(const ViewContext& context, protocol::ShiftResult result) const;
  void draw_results(ViewContext& context, const ShownAnswers<protocol::ShiftResult>& answers);
  void draw_table(ViewContext& context, const widgets::TableSpec& spec);

  OptionsForm form_;
  PlotGrid grid_;
  Cached<protocol::ShiftResult> result_;
  Cached<widgets::TableSpec> table_spec_;
  widgets::DataTable table_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
