#pragma once

#include "app/views/question_view.h"

namespace phasescope::app {

using DemandState = QuestionState<protocol::DemandRequest>;

inline constexpr Asks<protocol::DemandResult> kDemand{"demand", protocol::DemandRequest::method,
                                                      "measuring the demand", Lane::slow};

// At which distances every head wants more weight, and the bias that would repair the model.
class DemandView : public QuestionView<protocol::DemandRequest, protocol::DemandResult> {
 public:
  std::string title() const override { return "Demand"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }

 protected:
  const Asks<protocol::DemandResult>& asks() const override { return kDemand; }
  std::string what_it_shows() const override;
  double passes_of_a_text(const protocol::DemandRequest& request,
                          const protocol::LoadReport& model) const override;
  bool joins(const protocol::DemandRequest& request) const override { return !request.fit; }
  std::string figure_of_selection(const Selection& at) const override {
    return "_L" + std::to_string(at.layer);
  }
};

}  // namespace phasescope::app
