#pragma once

#include "app/views/field_form.h"
#include "app/views/model_table.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "protocol/messages/eval.h"

namespace phasescope::app {

struct ExtrapolationState {
  static constexpr const char* kView = "extrapolation";
  std::string figure = "loss by position";
  // Few texts, since the question asks itself; the interval says what that is worth.
  EvalChoices choices{.options = {{"trials", 16}}};
  template <class V>
  void fields(V& v) {
    v("figure", figure);
    choices.fields(v);
  }
};

inline constexpr Asks<protocol::EvalResult> kEval{"extrapolation", protocol::EvalRequest::method,
                                                  "evaluating", Lane::slow};
// All open models in one question, whose texts are paired; asked where the differences are shown.
inline constexpr Asks<protocol::EvalResult> kEvalTogether{
    "extrapolation together", protocol::EvalRequest::method, "evaluating together", Lane::slow};
// Which tasks there are; asked of no model.
inline constexpr Asks<protocol::EvalTasks> kEvalTasks{
    "extrapolation", protocol::EvalListRequest::method, "listing the tasks"};

// Tokens of the texts that show how a model reads past its trained length: that length, twice and
// four times it. A table of learned positions ends, so those that it has, or else a quarter, half
// and all of the trained length. Of a trained length above kLongestRead / 4 that much stands in for
// it, since the question asks itself; none where the trained length is not known.
constexpr std::int64_t kLongestRead = 16384;
std::vector<std::int64_t> eval_lengths(const protocol::LoadReport& report);

// What is read, and how: "perplexity of the bundled validation texts".
std::string words_of_reading(const protocol::EvalRequest& request);

// A task past the trained length: against length, by position where it has that, and what the
// models differ by, paired by text.
class ExtrapolationView : public View {
 public:
  std::string id() const override { return "extrapolation"; }
  std::string title() const override { return "Extrapolation"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle_bottom; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override { return kernels_of(context, kEval); }
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override {
    return command_of<protocol::EvalRequest>(asked_of_all(context, kEval));
  }

 private:
  void draw_controls(ViewContext& context);
  protocol::EvalRequest request_of(const ViewContext& context,
                                   std::vector<std::string> models) const;
  static const Answer<protocol::EvalResult>* differences_beside(
      const ViewContext& context, const ShownAnswers<protocol::EvalResult>& answers);
  static protocol::EvalResult merged(const ViewContext& context,
                                     const ShownAnswers<protocol::EvalResult>& answers);
  std::vector<widgets::PlotSpec> figures_to_draw(const ViewContext& context,
                                                 const protocol::EvalResult& result) const;
  void draw_results(ViewContext& context, const ShownAnswers<protocol::EvalResult>& answers);
  // Of answers that there are, as words_of_reading() has it.
  const std::string& words_of_shown(const ShownAnswers<protocol::EvalResult>& answers);
  // `shown` says what the rows are of.
  ModelRows numbers_of(const ViewContext& context, const protocol::EvalResult& result,
                       const std::string& shown) const;

  EvalForm form_;
  PlotGrid grid_;
  std::uint64_t tasks_serial_ = 0;  // of the list of tasks that was asked by
  Cached<std::string> reading_;
  Cached<protocol::EvalResult> result_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
  Cached<ModelRows> numbers_;
  ModelTable table_;
};

}  // namespace phasescope::app
