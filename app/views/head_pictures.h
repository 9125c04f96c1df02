#pragma once
// The thumbnails of all heads of a model as one picture on the graphics card.
#include <cstdint>
#include <future>

#include "app/window/worker_requests.h"
#include "protocol/messages/heads.h"
#include "widgets/head_grid.h"

namespace phasescope::app {

class HeadPictures {
 public:
  enum class Taken { nothing, now, later };

  // Makes the pictures of an answer's tensor `thumbnails` (L, H, S, S), unless they are those that
  // are here. Those of a thousand heads take longer than a frame may: they are made beside the
  // window, and taken where `may_take` once they are there (`later`: not yet). Throws what is wrong
  // with the tensor.
  Taken take(const Answer<protocol::HeadsResult>& answer, bool may_take);

  widgets::HeatmapTexture& texture() { return texture_; }
  const widgets::CellMarks& marks() const { return marks_; }

 private:
  struct Made {
    widgets::HeadAtlas atlas;
    widgets::CellMarks marks;
  };
  static Made made_of(const protocol::TensorRef& thumbnails, int layers, int heads);
  void show(Made made, std::uint64_t serial);

  widgets::HeatmapTexture texture_;
  widgets::CellMarks marks_;
  std::uint64_t shown_ = 0, making_of_ = 0;  // serials of answers
  std::future<Made> making_;
};

}  // namespace phasescope::app
