#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "formats/error.h"
#include "tasks/classes.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPixelsASide = 32, kChannels = 3, kClasses = 10;
constexpr std::int64_t kPlane = kPixelsASide * kPixelsASide;
constexpr std::int64_t kRecord =
    1 + kChannels * kPlane;  // a label, then planes of red, green, blue
constexpr const char* kVariable = "PHASESCOPE_CIFAR10";
constexpr std::array<const char*, 6> kFiles{"data_batch_1.bin", "data_batch_2.bin",
                                            "data_batch_3.bin", "data_batch_4.bin",
                                            "data_batch_5.bin", "test_batch.bin"};
constexpr std::int64_t kTestFile = 5;
constexpr std::array<const char*, kClasses> kNames{
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

// Nothing is downloaded: the user's own files.
fs::path folder_of_files() {
  const char* named = std::getenv(kVariable);
  if (named != nullptr && *named != '\0' && fs::is_directory(named)) return named;
  throw formats::bad_input("the images of CIFAR-10 are not there", kVariable,
                           "set it to the folder with data_batch_1.bin .. test_batch.bin (the "
                           "binary version of cs.toronto.edu/~kriz/cifar.html)");
}

std::int64_t images_in(const fs::path& path) {
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  if (!error && bytes >= kRecord && bytes % kRecord == 0) return bytes / kRecord;
  throw formats::bad_input("this is no file of CIFAR-10's binary version, of images of 3073 bytes",
                           path.string());
}

// Image `index` of a file; pixels row by row, the channels of each beside each other.
Sample image_of(std::int64_t file, std::int64_t index) {
  const char* name = kFiles.at(static_cast<std::size_t>(file));
  const fs::path path = folder_of_files() / name;
  if (index < 0 || index >= images_in(path)) {
    throw formats::bad_input("the file has no image " + std::to_string(index), path.string());
  }
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(index * kRecord);
  std::array<char, kRecord> record{};
  stream.read(record.data(), record.size());
  const auto byte = [&](std::int64_t at) {
    return static_cast<std::int64_t>(
        static_cast<unsigned char>(record.at(static_cast<std::size_t>(at))));
  };
  if (!stream || byte(0) >= kClasses) {
    throw formats::bad_input("image " + std::to_string(index) + " cannot be read, or has no class",
                             path.string());
  }
  Sample sample;
  for (std::int64_t pixel = 0; pixel < kPlane; ++pixel) {
    for (std::int64_t c = 0; c < kChannels; ++c) {
      sample.input.push_back(byte(1 + c * kPlane + pixel));
    }
  }
  sample.target = {byte(0)};
  sample.counts = {1};
  sample.length = {file == kTestFile ? 1 : 0};
  sample.drawn = {{"random", {{"file", name}, {"image", index}}}};
  return sample;
}

class Cifar10 : public Task {
 public:
  Cifar10() {
    info_ = {.key = "cifar10",
             .title = "CIFAR-10",
             .help = "which of ten things a photograph shows; of the user's own files",
             .source = "APE (arXiv 2312.16045) Table 3; images of Krizhevsky 2009",
             .differs =
                 "crops, flips and what is left out at random as a run configuration says; no "
                 "AutoAugment; pixels from -1 to 1",
             .form = Form::image,
             .input_symbols = 256,
             .output_symbols = kClasses,
             .length_unit = "part of the data, 0 for training and 1 for test",
             .shortest = 0,
             .longest = 1,
             .trained = "0",
             .tested = "1",
             .metric = "accuracy",
             // 3 x 3 convolution of stride 1, then 3 x 3 pooling: 10 x 10 places.
             .image = {.rows = kPixelsASide,
                       .columns = kPixelsASide,
                       .channels = kChannels,
                       .levels = 256,
                       .side = 5,
                       .stride = 3,
                       .kernel = 3},
             .needs_files = kVariable};
  }
  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    const std::int64_t file = length[0] == 1 ? kTestFile : random.below(kTestFile);
    const char* name = kFiles.at(static_cast<std::size_t>(file));
    return image_of(file, random.below(images_in(folder_of_files() / name)));
  }

  Sample again(const Json& row) const override {
    const Json& random = row.at("random");
    const auto name = random.at("file").get<std::string>();
    for (std::size_t file = 0; file < kFiles.size(); ++file) {
      if (name != kFiles[file]) continue;
      return image_of(static_cast<std::int64_t>(file), random.at("image").get<std::int64_t>());
    }
    throw formats::bad_input("no such file: " + name, "cifar10");
  }

  Json row(const Sample& sample) const override {
    Json row = sample.drawn;
    row["length"] = sample.length[0];
    row["target"] = sample.target[0];
    return row;
  }

  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    return accuracy_of_classes(samples, given);
  }

  Chance chance(const Ids&) const override { return {0.1, 0.1, "ten classes, even"}; }
  std::string input_symbol(std::int64_t id) const override { return std::to_string(id); }
  std::string output_symbol(std::int64_t id) const override {
    return kNames.at(static_cast<std::size_t>(id));
  }

 private:
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> cifar10() { return std::make_unique<Cifar10>(); }

}  // namespace phasescope::tasks
