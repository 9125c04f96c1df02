#include "app/views/head_pictures.h"

#include <chrono>
#include <utility>

namespace phasescope::app {
namespace {

// Values that are put in their places within a millisecond.
constexpr std::size_t kMadeAtOnce = 200000;

}  // namespace

HeadPictures::Made HeadPictures::made_of(const protocol::TensorRef& thumbnails, int layers,
                                         int heads) {
  Made made{.atlas = widgets::atlas_of(layers, heads, static_cast<int>(thumbnails.shape.at(3)),
                                       thumbnails.values<float>()),
            .marks = {}};
  made.marks = widgets::marks_of(made.atlas.values);
  return made;
}

void HeadPictures::show(Made made, std::uint64_t serial) {
  marks_ = made.marks;
  texture_.set_values(made.atlas.rows, made.atlas.cols, std::move(made.atlas.values));
  shown_ = serial;
}

HeadPictures::Taken HeadPictures::take(const Answer<protocol::HeadsResult>& answer, bool may_take) {
  const auto* thumbnails = protocol::find_tensor(answer.tensors, "thumbnails");
  if (!thumbnails || shown_ == answer.serial) return Taken::nothing;
  const auto layers = static_cast<int>(answer.result.layers);
  const auto heads = static_cast<int>(answer.result.heads);
  if (thumbnails->elements() <= kMadeAtOnce) {
    show(made_of(*thumbnails, layers, heads), answer.serial);
    return Taken::now;
  }
  if (making_of_ != answer.serial) {
    making_ = std::async(std::launch::async, [tensor = *thumbnails, layers, heads] {
      return made_of(tensor, layers, heads);
    });
    making_of_ = answer.serial;
  }
  if (!may_take || making_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return Taken::later;
  }
  making_of_ = 0;
  show(making_.get(), answer.serial);
  return Taken::now;
}

}  // namespace phasescope::app
