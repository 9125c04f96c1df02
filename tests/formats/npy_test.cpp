// .npy files: what numpy writes is read, all else is refused with a sentence.
#include "formats/tensors/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "formats/text_input.h"
#include "support.h"

namespace phasescope::formats {
namespace {

// As numpy's format description has it: version 1 has two bytes of length, 2 and 3 four.
std::string npy(const std::string& head, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int n = 0; n < (version == 1 ? 2 : 4); ++n) {
    file += static_cast<char>((head.size() >> (8 * n)) & 0xFF);
  }
  return file + head;
}

NpyHeader read(const std::string& start, std::uint64_t bytes) {
  std::string file = start;
  file.resize(std::min<std::uint64_t>(bytes, 1024), 'x');
  keep_case("x.npy", file);
  return read_npy_header(start, bytes, "x.npy");
}

TEST(NpyHeader, SaysTypeShapeAndOrder) {
  const std::string one =
      npy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }           \n");
  const NpyHeader header = read(one, one.size() + 48);
  EXPECT_EQ(header.dtype, DType::f64);
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(header.fortran_order);
  EXPECT_EQ(header.offset, one.size());
  const std::string two = npy("{\"shape\": (5,), \"descr\": \"<f2\", \"fortran_order\": False}", 2);
  EXPECT_EQ(read(two, two.size() + 10).shape, std::vector<std::int64_t>{5});
  const std::string scalar = npy("{'descr': '|u1', 'fortran_order': False, 'shape': ()}");
  EXPECT_TRUE(read(scalar, scalar.size() + 1).shape.empty());
}

TEST(NpyHeader, RefusesWhatIsNone) {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}");
  EXPECT_NO_THROW(read(good, good.size() + 24));
  EXPECT_THROW(read(good, good.size() + 23), Error);  // a byte short
  EXPECT_THROW(read(good.substr(0, 20), 20), Error);  // cut within its head
  EXPECT_THROW(read("PK\x03\x04 something else", 30), Error);
  EXPECT_THROW(read(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}"), 1000), Error);
  EXPECT_THROW(read(npy("{'descr': '<f4', 'fortran_order': False}"), 1000), Error);
  EXPECT_THROW(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"), 1000), Error);
  const std::string huge = npy(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}");
  EXPECT_THROW(read(huge, 1 << 20), Error);
}

TEST(NpyHeader, NamesBytesThatAreNoTextSafely) {
  const Error error = error_of([] {
    read(npy("{'descr': '\xFF\xC3\n\x01', 'fortran_order': False, 'shape': (2,)}"), 1000);
  });
  EXPECT_EQ(error.code(), "bad_input");
  EXPECT_EQ(first_invalid_utf8(error.message()), error.message().size()) << error.message();
  EXPECT_EQ(error.message().find('\n'), std::string::npos);
}

TEST(NpyHeader, NamesTheTypeThatItCannotRead) {
  for (const auto& [descr, name] : {std::pair{"'|O'", "\"|O\""}, {"\">f4\"", "\">f4\""}}) {
    const Error error = error_of([&] {
      read(npy(std::string("{'descr': ") + descr + ", 'fortran_order': False, 'shape': (2,)}"),
           1000);
    });
    EXPECT_NE(error.message().find(std::string("type ") + name), std::string::npos)
        << error.message();
  }
}

TEST(NpyFile, IsReadAsItWasWritten) {
  const auto path = std::filesystem::path(testing::TempDir()) / "npy_test.npy";
  const std::vector<float> values{1, 2.5, -3, 4, 0, 6};
  const std::vector<std::int64_t> shape{3, 2};
  write_npy(real_file_system(), path, values, shape);
  const NpyFile file(path);
  EXPECT_EQ(file.header().shape, shape);
  std::vector<float> read_back(6);
  file.read(std::as_writable_bytes(std::span(read_back)));
  EXPECT_EQ(read_back, values);
}

}  // namespace
}  // namespace phasescope::formats
