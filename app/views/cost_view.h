#pragma once

#include "app/views/question_view.h"
#include "protocol/messages/cost.h"

namespace phasescope::app {

using CostState = QuestionState<protocol::CostRequest>;

inline constexpr Asks<protocol::CostResult> kCost{"cost", protocol::CostRequest::method,
                                                  "counting operations"};

// What a forward pass of the open models costs: operations, parameters and memory, part by part.
class CostView : public QuestionView<protocol::CostRequest, protocol::CostResult> {
 public:
  std::string title() const override { return "Cost"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle_bottom; }

 protected:
  const Asks<protocol::CostResult>& asks() const override { return kCost; }
  std::string what_it_shows() const override;
  bool instant(const QuestionForm&) const override { return true; }
  double passes_of_a_text(const protocol::CostRequest&,
                          const protocol::LoadReport&) const override {
    return 0;  // it is counted from the configuration
  }
  void draw_more(ViewContext& context) override;

 private:
  int tokens_ = 0;  // of the slider while it is held
};

}  // namespace phasescope::app
