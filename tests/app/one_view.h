#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/views/views.h"
#include "tests/app/made_up_worker.h"
#include "tests/widgets/headless_imgui.h"

namespace phasescope::app {

// One view alone, drawn so many frames whenever something has changed.
class OneView : public ::testing::Test {
 protected:
  explicit OneView(int frames, MadeUpShape shape = {}) : frames_(frames), link_(std::move(shape)) {}

  void open(const std::string& id, Session session = default_session()) {
    edit_.apply("open", [&](Session& s) { s = std::move(session); });
    window_.may_ask = true;
    for (auto& each : all_views())
      if (each->id() == id) view_ = std::move(each);
    draw();
  }
  void draw() {
    for (int frame = 0; frame < frames_; ++frame) {
      gui_.begin_frame(0.1F);
      requests_.begin_frame();
      view_->draw(context_);
      gui_.end_frame();
    }
    saved_ = view_->saved(context_);
  }
  // What the view writes in a further frame, in a window of a size.
  std::string words_in(ImVec2 size) {
    gui_.begin_frame(0.1F);
    requests_.begin_frame();
    ImGui::SetNextWindowSize(size);
    const std::string said = gui_.words_of([&] { view_->draw(context_); });
    gui_.end_frame();
    return said;
  }

  const int frames_;
  phasescope::testing::HeadlessImGui gui_;
  MadeUpWorker link_;
  SessionHistory edit_{default_session()};
  WorkerRequests requests_{link_, link_};
  WindowState window_;
  ViewContext context_{edit_, requests_, window_};
  std::unique_ptr<View> view_;
  std::vector<Saved> saved_;
};

}  // namespace phasescope::app
