#pragma once

#include "app/views/question_view.h"

namespace phasescope::app {

using AddressingState = QuestionState<protocol::AddressingRequest>;

inline constexpr Asks<protocol::AddressingResult> kAddressing{
    "addressing", protocol::AddressingRequest::method, "measuring the addressing", Lane::slow};

// Whether heads address by distance, by key or by what only the pair can say.
class AddressingView
    : public QuestionView<protocol::AddressingRequest, protocol::AddressingResult> {
 public:
  std::string title() const override { return "Addressing"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }

 protected:
  // The axes cover 1.1 by 1, and the triangle is one of equal sides.
  float shape_of_figures() const override { return 1.15F; }
  const Asks<protocol::AddressingResult>& asks() const override { return kAddressing; }
  std::string what_it_shows() const override;
  double passes_of_a_text(const protocol::AddressingRequest& request,
                          const protocol::LoadReport& model) const override;
};

}  // namespace phasescope::app
