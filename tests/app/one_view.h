#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/views/views.h"
#include "app/window/commands.h"
#include "tests/app/made_up_worker.h"
#include "tests/widgets/headless_imgui.h"

namespace phasescope::app {

inline std::vector<std::string> ids_of_views() {
  std::vector<std::string> ids;
  for (const auto& view : all_views()) ids.push_back(view->id());
  return ids;
}

inline std::unique_ptr<View> view_named(const std::string& id) {
  for (auto& each : all_views()) {
    if (each->id() == id) return std::move(each);
  }
  return nullptr;
}

// Asks what waits for a button.
inline void press_run(View& view, ViewContext& context) {
  std::vector<Command> commands;
  view.add_commands(commands);
  for (const Command& command : commands) {
    if (command.id == view.id() + ".run") command.run(context);
  }
}

// The first model also without a head, and selected so: Intervene is about readings.
inline void add_reading(Session& session) {
  session.models.push_back(session.models.front() + " (head_ablations=L3H1:zero)");
  session.selection.model = static_cast<std::int64_t>(session.models.size()) - 1;
}

// One view alone, drawn so many frames whenever something has changed.
class OneView : public ::testing::Test {
 protected:
  explicit OneView(int frames, MadeUpShape shape = {}) : frames_(frames), link_(std::move(shape)) {}

  void open(const std::string& id, Session session = default_session()) {
    edit_.apply("open", [&](Session& s) { s = std::move(session); });
    window_.may_ask = true;
    view_ = view_named(id);
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
