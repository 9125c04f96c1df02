#include "app/views/cost_view.h"

#include <algorithm>
#include <string>
#include <utility>

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
  const float font = ImGui::GetFontSize(), spacing = ImGui::GetStyle().ItemInnerSpacing.x;
  const float beside =
      ImGui::CalcTextSize((std::to_string(kMostTokensOfSlider) + " tokens").c_str()).x + spacing;
  next_control(11 * font + beside);
  const float room = ImGui::GetContentRegionAvail().x - beside;
  ImGui::SetNextItemWidth(std::clamp(room, 3 * font, 11 * font));
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
