// Reading and writing sound safetensors files, compared with files of the Python package.

#include "formats/tensors/safetensors.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "formats/faulty_file_system.h"
#include "support.h"

namespace phasescope::formats {
namespace {

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const std::string& name) {
  const TensorEntry* entry = file.find(name);
  if (!entry) throw std::runtime_error("no tensor " + name);
  std::vector<T> values(entry->size / sizeof(T));
  file.read(*entry, std::as_writable_bytes(std::span(values)));
  return values;
}

template <typename T>
std::vector<T> first_six() {
  std::vector<T> values(6);
  std::iota(values.begin(), values.end(), T(0));
  return values;
}

TEST(Safetensors, ReadsEveryTypeThePythonPackageWrites) {
  const auto file = SafetensorsFile::open(test_data("formats/all_types.safetensors"));
  EXPECT_EQ(file.tensors().size(), 13u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("f32")->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(values_of<float>(file, "f32"), first_six<float>());
  EXPECT_EQ(values_of<double>(file, "f64"), first_six<double>());
  EXPECT_EQ(values_of<std::int8_t>(file, "i8"), first_six<std::int8_t>());
  EXPECT_EQ(values_of<std::int16_t>(file, "i16"), first_six<std::int16_t>());
  EXPECT_EQ(values_of<std::int32_t>(file, "i32"), first_six<std::int32_t>());
  EXPECT_EQ(values_of<std::int64_t>(file, "i64"), first_six<std::int64_t>());
  EXPECT_EQ(values_of<std::uint8_t>(file, "u8"), first_six<std::uint8_t>());
  EXPECT_EQ(values_of<std::uint8_t>(file, "bool"), (std::vector<std::uint8_t>{1, 0, 1}));
  // 0 to 5 as half and as brain floats, from their definitions.
  EXPECT_EQ(values_of<std::uint16_t>(file, "f16"),
            (std::vector<std::uint16_t>{0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500}));
  EXPECT_EQ(values_of<std::uint16_t>(file, "bf16"),
            (std::vector<std::uint16_t>{0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0}));
}

TEST(Safetensors, ReadsScalarsEmptyTensorsOddNamesAndNaN_Row19) {
  const auto file = SafetensorsFile::open(test_data("formats/all_types.safetensors"));
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_EQ(file.find("scalar")->element_count(), 1);
  EXPECT_EQ(values_of<float>(file, "scalar"), std::vector<float>{2.5f});
  EXPECT_EQ(file.find("empty")->element_count(), 0);
  EXPECT_TRUE(values_of<float>(file, "empty").empty());
  const auto odd = values_of<float>(file, "an odd \"name\" é\n");
  EXPECT_EQ(odd[0], -1.0f);
  EXPECT_TRUE(std::isnan(odd[1]));
  EXPECT_TRUE(std::isinf(odd[2]));
  EXPECT_EQ(file.find("no such"), nullptr);
}

TEST(Safetensors, ReadsAPartOfATensor) {
  const auto file = SafetensorsFile::open(test_data("formats/all_types.safetensors"));
  std::vector<float> row(3);
  const TensorEntry& entry = *file.find("f32");
  file.read_part(entry, 3 * sizeof(float), std::as_writable_bytes(std::span(row)));
  EXPECT_EQ(row, (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(error_of([&] {
              file.read_part(entry, 4 * sizeof(float), std::as_writable_bytes(std::span(row)));
            }).code(),
            "internal");
  EXPECT_EQ(error_of([&] { file.read(entry, std::as_writable_bytes(std::span(row))); }).code(),
            "internal");
}

TEST(Safetensors, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(SafetensorsFile::open(test_data("formats/none.safetensors")).tensors().empty());
}

// All tensors of a file, ready to be written again.
struct Copy {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorToWrite> tensors;

  explicit Copy(const SafetensorsFile& file) {
    for (const TensorEntry& entry : file.tensors()) {
      bytes.emplace_back(entry.size);
      file.read(entry, bytes.back());
      tensors.push_back({entry.name, entry.dtype, entry.shape, bytes.back()});
    }
  }
};

TEST(Safetensors, WritesByteForByteWhatThePythonPackageWrites) {
  const TemporaryFolder folder;
  for (const std::string name : {"all_types", "none"}) {
    const auto original = test_data("formats/" + name + ".safetensors");
    const auto file = SafetensorsFile::open(original);
    Copy copy(file);
    std::reverse(copy.tensors.begin(), copy.tensors.end());  // the order given does not matter
    write_safetensors(real_file_system(), folder / "copy.safetensors", copy.tensors,
                      file.metadata());
    EXPECT_EQ(file_content(folder / "copy.safetensors"), file_content(original)) << name;
  }
}

TEST(Safetensors, RefusesToWriteWhatDoesNotFit) {
  const TemporaryFolder folder;
  const std::vector<float> six(6);
  const auto bytes = std::as_bytes(std::span(six));
  const auto write = [&](std::vector<TensorToWrite> tensors) {
    return error_of(
        [&] { write_safetensors(real_file_system(), folder / "x.safetensors", tensors); });
  };
  EXPECT_EQ(write({{"a", DType::f32, {2, 4}, bytes}}).code(), "internal");
  EXPECT_EQ(write({{"a", DType::f32, {-2, -3}, bytes}}).code(), "internal");
  EXPECT_EQ(write({{"a", DType::unsupported, {6}, bytes}}).code(), "internal");
  EXPECT_TRUE(tells(write({{"a", DType::f32, {6}, bytes},
                           {"b", DType::f32, {6}, bytes},
                           {"a", DType::f64, {3}, bytes}}),
                    "twice"));
  EXPECT_EQ(write({{"\xFF", DType::f32, {6}, bytes}}).code(), "internal");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, LooksUpTypesByName) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::i16,
                            DType::i32, DType::i64, DType::u8, DType::boolean}) {
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    EXPECT_GT(item_size(dtype), 0u);
  }
  EXPECT_EQ(dtype_from_name("F8_E4M3"), DType::unsupported);
  EXPECT_EQ(item_size(DType::unsupported), 0u);
}

}  // namespace
}  // namespace phasescope::formats
