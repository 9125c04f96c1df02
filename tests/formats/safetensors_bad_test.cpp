// Bad safetensors files: rows 1 to 8 of the table of faults.

#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <limits>

#include "formats/tensors/safetensors.h"
#include "formats/tensors/safetensors_header.h"
#include "support.h"

namespace phasescope::formats {
namespace {

std::string length_field(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

// A file with this header and `data_size` zero bytes after it.
std::string with_header(const std::string& header, std::size_t data_size = 0) {
  return length_field(header.size()) + header + std::string(data_size, '\0');
}

std::string tensor(const std::string& name, const std::string& shape, std::uint64_t begin,
                   std::uint64_t end, const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

class BadSafetensors : public ::testing::Test {
 protected:
  Error refused(const std::string& content) {
    const auto path = folder_.file("bad.safetensors", content);
    const Error error = error_of([&] { SafetensorsFile::open(path); });
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_TRUE(tells(error, "bad.safetensors"));
    return error;
  }
  SafetensorsFile accepted(const std::string& content) {
    return SafetensorsFile::open(folder_.file("good.safetensors", content));
  }

  TemporaryFolder folder_;
};

TEST_F(BadSafetensors, Row1_ZeroToSevenBytes) {
  for (int bytes = 0; bytes < 8; ++bytes) {
    EXPECT_TRUE(tells(refused(std::string(bytes, 'x')), "too short")) << bytes;
  }
}

TEST_F(BadSafetensors, Row1_HugeHeaderLengthsFailAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(tells(refused(length_field(~0ull) + "{}"), "18446744073709551615"));
  EXPECT_TRUE(tells(refused(length_field(1ull << 63) + "{}"), "above 100000000"));
  EXPECT_TRUE(tells(refused(length_field(100'000'001) + "{}"), "above 100000000"));
  EXPECT_TRUE(tells(refused(length_field(100'000'000) + "{}"), "past the end"));
  EXPECT_TRUE(tells(refused(length_field(3) + "{}"), "past the end"));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 5 * 0.05);
}

// Offsets count from the file's first byte; the header begins at byte 8.
TEST_F(BadSafetensors, Row2_NotUtf8) {
  const Error error = refused(with_header("{\"a\xFF\":{}}"));
  EXPECT_TRUE(tells(error, "byte 11"));
  EXPECT_TRUE(tells(error, "UTF-8"));
}

TEST_F(BadSafetensors, Row2_NotJson) {
  EXPECT_TRUE(tells(refused(with_header("")), "not valid JSON"));
  EXPECT_TRUE(tells(refused(with_header("{\"a\":")), "byte 13"));
  EXPECT_TRUE(tells(refused(with_header("{} {}")), "byte 11"));
  EXPECT_TRUE(tells(refused(with_header(std::string("{}\0\0", 4))), "byte 10"));
}

TEST_F(BadSafetensors, Row2_NotAnObject) {
  EXPECT_TRUE(tells(refused(with_header("[]")), "the header is an array"));
  EXPECT_TRUE(tells(refused(with_header("3")), "must be a JSON object"));
  EXPECT_TRUE(tells(refused(with_header("\"x\"")), "must be a JSON object"));
  EXPECT_TRUE(tells(refused(with_header("null")), "must be a JSON object"));
  EXPECT_TRUE(tells(refused(with_header("{\"a\":3}")), "\"a\""));
  EXPECT_TRUE(tells(refused(with_header("{\"__metadata__\":{\"x\":1}}")), "__metadata__"));
  EXPECT_TRUE(tells(refused(with_header("{\"__metadata__\":\"x\"}")), "__metadata__"));
}

TEST_F(BadSafetensors, Row2_HundredThousandDeep) {
  const std::string arrays(100'000, '['), closing(100'000, ']');
  EXPECT_TRUE(tells(refused(with_header(arrays + closing)), "byte 8"));
  EXPECT_TRUE(tells(refused(with_header("{\"a\":{\"new\":" + arrays + closing + "}}")), "deeper"));
}

TEST_F(BadSafetensors, Row3_Overlap) {
  const Error error = refused(with_header(
      "{" + tensor("first", "[2]", 0, 8) + "," + tensor("second", "[2]", 4, 12) + "}", 12));
  EXPECT_TRUE(tells(error, "first"));
  EXPECT_TRUE(tells(error, "second"));
  EXPECT_TRUE(tells(error, "overlap"));
}

TEST_F(BadSafetensors, Row3_Hole) {
  const Error error = refused(with_header(
      "{" + tensor("first", "[2]", 0, 8) + "," + tensor("second", "[2]", 12, 20) + "}", 20));
  EXPECT_TRUE(tells(error, "gap of 4 bytes"));
  EXPECT_TRUE(tells(error, "second"));
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("late", "[1]", 4, 8) + "}", 8)), "gap"));
}

TEST_F(BadSafetensors, Row3_Reversed) {
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("back", "[1]", 8, 4) + "}", 8)),
                    "\"back\" has data_offsets that are not [begin, end]"));
}

TEST_F(BadSafetensors, Row3_PastTheEnd) {
  const Error error = refused(with_header("{" + tensor("long", "[4]", 0, 16) + "}", 10));
  EXPECT_TRUE(tells(error, "long"));
  EXPECT_TRUE(tells(error, "6 bytes past the end"));
  const std::string huge =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],"
      "\"data_offsets\":[0,9223372036854775807]}}";
  EXPECT_TRUE(tells(refused(with_header(huge, 4)), "past the end"));
}

TEST_F(BadSafetensors, Row3_TrailingBytes) {
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("a", "[1]", 0, 4) + "}", 7)),
                    "3 bytes after its last tensor"));
  EXPECT_TRUE(tells(refused(with_header("{}", 1)), "1 bytes after"));
}

TEST_F(BadSafetensors, Row4_DimensionsThatDoNotFit) {
  EXPECT_TRUE(
      tells(refused(with_header("{" + tensor("a", "[2,9223372036854775807]", 0, 8) + "}", 8)),
            "too large"));
  // 2^32 * 2^32 wraps to 0, and 2^31 * 2^31 * 4 bytes wraps to 0 as well.
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("a", "[4294967296,4294967296]", 0, 0) + "}")),
                    "too large"));
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("a", "[2147483648,2147483648]", 0, 0) + "}")),
                    "\"a\""));
  EXPECT_TRUE(
      tells(refused(with_header("{" + tensor("a", "[18446744073709551615]", 0, 8) + "}", 8)),
            "18446744073709551615"));
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("a", "[-1]", 0, 4) + "}", 4)), "-1"));
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("a", "[1.5]", 0, 4) + "}", 4)), "1.5"));
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("a", "[1e3]", 0, 4) + "}", 4)), "\"a\""));
  EXPECT_TRUE(tells(refused(with_header("{" + tensor("a", "[\"1\"]", 0, 4) + "}", 4)), "\"a\""));
  EXPECT_TRUE(
      tells(refused(with_header("{" + tensor("a", "[3]", 0, 8) + "}", 8)), "needs 12 bytes"));
}

TEST_F(BadSafetensors, Row5_KeysTwice) {
  EXPECT_TRUE(
      tells(refused(with_header(
                "{" + tensor("same", "[1]", 0, 4) + "," + tensor("same", "[1]", 4, 8) + "}", 8)),
            "\"same\" is there twice"));
  EXPECT_TRUE(tells(refused(with_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],"
                                        "\"data_offsets\":[0,4]}}",
                                        4)),
                    "\"dtype\" of tensor \"a\" is there twice"));
  EXPECT_TRUE(tells(refused(with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],"
                                        "\"data_offsets\":[0,4]}}",
                                        4)),
                    "twice"));
  EXPECT_TRUE(tells(refused(with_header("{\"__metadata__\":{\"x\":\"1\",\"x\":\"2\"}}")), "twice"));
  EXPECT_TRUE(tells(refused(with_header("{\"__metadata__\":{},\"__metadata__\":{}}")), "twice"));
}

TEST_F(BadSafetensors, Row5_FieldsMissingOrTooMany) {
  EXPECT_TRUE(tells(refused(with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}")), "lacks"));
  EXPECT_TRUE(tells(refused(with_header("{\"a\":{}}")), "lacks"));
  EXPECT_TRUE(tells(refused(with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
                                        "\"data_offsets\":[0,4,8]}}",
                                        4)),
                    "more than two"));
}

TEST_F(BadSafetensors, Row6_UnknownTypeIsListedAndTheOthersWork) {
  for (const auto& path :
       {test_data("formats/float8.safetensors"),
        folder_.file("made.safetensors", with_header("{" + tensor("scaled", "[3]", 0, 2, "F5_NEW") +
                                                         "," + tensor("plain", "[3]", 2, 14) + "}",
                                                     14))}) {
    const auto file = SafetensorsFile::open(path);
    const TensorEntry& scaled = *file.find("scaled");
    EXPECT_EQ(scaled.dtype, DType::unsupported);
    EXPECT_EQ(scaled.dtype_name[0], 'F');
    std::vector<std::byte> bytes(scaled.size);
    const Error error = error_of([&] { file.read(scaled, bytes); });
    EXPECT_TRUE(tells(error, scaled.dtype_name));
    EXPECT_TRUE(tells(error, "not supported"));
    std::vector<float> plain(3);
    EXPECT_NO_THROW(file.read(*file.find("plain"), std::as_writable_bytes(std::span(plain))));
  }
}

TEST_F(BadSafetensors, SpacesAroundTheHeaderAndUnknownFieldsAreAllowed) {
  const auto file = accepted(with_header(
      " \n{\"a\":{\"new\":{\"dtype\":[1,{}]},\"dtype\":\"F32\",\"newer\":null,\"shape\":[1],"
      "\"data_offsets\":[0,4]}}   ",
      4));
  EXPECT_EQ(file.find("a")->dtype, DType::f32);
  EXPECT_EQ(file.find("a")->size, 4u);
}

TEST_F(BadSafetensors, EmptyTensorsMayShareAnOffset) {
  const auto file =
      accepted(with_header("{" + tensor("b", "[1]", 0, 4) + "," + tensor("a", "[0]", 0, 0) + "," +
                               tensor("c", "[0,7]", 4, 4) + "}",
                           4));
  EXPECT_EQ(file.tensors().size(), 3u);
}

// Half a million tensors in a header of about 99 MB.
std::string huge_header() {
  std::string header = "{";
  header.reserve(100'000'000);
  const std::string padding(130, 'n');
  for (int i = 0; i < 500'000; ++i) {
    if (i > 0) header += ',';
    header += tensor(padding + std::to_string(100'000'000 + i), "[1]", i, i + 1, "U8");
  }
  return header + "}";
}

long peak_memory_megabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

TEST_F(BadSafetensors, Row7_HalfAMillionTensorsLoadInBoundedMemoryAndCanBeCancelled) {
  const std::string header = huge_header();
  ASSERT_GT(header.size(), 90'000'000u);
  ASSERT_LE(header.size(), 100'000'000u);
  const auto path = folder_.file("huge.safetensors", with_header(header, 500'000));
  int asked = 0;
  const Error error =
      error_of([&] { SafetensorsFile::open(path, {.cancelled = [&] { return ++asked == 3; }}); });
  EXPECT_EQ(error.code(), "cancelled");
  EXPECT_EQ(asked, 3);

  [[maybe_unused]] const long before = peak_memory_megabytes();
  EXPECT_EQ(SafetensorsFile::open(path).tensors().size(), 500'000u);
#if !defined(__SANITIZE_ADDRESS__)
  // The header itself, then a name, a shape and an entry for each tensor: well under 1 GB.
  EXPECT_LT(peak_memory_megabytes() - before, 800);
#endif
}

TEST_F(BadSafetensors, Row7_MoreThanAMillionTensorsAreRefused) {
  std::string header = "{";
  for (int i = 0; i <= 1'000'000; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
              "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  }
  EXPECT_TRUE(tells(refused(with_header(header + "}")), "1,000,000"));
}

class ChangedFile : public BadSafetensors {
 protected:
  ChangedFile()
      : path_(folder_.file("model.safetensors",
                           with_header("{" + tensor("a", "[2048]", 0, 8192) + "}", 8192))),
        file_(SafetensorsFile::open(path_)) {}

  Error read_error() {
    std::vector<std::byte> bytes(8192);
    return error_of([&] { file_.read(*file_.find("a"), bytes); });
  }

  std::filesystem::path path_;
  SafetensorsFile file_;
};

TEST_F(ChangedFile, Row8_TruncatedAfterOpening) {
  std::filesystem::resize_file(path_, 4000);
  EXPECT_TRUE(tells(read_error(), "cut short or rewritten"));
  std::filesystem::resize_file(path_, 0);
  EXPECT_TRUE(tells(read_error(), "model.safetensors"));
}

TEST_F(ChangedFile, Row8_RewrittenAfterOpening) {
  std::string content = file_content(path_);
  content.back() = 'x';
  folder_.file("model.safetensors", content);
  // The clock of file times may tick slowly.
  std::filesystem::last_write_time(
      path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(2));
  EXPECT_TRUE(tells(read_error(), "rewritten"));
}

TEST_F(ChangedFile, Row8_ReplacedByAnotherFileKeepsTheOldOne) {
  folder_.file("new.safetensors", "something else");
  std::filesystem::rename(folder_ / "new.safetensors", path_);
  std::vector<std::byte> bytes(8192);
  EXPECT_NO_THROW(file_.read(*file_.find("a"), bytes));
}

TEST_F(BadSafetensors, PathsThatAreNoFiles) {
  EXPECT_TRUE(tells(error_of([&] { SafetensorsFile::open(folder_ / "missing.safetensors"); }),
                    "missing.safetensors"));
  EXPECT_TRUE(tells(error_of([&] { SafetensorsFile::open(folder_.path()); }), "not a file"));
  EXPECT_TRUE(tells(error_of([&] { SafetensorsFile::open("/dev/null"); }), "not a file"));
}

// Every prefix of a sound file is refused, and every header with one byte changed is either read or
// refused; nothing else may happen (the sanitizers watch).
TEST_F(BadSafetensors, NoMutationOfASoundFileDoesHarm) {
  const std::string sound = file_content(test_data("formats/all_types.safetensors"));
  for (std::size_t size = 0; size < sound.size(); size += 29) refused(sound.substr(0, size));
  const std::size_t data_begin = sound.rfind('}') + 1;
  std::string header = sound.substr(8, data_begin - 8);
  for (char& place : header) {
    const char before = place;
    for (const char byte : {'\0', '{', '}', '[', '"', ',', '9', '-', '\xFF'}) {
      place = byte;
      try {
        const auto read = parse_safetensors_header(header, data_begin, sound.size(), "mutant", {});
        for (const TensorEntry& entry : read.tensors) {
          EXPECT_LE(entry.offset + entry.size, sound.size());
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), "bad_input");
      }
    }
    place = before;
  }
}

}  // namespace
}  // namespace phasescope::formats
