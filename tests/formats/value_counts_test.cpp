// Row 19 of the table of faults: NaN, Inf and all-zero weights load and are flagged.

#include "formats/tensors/value_counts.h"

#include <cmath>
#include <limits>

#include "support.h"
#include "torch_writer.h"

namespace phasescope::formats {
namespace {

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

ValueCounts counted(const TemporaryFolder& folder, DType dtype, const std::string& bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size() / item_size(dtype));
  const std::vector<TensorToWrite> tensors = {
      {"x", dtype, {count}, std::as_bytes(std::span(bytes))}};
  write_safetensors(real_file_system(), folder / "x.safetensors", tensors);
  const TensorArchive archive = TensorArchive::open(folder / "x.safetensors");
  return count_values(archive, archive.tensors()[0]);
}

void expect(const ValueCounts& counts, std::uint64_t elements, std::uint64_t nan, std::uint64_t inf,
            std::uint64_t zero) {
  EXPECT_EQ(counts.elements, elements);
  EXPECT_EQ(counts.nan, nan);
  EXPECT_EQ(counts.inf, inf);
  EXPECT_EQ(counts.zero, zero);
}

TEST(ValueCounts, Row19_EveryType) {
  const TemporaryFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  expect(counted(folder, DType::f32, raw<float>({nan, -nan, inf, -inf, 0.f, -0.f, 1e-45f, 3e38f})),
         8, 2, 2, 2);
  expect(counted(folder, DType::f64, raw<double>({nan, inf, 0., -0., 5e-324, 1e308, -inf})), 7, 1,
         2, 2);
  // By their definitions: signs, the largest finite value, subnormals, a NaN of one low bit.
  expect(counted(folder, DType::f16,
                 raw<std::uint16_t>({0x7C00, 0xFC00, 0x7C01, 0xFE00, 0x7BFF, 0, 0x8000, 1})),
         8, 2, 2, 2);
  expect(counted(folder, DType::bf16,
                 raw<std::uint16_t>({0x7F80, 0xFF80, 0x7F81, 0xFFC0, 0x7F7F, 0, 0x8000, 1})),
         8, 2, 2, 2);
  const std::string ones(16, '\xff');  // NaN as floats, -1 as integers
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64}) {
    const auto count = 16 / item_size(dtype);
    expect(counted(folder, dtype, ones + std::string(16, '\0')), 2 * count, 0, 0, count);
  }
  expect(counted(folder, DType::i64, raw<std::int64_t>({INT64_MIN, 0})), 2, 0, 0, 1);
  expect(counted(folder, DType::boolean, raw<std::uint8_t>({1, 0, 1})), 3, 0, 0, 1);
}

TEST(ValueCounts, Row19_Flags) {
  const TemporaryFolder folder;
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(counted(folder, DType::f32, raw<float>({1, nan, inf})).flag(), "nan");
  EXPECT_EQ(counted(folder, DType::f32, raw<float>({1, 0, inf})).flag(), "inf");
  EXPECT_EQ(counted(folder, DType::f32, raw<float>({0, -0.f})).flag(), "all zero");
  EXPECT_EQ(counted(folder, DType::f32, raw<float>({0, 1})).flag(), "");
  EXPECT_EQ(counted(folder, DType::f32, {}).flag(), "");
  for (const std::string file : {"float8.safetensors", "torch/unsupported.bin"}) {
    const TensorArchive archive = TensorArchive::open(test_data("formats/" + file));
    for (const TensorEntry& entry : archive.tensors()) {
      EXPECT_EQ(count_values(archive, entry).flag(), entry.name == "plain" ? "" : "unsupported");
    }
  }
}

TEST(ValueCounts, GoesOverLargeAndStridedTensorsInBlocks) {
  // A transposed matrix of 4.8 MB; the first and the last element are NaN, one row is zero.
  constexpr std::int64_t rows = 1200, columns = 1001;
  std::vector<float> values(rows * columns, 1.f);
  values.front() = values.back() = std::nanf("");
  std::fill_n(values.begin() + 5 * columns, columns, 0.f);
  const TemporaryFolder folder;
  for (const bool transposed : {false, true}) {
    const std::string view =
        transposed
            ? pickled::tensor(pickled::storage(rows * columns), 0, {columns, rows}, {1, columns})
            : pickled::tensor(pickled::storage(rows * columns), 0, {rows, columns}, {columns, 1});
    folder.file("x.bin", zip_form(pickled::dict({{"x", view}}), {raw(values)}));
    const TensorArchive archive = TensorArchive::open(folder / "x.bin");
    expect(count_values(archive, archive.tensors()[0]), rows * columns, 2, 0, columns);
    int asked = 0;
    EXPECT_EQ(error_of([&] {
                count_values(archive, archive.tensors()[0], [&] { return ++asked == 3; });
              }).code(),
              "cancelled");
    EXPECT_EQ(asked, 3);
  }
}

// However a file is cut into pieces, its tensors have the counts of the whole.
TEST(ValueCounts, Row19_PieceByPieceTheyAreTheSame) {
  const TemporaryFolder folder;
  std::string floats(8 * 5, '\0'), halves(2 * 37, '\0'), zeros(4 * 9, '\0');
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<char>(i * 37);
  for (std::size_t i = 0; i < halves.size(); i += 4) halves[i] = '\xff', halves[i + 1] = '\x7f';
  const std::vector<TensorToWrite> tensors = {
      {"d", DType::f64, {5}, std::as_bytes(std::span(floats))},
      {"h", DType::bf16, {37}, std::as_bytes(std::span(halves))},
      {"z", DType::f32, {3, 3}, std::as_bytes(std::span(zeros))}};
  const auto path = folder / "x.safetensors";
  write_safetensors(real_file_system(), path, tensors);
  const TensorArchive archive = TensorArchive::open(path);
  const std::string file = file_content(path);
  for (const std::size_t size : {8u, 16u, 24u, 64u, 4096u}) {
    // One of them is not asked for.
    CountsByPiece counts({archive.find("z"), archive.find("h")});
    for (std::size_t at = 0; at < file.size(); at += size) {
      counts.add(at, std::as_bytes(std::span(file).subspan(at, std::min(size, file.size() - at))));
    }
    ASSERT_EQ(counts.counts().size(), 2u);
    for (const auto& [entry, counted] : counts.counts()) {
      const ValueCounts whole = count_values(archive, *entry);
      expect(counted, whole.elements, whole.nan, whole.inf, whole.zero);
      EXPECT_EQ(counted.flag(), entry->name == "z" ? "all zero" : "nan");
    }
  }
}

}  // namespace
}  // namespace phasescope::formats
