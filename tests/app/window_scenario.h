#pragma once
// Scripted users of the window: Dear ImGui's test engine drives it without a display.
#include <gtest/gtest.h>
#include <imgui_te_context.h>
#include <imgui_te_engine.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "tests/widgets/headless_imgui.h"

namespace phasescope::app {

using ScenarioStep = void (*)(ImGuiTestContext*);

// Frames until the condition holds, at most so long.
template <class Condition>
bool holds_within(ImGuiTestContext* ctx, std::chrono::seconds limit, Condition holds) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ctx->Yield();
  }
  return holds();
}

// What play_scenario() made for the script that runs.
template <class Stage>
Stage& stage_in(ImGuiTestContext* ctx) {
  return *static_cast<Stage*>(ctx->Test->UserData);
}

// Runs one script to its end and expects that it passed. A Stage has a `main_window`.
template <class Stage>
void play_scenario(ScenarioStep step, std::chrono::seconds limit) {
  std::optional<phasescope::testing::HeadlessImGui> gui(std::in_place);
  auto stage = std::make_unique<Stage>();
  ImGuiTestEngine* engine = ImGuiTestEngine_CreateContext();
  ImGuiTestEngineIO& io = ImGuiTestEngine_GetIO(engine);
  io.ConfigRunSpeed = ImGuiTestRunSpeed_Fast;
  io.ConfigNoThrottle = true;
  io.ConfigVerboseLevel = ImGuiTestVerboseLevel_Silent;
  io.ConfigVerboseLevelOnError = ImGuiTestVerboseLevel_Info;
  io.ConfigLogToTTY = true;
  io.ConfigWatchdogWarning = io.ConfigWatchdogKillTest = static_cast<float>(limit.count());
  ImGuiTest* test = IM_REGISTER_TEST(engine, "window", "scenario");
  test->TestFunc = step;
  test->UserData = stage.get();
  ImGuiTestEngine_Start(engine, ImGui::GetCurrentContext());
  stage->main_window.start_asking();
  const auto frame = [&] {
    gui->begin_frame();
    stage->main_window.draw();
    gui->end_frame();
    ImGuiTestEngine_PostSwap(engine);
  };
  for (int i = 0; i < 20; ++i) frame();
  ImGuiTestEngine_QueueTest(engine, test);
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!ImGuiTestEngine_IsTestQueueEmpty(engine) && std::chrono::steady_clock::now() < end) {
    frame();
  }
  EXPECT_EQ(test->Output.Status, ImGuiTestStatus_Success);
  ImGuiTestEngine_Stop(engine);
  stage.reset();
  gui.reset();  // the engine must outlive the context it is bound to
  ImGuiTestEngine_DestroyContext(engine);
}

}  // namespace phasescope::app
