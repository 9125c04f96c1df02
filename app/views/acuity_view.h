#pragma once

#include "app/views/question_view.h"

namespace phasescope::app {

using AcuityState = QuestionState<protocol::AcuityRequest>;

inline constexpr Asks<protocol::AcuityResult> kAcuity{"acuity", protocol::AcuityRequest::method,
                                                      "measuring the acuity", Lane::slow};

// How finely the models need to know distance, and at which distances.
class AcuityView : public QuestionView<protocol::AcuityRequest, protocol::AcuityResult> {
 public:
  std::string title() const override { return "Acuity"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle_bottom; }

 protected:
  const Asks<protocol::AcuityResult>& asks() const override { return kAcuity; }
  std::string what_it_shows() const override;
  double passes_of_a_text(const protocol::AcuityRequest& request,
                          const protocol::LoadReport& model) const override;
};

}  // namespace phasescope::app
