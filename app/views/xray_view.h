#pragma once

#include "app/views/question_view.h"

namespace phasescope::app {

using XrayState = QuestionState<protocol::XrayRequest>;

inline constexpr Asks<protocol::XrayResult> kXray{"xray", protocol::XrayRequest::method,
                                                  "x-raying the heads", Lane::slow};

// Which heads fail past the trained length, and the smallest repair.
class XrayView : public QuestionView<protocol::XrayRequest, protocol::XrayResult> {
 public:
  std::string title() const override { return "X-ray"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle; }

 protected:
  const Asks<protocol::XrayResult>& asks() const override { return kXray; }
  std::string what_it_shows() const override;
  double passes_of_a_text(const protocol::XrayRequest& request,
                          const protocol::LoadReport& model) const override;
  // Twice the trained length is read where none is asked for.
  std::int64_t tokens_of_a_text(const protocol::XrayRequest&,
                                const protocol::LoadReport& model) const override {
    return 2 * model.model.context;
  }
  bool may_take_longer(const protocol::XrayRequest& request) const override {
    return request.repair;
  }
};

}  // namespace phasescope::app
