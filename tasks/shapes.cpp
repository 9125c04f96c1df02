#include <algorithm>
#include <array>

#include "formats/error.h"
#include "tasks/classes.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kSide = 16, kFlips = 4;
constexpr std::int64_t kPiece = 4;  // of a side, what a token reads
constexpr std::array<const char*, 4> kShapes{"bar", "pole", "cross", "frame"};

struct Figure {
  std::int64_t shape = 0, size = 3, row = 0, column = 0;
  std::vector<std::array<std::int64_t, 2>> flipped;
};

// Whether the figure covers place (r, c) of its square.
bool covers(const Figure& figure, std::int64_t r, std::int64_t c) {
  const std::int64_t last = figure.size - 1, middle = figure.size / 2;
  const bool bar = r == middle, pole = c == middle;
  const bool frame = r == 0 || c == 0 || r == last || c == last;
  const std::array<bool, 4> by_shape{bar, pole, bar || pole, frame};
  return by_shape[static_cast<std::size_t>(figure.shape)];
}

Sample sample_of(const Figure& figure) {
  if (figure.size < 1 || figure.row < 0 || figure.column < 0 || figure.row + figure.size > kSide ||
      figure.column + figure.size > kSide) {
    throw formats::bad_input("the figure does not stand in the image", "shapes");
  }
  Sample sample;
  sample.input.assign(kSide * kSide, 0);
  const auto at = [&](std::int64_t r, std::int64_t c) -> std::int64_t& {
    return sample.input.at(static_cast<std::size_t>(r * kSide + c));
  };
  for (std::int64_t r = 0; r < figure.size; ++r) {
    for (std::int64_t c = 0; c < figure.size; ++c) {
      if (covers(figure, r, c)) at(figure.row + r, figure.column + c) = 1;
    }
  }
  for (const auto& [r, c] : figure.flipped) {
    if (r < 0 || c < 0 || r >= kSide || c >= kSide) {
      throw formats::bad_input("a flipped pixel is not in the image", "shapes");
    }
    at(r, c) ^= 1;
  }
  sample.target = {figure.shape};
  sample.counts = {1};
  sample.length = {figure.size};
  sample.drawn = {{"random",
                   {{"shape", kShapes[static_cast<std::size_t>(figure.shape)]},
                    {"size", figure.size},
                    {"row", figure.row},
                    {"column", figure.column},
                    {"flipped", figure.flipped}}}};
  return sample;
}

class Shapes : public Task {
 public:
  Shapes() {
    info_ = {
        .key = "shapes",
        .title = "Shapes",
        .help = "which of four figures stands in an image of 16 x 16 bits",
        .source = "own definition, a small stand-in for APE's CIFAR-10 (arXiv 2312.16045)",
        .form = Form::image,
        .input_symbols = 2,
        .output_symbols = 4,
        .length_unit = "pixels of the figure's side",
        .shortest = 3,
        .longest = 7,
        .trained = "3..5",
        .tested = "6, 7",
        .metric = "accuracy",
        .image = {
            .rows = kSide, .columns = kSide, .side = kPiece, .stride = kPiece, .kernel = kPiece}};
  }
  const TaskInfo& info() const override { return info_; }

  // Half of the images have four draws of a pixel that is flipped; drawn twice it is back.
  Sample drawn(const Ids& length, Random& random) const override {
    Figure figure{.shape = random.below(4), .size = length[0]};
    figure.row = random.below(kSide - figure.size + 1);
    figure.column = random.below(kSide - figure.size + 1);
    const std::int64_t flips = random.coin() ? kFlips : 0;
    for (std::int64_t n = 0; n < flips; ++n) {
      const std::int64_t row = random.below(kSide);
      figure.flipped.push_back({row, random.below(kSide)});
    }
    return sample_of(figure);
  }

  Sample again(const Json& row) const override {
    const Json& random = row.at("random");
    const auto shape = std::ranges::find(kShapes, random.at("shape").get<std::string>());
    if (shape == kShapes.end()) throw formats::bad_input("no such shape", "shapes");
    return sample_of(
        {.shape = shape - kShapes.begin(),
         .size = random.at("size").get<std::int64_t>(),
         .row = random.at("row").get<std::int64_t>(),
         .column = random.at("column").get<std::int64_t>(),
         .flipped = random.at("flipped").get<std::vector<std::array<std::int64_t, 2>>>()});
  }

  Json row(const Sample& sample) const override {
    Json row = sample.drawn;
    row["length"] = sample.length[0];
    row["target"] = sample.target[0];
    row["input"] = Json::array();
    for (std::int64_t r = 0; r < kSide; ++r) {
      std::string line;
      for (std::int64_t c = 0; c < kSide; ++c) {
        line += static_cast<char>('0' + sample.input[static_cast<std::size_t>(r * kSide + c)]);
      }
      row["input"].push_back(line);
    }
    return row;
  }

  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    return accuracy_of_classes(samples, given);
  }

  Chance chance(const Ids&) const override { return {0.25, 0.25, "four shapes, even"}; }
  std::string input_symbol(std::int64_t id) const override { return id == 1 ? "#" : "."; }
  std::string output_symbol(std::int64_t id) const override {
    return kShapes[static_cast<std::size_t>(id)];
  }

 private:
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> shapes() { return std::make_unique<Shapes>(); }

}  // namespace phasescope::tasks
