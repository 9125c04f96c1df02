// Sound files of torch.save, compared with what torch itself reads from them.

#include "formats/tensors/torch_file.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "formats/tensors/safetensors.h"
#include "formats/tensors/strided.h"
#include "support.h"
#include "tests/golden_folder.h"
#include "torch_writer.h"

namespace phasescope::formats {
namespace {

std::vector<std::byte> bytes_of(const TensorFile& file, const std::string& name) {
  const TensorEntry* entry = file.find(name);
  if (!entry) throw std::runtime_error("no tensor " + name);
  std::vector<std::byte> bytes(entry->size);
  file.read(*entry, bytes);
  return bytes;
}

std::vector<std::byte> visited(const TensorFile& file, const TensorEntry& entry) {
  std::vector<std::byte> all;
  file.visit(entry, [&](std::span<const std::byte> block) {
    all.insert(all.end(), block.begin(), block.end());
  });
  return all;
}

// Every tensor of `twin` is in `file` with the same bytes, read whole, in two parts, and, in some
// order, by visit.
void expect_equal(const TensorFile& file, const TensorFile& twin) {
  EXPECT_EQ(file.tensors().size(), twin.tensors().size());
  for (const TensorEntry& expected : twin.tensors()) {
    const TensorEntry* entry = file.find(expected.name);
    ASSERT_NE(entry, nullptr) << expected.name;
    EXPECT_EQ(entry->dtype, expected.dtype) << expected.name;
    EXPECT_EQ(entry->dtype_name, expected.dtype_name) << expected.name;
    EXPECT_EQ(entry->shape, expected.shape) << expected.name;
    ASSERT_EQ(entry->size, expected.size) << expected.name;
    const std::vector<std::byte> bytes = bytes_of(twin, expected.name);
    EXPECT_EQ(bytes_of(file, expected.name), bytes) << expected.name;
    const std::size_t half = bytes.size() / 16 * 8;
    std::vector<std::byte> parts(bytes.size());
    file.read_part(*entry, half, std::span(parts).subspan(half));
    file.read_part(*entry, 0, std::span(parts).first(half));
    EXPECT_EQ(parts, bytes) << expected.name;
    std::vector<std::byte> any_order = visited(file, *entry);
    std::vector<std::byte> sorted = bytes;
    std::sort(any_order.begin(), any_order.end());
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(any_order, sorted) << expected.name;
  }
}

class Twins : public ::testing::TestWithParam<std::string> {};

TEST_P(Twins, HoldWhatTorchReads) {
  const auto folder = test_data("formats/torch");
  const auto twin = SafetensorsFile::open(folder / (GetParam() + ".safetensors"));
  for (const std::string end : {".bin", ".legacy.bin"}) {
    SCOPED_TRACE(end);
    expect_equal(*TorchFile::open(folder / (GetParam() + end)), twin);
  }
}

INSTANTIATE_TEST_SUITE_P(TorchFile, Twins, ::testing::Values("dtypes", "views", "module"),
                         [](const auto& info) { return info.param; });

TEST(TorchFile, SeesSharedStoragesAsTied) {
  for (const std::string end : {".bin", ".legacy.bin"}) {
    const auto file = TorchFile::open(test_data("formats/torch/views" + end));
    // "row" and "sliced" share the storage of "whole" without being the same elements; "whole",
    // "transposed" and "permuted" are.
    std::vector<std::vector<std::string>> tied = file->tied();
    std::sort(tied.begin(), tied.end());
    EXPECT_EQ(tied, (std::vector<std::vector<std::string>>{{"tied.a", "tied.b", "tied.c"},
                                                           {"whole", "transposed", "permuted"}}));
  }
}

TEST(TorchFile, ListsUnsupportedTypesAndReadsTheOthers_Row6) {
  for (const std::string end : {".bin", ".legacy.bin"}) {
    const auto file = TorchFile::open(test_data("formats/torch/unsupported" + end));
    for (const auto& [name, type] : {std::pair("f8", "F8_E4M3"), std::pair("f8_view", "F8_E5M2"),
                                     std::pair("u16", "U16"), std::pair("complex", "C64")}) {
      const TensorEntry* entry = file->find(name);
      ASSERT_NE(entry, nullptr) << name;
      EXPECT_EQ(entry->dtype, DType::unsupported);
      EXPECT_EQ(entry->dtype_name, type);
      std::vector<std::byte> bytes(entry->size);
      EXPECT_TRUE(tells(error_of([&] { file->read(*entry, bytes); }), "not supported"));
      EXPECT_TRUE(tells(error_of([&] { visited(*file, *entry); }), type));
    }
    const auto plain = bytes_of(*file, "plain");
    EXPECT_EQ(std::memcmp(plain.data(), std::vector<float>{0, 1, 2}.data(), 12), 0);
  }
}

TEST(TorchFile, FindsTheWeightsOfATrainingCheckpoint) {
  for (const std::string end : {".bin", ".legacy.bin"}) {
    const auto file = TorchFile::open(test_data("formats/torch/training" + end));
    EXPECT_EQ(file->tensors().size(), 2u);
    EXPECT_EQ(file->find("weight")->shape, (std::vector<std::int64_t>{2, 2}));
    ASSERT_EQ(file->warnings().size(), 1u);
    EXPECT_NE(file->warnings()[0].find("\"model\""), std::string::npos);
  }
}

// Made in shapes that no block divides: a transposed matrix of more than one window of the reader.
TEST(TorchFile, ReadsATransposeLargerThanItsWindow) {
  constexpr std::int64_t rows = 1203, columns = 701;
  std::vector<float> values(rows * columns);
  std::iota(values.begin(), values.end(), 0.f);
  const std::string raw(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  const std::string pickle = pickled::dict(
      {{"w", pickled::tensor(pickled::storage(rows * columns), 0, {columns, rows}, {1, columns})}});
  const TemporaryFolder folder;
  for (const std::string& content : {zip_form(pickle, {raw}), legacy_form(pickle, {raw})}) {
    const auto file = TorchFile::open(folder.file("w.pt", content));
    const TensorEntry& entry = *file->find("w");
    std::vector<float> read(values.size());
    file->read(entry, std::as_writable_bytes(std::span(read)));
    for (std::int64_t i = 0; i < columns; ++i) {
      for (std::int64_t j = 0; j < rows; ++j) {
        ASSERT_EQ(read[i * rows + j], values[j * columns + i]) << i << " " << j;
      }
    }
    EXPECT_EQ(visited(*file, entry).size(), raw.size());
    EXPECT_EQ(error_of([&] {
                file->read_part(entry, 2, std::as_writable_bytes(std::span(read)).first(4));
              }).code(),
              "internal");
  }
}

TEST(TorchFile, ReadsViewsOfPartsOfAnOldStorage) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const std::string raw(reinterpret_cast<const char*>(values.data()), 24);
  const auto part = [](std::int64_t offset, std::int64_t size) {
    return pickled::storage(
        6, "FloatStorage", "0",
        pickled::tuple({pickled::text("v"), pickled::number(offset), pickled::number(size)}));
  };
  const TemporaryFolder folder;
  const auto open = [&](const std::string& tensor) {
    return TorchFile::open(folder.file("x.pt", legacy_form(pickled::dict({{"x", tensor}}), {raw})));
  };
  const auto read = bytes_of(*open(pickled::tensor(part(2, 3), 1, {2}, {1})), "x");
  EXPECT_EQ(std::memcmp(read.data(), values.data() + 3, 8), 0);
  EXPECT_TRUE(tells(error_of([&] { open(pickled::tensor(part(2, 3), 1, {3}, {1})); }), "outside"));
  EXPECT_TRUE(tells(error_of([&] { open(pickled::tensor(part(4, 3), 0, {1}, {1})); }), "outside"));
}

TEST(TorchFile, TakesEmptySlicesWhereverTheyBegin) {
  const std::string pickle =
      pickled::dict({{"x", pickled::tensor(pickled::storage(3), INT64_MAX, {0, 4}, {9, 1})}});
  const TemporaryFolder folder;
  const auto file = TorchFile::open(folder.file("x.pt", zip_form(pickle, {std::string(12, 'x')})));
  EXPECT_TRUE(bytes_of(*file, "x").empty());
  EXPECT_TRUE(visited(*file, *file->find("x")).empty());
}

TEST(TorchFile, ReadsZip64AndDataDescriptors) {
  const TemporaryFolder folder;
  const std::string raw(12, '\1');
  const std::string pickle =
      pickled::dict({{"x", pickled::tensor(pickled::storage(3), 0, {3}, {1})}});
  for (const bool zip64 : {false, true}) {
    for (const bool descriptor : {false, true}) {
      ZipBuilder zip;
      zip.add({.name = "a/data.pkl", .content = pickle, .zip64 = zip64, .descriptor = descriptor});
      zip.add({.name = "a/data/0", .content = raw, .zip64 = zip64, .descriptor = descriptor});
      for (const std::string comment : {"", "PK\5\6 a comment"}) {
        const auto file =
            TorchFile::open(folder.file("x.pt", zip.file({.zip64 = zip64, .comment = comment})));
        const auto read = bytes_of(*file, "x");
        EXPECT_EQ(std::memcmp(read.data(), raw.data(), raw.size()), 0);
      }
    }
  }
}

TEST(TorchFile, OpeningCanBeCancelled) {
  const std::string none = pickled::dict({});
  const TemporaryFolder folder;
  for (const std::string& content : {zip_form(none, {}), legacy_form(none, {})}) {
    const auto path = folder.file("x.pt", content);
    EXPECT_TRUE(TorchFile::open(path)->tensors().empty());
    EXPECT_EQ(error_of([&] { TorchFile::open(path, {.cancelled = [] { return true; }}); }).code(),
              "cancelled");
  }
}

TEST(TorchFile, IsRecognisedByItsContent) {
  const TemporaryFolder folder;
  const std::string pickle = pickled::dict({});
  for (const std::string& content : {zip_form(pickle, {}), legacy_form(pickle, {})}) {
    EXPECT_TRUE(is_torch_file(folder.file("weights", content)));
  }
  // A safetensors header of 0x280 bytes begins as a pickle does.
  EXPECT_FALSE(is_torch_file(folder.file("weights", std::string("\x80\x02\0\0\0\0\0\0{", 9))));
  EXPECT_TRUE(is_torch_file(folder.file("weights.bin", "")));
}

TEST(TorchFile, OpensTheGoldenModelsInEveryForm) {
  if (golden_path("hf/models/llama_bin_sharded", true).empty()) {
    GTEST_SKIP() << "no references beside the project";
  }
  const std::filesystem::path models = golden_path("hf/models", true);
  const TensorArchive sharded = TensorArchive::open(models / "llama_bin_sharded");
  EXPECT_EQ(sharded.files().size(), 3u);
  EXPECT_TRUE(sharded.warnings().empty());
  for (const std::string name : {"llama_bin", "llama_bin_legacy"}) {
    const TensorArchive archive = TensorArchive::open(models / name);
    EXPECT_EQ(
        archive.tied(),
        (std::vector<std::vector<std::string>>{{"model.embed_tokens.weight", "lm_head.weight"}}));
    EXPECT_TRUE(archive.warnings().empty());
  }
  EXPECT_EQ(TensorArchive::open(models / "llama_bin_bf16").tensors()[0].dtype, DType::bf16);
}

TEST(Crc32, EqualsTheStandardsCheckValue) {
  EXPECT_EQ(crc_of("123456789"), 0xCBF43926u);
  EXPECT_EQ(crc_of(""), 0u);
  const std::string text = "a longer text, in three pieces";
  std::uint32_t crc = 0;
  for (const auto& [at, size] : {std::pair(0, 3), std::pair(3, 17), std::pair(20, 10)}) {
    crc = crc32(std::as_bytes(std::span(text).subspan(at, size)), crc);
  }
  EXPECT_EQ(crc, crc_of(text));
}

TEST(Strided, TellsWhichElementsShareAPlace) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_TRUE(elements_are_distinct(Numbers{2, 3}, Numbers{1, 2}));
  EXPECT_TRUE(elements_are_distinct(Numbers{2, 1, 3}, Numbers{3, 0, 1}));
  EXPECT_FALSE(elements_are_distinct(Numbers{2, 3}, Numbers{0, 1}));
  EXPECT_FALSE(elements_are_distinct(Numbers{2, 3}, Numbers{2, 1}));
  EXPECT_EQ(checked_reach(Numbers{2, 3}, Numbers{10, 2}), 15u);
  EXPECT_EQ(checked_reach(Numbers{0, 3}, Numbers{10, 2}), 0u);
  EXPECT_EQ(checked_reach(Numbers{}, Numbers{}), 1u);
  EXPECT_EQ(checked_reach(Numbers{3}, Numbers{INT64_MAX}), std::nullopt);
  EXPECT_TRUE(is_contiguous(Numbers{4, 1, 2}, Numbers{2, 77, 1}));
  EXPECT_FALSE(is_contiguous(Numbers{4, 2}, Numbers{3, 1}));
}

}  // namespace
}  // namespace phasescope::formats
