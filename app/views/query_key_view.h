#pragma once

#include "app/figures/query_key_figures.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "protocol/messages/capture.h"

namespace phasescope::app {

struct QueryKeyState {
  static constexpr const char* kView = "query_key";
  std::string figure = "the selected pair";
  template <class V>
  void fields(V& v) {
    v("figure", figure);
  }
};

inline constexpr Asks<protocol::CaptureResult> kQueryKey{
    "query_key", protocol::CaptureRequest::method, "reading q and k"};

// q and k of the selected head by channel, before and after what the encoding does to them: of the
// selected pair with their products, or of every token.
class QueryKeyView : public View {
 public:
  std::string id() const override { return "query_key"; }
  std::string title() const override { return "Query and key"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  using CaptureAnswer = Answer<protocol::CaptureResult>;
  const CaptureAnswer* answer_of(const ViewContext& context) const;
  QueryKey values_of(const ViewContext& context, const CaptureAnswer& answer) const;
  std::vector<widgets::PlotSpec> plots_of(const ViewContext& context, const QueryKey& values) const;

  PlotGrid grid_;
  Cached<QueryKey> values_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
