#include "app/views/cost_view.h"

namespace phasescope::app {
namespace {

constexpr int kMostTokensOfSlider = 1 << 20;

}  // namespace

std::string CostView::help_text() const {
  return "Operations, parameters and memory of one forward pass, counted from the configuration: "
         "\"executed\" is what the kernels here do, \"published\" follows the conventions of "
         "TAPE's Table 3. The slider sets how many tokens are read; Options takes any number.";
}

std::string CostView::what_it_shows() const {
  return "Operations, parameters and memory of a forward pass, part by part.";
}

// What is typed into the options can be more than the slider has.
void CostView::draw_more(ViewContext& context) {
  auto form = context.state<CostState>();
  const auto asked = form.params.value("length", protocol::CostRequest{}.length);
  const bool held = tokens_ > 0;
  int tokens =
      held ? tokens_ : static_cast<int>(std::min<std::int64_t>(asked, kMostTokensOfSlider));
  next_control(ImGui::GetFontSize() * 15);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 11);
  // The number stands beside it: the handle would cover it.
  const std::string label = std::to_string(tokens) + " tokens###tokens";
  if (ImGui::SliderInt(label.c_str(), &tokens, 1, kMostTokensOfSlider, "",
                       ImGuiSliderFlags_Logarithmic | ImGuiSliderFlags_AlwaysClamp)) {
    tokens_ = tokens;
  }
  tooltip("Tokens of the forward pass");
  if (!ImGui::IsItemDeactivatedAfterEdit()) return;
  protocol::CostRequest request;
  request.length = std::exchange(tokens_, 0);
  form.params = protocol::params_of(request);
  context.set_state("Count for another length", form, "length");
}

}  // namespace phasescope::app
