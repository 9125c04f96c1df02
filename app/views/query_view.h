#pragma once

#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "protocol/messages/query.h"
#include "widgets/data_table.h"

namespace phasescope::app {

struct QueryState {
  static constexpr const char* kView = "query";
  bool table = true, pictures = true;
  widgets::TableArrangement arrangement;
  template <class V>
  void fields(V& v) {
    v("table", table), v("pictures", pictures), v("search", arrangement.search);
    v("column", arrangement.column), v("descending", arrangement.descending);
  }
};

inline constexpr Asks<protocol::QueryResult> kQuery{"query", protocol::QueryRequest::method,
                                                    "reading one row of every head"};

// The selected token as the query of every head of every open model: where each looks.
class QueryView : public View {
 public:
  std::string id() const override { return "query"; }
  std::string title() const override { return "One query"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override { return kernels_of(context, kQuery); }
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override {
    return command_of<protocol::QueryRequest>(asked_of_all(context, kQuery));
  }

 private:
  // What a row of the table is about.
  struct Place {
    std::int64_t model = 0, layer = 0, head = 0;
    std::optional<std::int64_t> key;  // that of the largest weight
    std::int64_t query = 0;
  };
  struct Rows {
    widgets::TableSpec spec;
    std::vector<Place> places;
  };
  void draw_controls(ViewContext& context);
  void draw_pictures(ViewContext& context, const ShownAnswers<protocol::QueryResult>& answers,
                     float below);
  void draw_one(ViewContext& context, const widgets::PlotSpec& plot, widgets::PlotDraw options,
                const ShownAnswers<protocol::QueryResult>& answers);
  void draw_table(ViewContext& context, const Rows& rows);
  Rows rows_of(const ViewContext& context,
               const ShownAnswers<protocol::QueryResult>& answers) const;

  PlotGrid grid_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
  Cached<Rows> rows_;
  widgets::DataTable table_;
};

}  // namespace phasescope::app
