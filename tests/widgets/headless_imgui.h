#pragma once
// Dear ImGui without a display: a context, frames, and textures that count as uploaded.
#include <imgui.h>
#include <imgui_internal.h>
#include <implot.h>

#include <functional>
#include <string>

#include "widgets/theme.h"

namespace phasescope::testing {

class HeadlessImGui {
 public:
  explicit HeadlessImGui(ImVec2 size = {1600, 1000}) {
    ImGui::CreateContext();
    ImPlot::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.DisplaySize = size;
    io.IniFilename = nullptr;
    io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
    io.BackendFlags |=
        ImGuiBackendFlags_RendererHasTextures | ImGuiBackendFlags_RendererHasVtxOffset;
    io.ConfigWindowsMoveFromTitleBarOnly = true;
    widgets::load_fonts();
    widgets::apply_theme("light");
  }
  ~HeadlessImGui() {
    for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
      texture->SetTexID(ImTextureID_Invalid);
      texture->SetStatus(ImTextureStatus_Destroyed);
    }
    ImPlot::DestroyContext();
    ImGui::DestroyContext();
  }
  HeadlessImGui(const HeadlessImGui&) = delete;
  HeadlessImGui& operator=(const HeadlessImGui&) = delete;

  void begin_frame(float seconds = 1.0F / 60) {
    ImGui::GetIO().DeltaTime = seconds;
    ImGui::NewFrame();
  }
  // Vertices that were drawn.
  int end_frame() {
    ImGui::Render();
    ImDrawData* data = ImGui::GetDrawData();
    for (ImTextureData* texture : *data->Textures) {
      if (texture->Status == ImTextureStatus_WantDestroy) {
        texture->SetTexID(ImTextureID_Invalid);
        texture->SetStatus(ImTextureStatus_Destroyed);
      } else if (texture->Status != ImTextureStatus_OK) {
        texture->SetTexID(static_cast<ImTextureID>(1));
        texture->SetStatus(ImTextureStatus_OK);
      }
    }
    return data->TotalVtxCount;
  }
  // What `draw` writes with Dear ImGui, out of sight too, within a frame; labels of plots are not
  // among it.
  std::string words_of(const std::function<void()>& draw) {
    ImGuiPlatformIO& io = ImGui::GetPlatformIO();
    const auto clipboard = io.Platform_SetClipboardTextFn;
    io.Platform_SetClipboardTextFn = [](ImGuiContext*, const char* words) { logged() = words; };
    logged().clear();
    ImGui::LogToClipboard(0);
    draw();
    ImGui::LogFinish();
    io.Platform_SetClipboardTextFn = clipboard;
    return logged();
  }
  // The second of two frames, which has settled sizes.
  int settled(const std::function<void()>& draw) {
    frame(draw);
    return frame(draw);
  }
  // A frame with one window that `draw` fills; vertices drawn.
  int frame(const std::function<void()>& draw) {
    begin_frame();
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
    ImGui::Begin("test", nullptr, ImGuiWindowFlags_NoDecoration);
    draw();
    ImGui::End();
    return end_frame();
  }

 private:
  static std::string& logged() {
    static std::string words;
    return words;
  }
};

}  // namespace phasescope::testing
