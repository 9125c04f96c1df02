#pragma once

#include "app/views/question_view.h"

namespace phasescope::app {

inline constexpr Asks<protocol::PairResult> kPair{"pair", protocol::PairRequest::method,
                                                  "measuring the pair"};

// The selected pair: its phasors, and where its key would have to stand to be read.
class PairView : public QuestionView<protocol::PairRequest, protocol::PairResult> {
 public:
  std::string title() const override { return "Pair"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right; }

 protected:
  const Asks<protocol::PairResult>& asks() const override { return kPair; }
  std::string what_it_shows() const override;
  double passes_of_a_text(const protocol::PairRequest& request,
                          const protocol::LoadReport& model) const override;
  bool instant(const QuestionForm&) const override { return true; }
  std::string obstacle(const ViewContext& context, std::size_t index) const override;
  void add_selection(protocol::PairRequest& request, const Session& session) const override;
  std::vector<std::string> given_by_selection() const override { return {"head", "query", "key"}; }
};

}  // namespace phasescope::app
