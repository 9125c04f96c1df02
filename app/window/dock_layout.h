#pragma once
// Where the views stand: six places beside each other or, with letters too large for them, two or
// one, of which the views are tabs. The places follow the letters as long as the views stand as
// they were put; what was arranged by hand stays until it is reset.
#include <memory>
#include <string>
#include <vector>

#include "app/views/view.h"

namespace phasescope::app {

class DockLayout {
 public:
  // `views` are those of the window, which outlive the layout.
  explicit DockLayout(const std::vector<std::unique_ptr<View>>& views) : views_(views) {}

  // Takes the layout of a session, before the first frame. Returns the views whose tabs were in
  // front: the window that appears last would have its tab there, whichever it was.
  std::vector<std::string> load(const std::string& layout) const;

  // The space of all docked views, `top` below the window's. Where they were put anew (`reset`, or
  // other letters), returns those to bring forward, one a frame.
  std::vector<std::string> draw(float top, bool reset);

  // A view that the session's layout does not know stands with one of its slot, in place of
  // floating over all others.
  void dock_if_new(const View& view) const;

 private:
  // How many places there are.
  enum class Places { one, two, six };
  static Places places_with_room();
  static int place_of(Slot slot, Places places);
  bool stands_as(Places places) const;
  bool must_follow(Places room);
  std::vector<std::string> build(unsigned dock, Places places) const;
  void keep_in_front(std::vector<std::string>& front) const;
  void scale(unsigned dock, float top);

  const std::vector<std::unique_ptr<View>>& views_;
  float width_ = 0, height_ = 0;  // of the window that the sizes of the places are for
  float letter_ = 0;              // with which the places were chosen
};

}  // namespace phasescope::app
