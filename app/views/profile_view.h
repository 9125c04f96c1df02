#pragma once

#include "app/views/question_view.h"

namespace phasescope::app {

using ProfileState = QuestionState<protocol::ProfileRequest>;

inline constexpr Asks<protocol::ProfileResult> kProfile{"profile", protocol::ProfileRequest::method,
                                                        "profiling the heads", Lane::slow};

// How much of the scores of every head is positional, how much semantic.
class ProfileView : public QuestionView<protocol::ProfileRequest, protocol::ProfileResult> {
 public:
  std::string title() const override { return "Profile"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }

 protected:
  const Asks<protocol::ProfileResult>& asks() const override { return kProfile; }
  std::string what_it_shows() const override;
  double passes_of_a_text(const protocol::ProfileRequest& request,
                          const protocol::LoadReport& model) const override;
};

}  // namespace phasescope::app
