#include "protocol/frame.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "protocol/crc32c.h"
#include "protocol/error_info.h"
#include "tests/protocol/frame_bytes.h"

namespace phasescope::protocol {
namespace {

using nlohmann::json;

Frame sample_frame() {
  Frame frame{FrameType::result, 7, {{"answer", 42}, {"text", "π"}}, {}};
  frame.tensors.push_back(TensorRef::own<float>("a", {2, 3}, {1, 2, 3, 4, 5, 6}));
  frame.tensors.push_back(TensorRef::own<std::int64_t>("empty", {0, 5}, {}));
  frame.tensors.push_back(TensorRef::own<double>("scalar", {}, {0.5}));
  return frame;
}

TEST(Crc32c, MatchesRfc3720) {
  std::vector<std::byte> bytes(32, std::byte{0});
  EXPECT_EQ(crc32c(bytes), 0x8A9136AAu);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62A8AB43u);
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46DD794Eu);
  EXPECT_EQ(crc32c(std::as_bytes(std::span("123456789", 9))), 0xE3069283u);
}

TEST(Crc32c, TablesAgreeWithTheInstructionInPieces) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(1021);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t cut : {0u, 1u, 7u, 8u, 13u, 1020u, 1021u}) {
    const auto all = std::span<const std::byte>(bytes);
    EXPECT_EQ(crc32c_by_tables(all), crc32c(all.subspan(cut), crc32c(all.first(cut))));
  }
}

TEST(TensorRef, RefusesWhatDoesNotFit) {
  EXPECT_THROW(TensorRef::own<float>("a", {2, 2}, {1, 2, 3}), std::invalid_argument);
  const auto tensor = TensorRef::own<float>("a", {2}, {1, 2});
  EXPECT_THROW(tensor.values<double>(), std::invalid_argument);
  EXPECT_EQ(tensor.values<float>()[1], 2);
  EXPECT_FALSE(tensor_bytes("F32", std::vector<std::int64_t>{-1}));
  EXPECT_FALSE(tensor_bytes("F32", std::vector<std::int64_t>{1ll << 40, 1ll << 40}));
  EXPECT_FALSE(tensor_bytes("F33", std::vector<std::int64_t>{1}));
  EXPECT_EQ(tensor_bytes("BF16", std::vector<std::int64_t>{1ll << 61, 0}), 0u);
}

TEST(Frame, SurvivesARoundTripInAnyPieces) {
  const auto bytes = frame_bytes(sample_frame());
  for (std::size_t piece : {1u, 2u, 3u, 7u, 64u, 100'000u}) {
    FrameDecoder decoder({});
    const auto frames = decode_all(decoder, bytes, piece);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].type, FrameType::result);
    EXPECT_EQ(frames[0].id, 7u);
    EXPECT_EQ(frames[0].header["text"], "π");
    ASSERT_EQ(frames[0].tensors.size(), 3u);
    EXPECT_EQ(frames[0].tensors[0].values<float>()[5], 6);
    EXPECT_EQ(frames[0].tensors[1].elements(), 0u);
    EXPECT_EQ(frames[0].tensors[2].values<double>()[0], 0.5);
  }
}

TEST(Frame, InvalidUtf8BecomesTheReplacementCharacter) {
  FrameDecoder decoder({});
  const auto bytes = frame_bytes({FrameType::result, 1, {{"text", "\xff"}}, {}});
  EXPECT_EQ(decode_all(decoder, bytes, 9).at(0).header["text"], "\xEF\xBF\xBD");
}

TEST(Frame, SkipsABannerBeforeTheFirstMagicOnly) {
  auto bytes = frame_bytes({FrameType::heartbeat, 0, json::object(), {}});
  // The first byte of the magic, and a part of it, occur in the banner.
  std::string banner = "Welcome!\n\x89PSC\x89\x89PS" + std::string(60'000, '.');
  std::string all = banner + bytes + bytes;
  FrameDecoder decoder({});
  EXPECT_EQ(decode_all(decoder, all, 4096).size(), 2u);
  EXPECT_EQ(decoder.banner().substr(0, 8), "Welcome!");
  FrameDecoder strict({});
  EXPECT_THROW(decode_all(strict, bytes + "hello" + bytes, 4096), FrameError);
}

std::string reason_of(const std::string& bytes, FrameLimits limits = {}) {
  FrameDecoder decoder(limits);
  try {
    decode_all(decoder, bytes, 4096);
  } catch (const FrameError& error) {
    return error.what();
  }
  return "";
}

TEST(Row28, BadMagic) {
  EXPECT_NE(reason_of(std::string(65'537, 'x')).find("65536 bytes of text and no frame"),
            std::string::npos);
  auto bytes = frame_bytes(sample_frame());
  EXPECT_NE(reason_of(bytes + "\x89PSD").find("bad magic"), std::string::npos);
}

TEST(Row28, LengthOfFourGiB) {
  Preamble preamble{protocol_version, FrameType::result, false, 1, 2, std::uint64_t{4} << 30};
  EXPECT_NE(reason_of(raw_frame(preamble, "{}")).find("payload of 4294967296 bytes"),
            std::string::npos);
  preamble = {protocol_version, FrameType::result, false, 1, 0xffffffff, 0};
  EXPECT_NE(reason_of(raw_frame(preamble, "{}")).find("header of 4294967295 bytes"),
            std::string::npos);
}

TEST(Row28, WrongCrc) {
  const auto bytes = frame_bytes(sample_frame());
  // A flipped bit anywhere is noticed, and nothing is delivered.
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    FrameDecoder decoder({});
    try {
      EXPECT_TRUE(decode_all(decoder, broken, 4096).empty()) << "byte " << at;
      EXPECT_LT(at, 8u) << "only a broken magic may pass as a banner";
    } catch (const FrameError&) {
    }
  }
}

TEST(Row28, UnknownTypeFlagOrVersion) {
  const auto with = [](std::uint16_t version, int type) {
    return raw_frame({version, static_cast<FrameType>(type), false, 0, 0, 0}, "{\"body\":{}}");
  };
  EXPECT_NE(reason_of(with(protocol_version, 99)).find("unknown type 99"), std::string::npos);
  EXPECT_NE(reason_of(with(9, 2)).find("protocol version 9"), std::string::npos);
  EXPECT_EQ(reason_of(with(9, 1)), "") << "a hello of any version is read";
}

TEST(Row28, TensorsThatDoNotFillTheirPayload) {
  const std::string list = R"({"body":{},"tensors":[{"name":"a","dtype":"F32","shape":[4]}]})";
  const auto with = [&](std::size_t payload) {
    return raw_frame({protocol_version, FrameType::result, false, 1, 0, payload}, list,
                     std::string(payload, '\0'));
  };
  EXPECT_EQ(reason_of(with(16)), "");
  EXPECT_NE(reason_of(with(15)), "");
  EXPECT_NE(reason_of(with(17)), "");
  EXPECT_NE(reason_of(raw_frame({protocol_version, FrameType::cancel, false, 1, 0, 4},
                                "{\"body\":{}}", "abcd"))
                .find("of a type that has none"),
            std::string::npos);
}

TEST(Row28, HeadersThatAreNoHeaders) {
  for (const char* text : {"", "[", "[]", "{}", "{\"body\":[]}", "\xff\xfe", "{\"body\":{}} x",
                           R"({"body":{},"tensors":{}})", R"({"body":{},"tensors":[3]})",
                           R"({"body":{},"tensors":[{"name":"a","dtype":"F32","shape":[0.5]}]})",
                           R"({"body":{},"tensors":[{"name":"a","dtype":"X","shape":[0]}]})",
                           R"({"body":{},"tensors":[{"name":"a","dtype":"F32","shape":[-1]}]})",
                           R"({"body":{},"tensors":[{"name":1,"dtype":"F32","shape":[0]}]})"}) {
    EXPECT_NE(reason_of(raw_frame({protocol_version, FrameType::request, false, 1, 0, 0}, text)),
              "")
        << text;
  }
  const std::string deep = "{\"body\":" + std::string(100'000, '[') + "}";
  EXPECT_NE(reason_of(raw_frame({protocol_version, FrameType::request, false, 1, 0, 0}, deep))
                .find("nested deeper than 64"),
            std::string::npos);
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(Row28, AnnouncedLengthsCostNothingUntilTheyCome) {
  const long before = peak_kilobytes();
  for (int i = 0; i < 50; ++i) {
    FrameDecoder decoder({});
    Preamble preamble{protocol_version, FrameType::result, false, 1, 0, std::uint64_t{2} << 30};
    auto bytes = raw_frame(preamble, "{\"body\":{}}", std::string(1000, 'x'));
    bytes.resize(bytes.size() - 4);
    EXPECT_TRUE(decode_all(decoder, bytes, 512).empty());
    EXPECT_TRUE(decoder.inside_frame());
    preamble = {protocol_version, FrameType::result, false, 1, 64u << 20, 0};
    FrameDecoder waiting({});
    EXPECT_TRUE(decode_all(waiting, raw_frame(preamble, "{\"body\"", "", false), 512).empty());
  }
  // Sanitizers keep freed memory for a while; 100 GiB were announced.
  EXPECT_LT(peak_kilobytes() - before, 300'000);
}

TEST(Row28, RandomBytesAndRandomDamage) {
  std::mt19937 random(28);
  const auto good = frame_bytes(sample_frame());
  for (int round = 0; round < 3000; ++round) {
    auto bytes = good + good;
    const int damages = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < damages; ++i) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 16);
          break;
        default:
          bytes.insert(at, std::string(random() % 16, static_cast<char>(random())));
      }
    }
    FrameDecoder decoder({});
    try {
      EXPECT_LE(decode_all(decoder, bytes, 1 + random() % 200).size(), 2u);
    } catch (const FrameError&) {
    }
  }
}

TEST(Frame, RefusesToBeWrittenBeyondItsLimits) {
  Frame frame = sample_frame();
  FrameLimits limits;
  limits.header = 10;
  EXPECT_THROW(encode_frame(frame, limits, std::nullopt), FrameError);
  limits = {};
  limits.payload = 16;
  EXPECT_THROW(encode_frame(frame, limits, std::nullopt), FrameError);
  EXPECT_THROW(encode_frame(frame, limits, 0), FrameError);
  frame.tensors[0].data = nullptr;
  EXPECT_THROW(encode_frame(frame, {}, std::nullopt), FrameError);
}

TEST(ErrorInfo, HasOneJsonFormAndTheExitStatusOfItsCode) {
  const ErrorInfo error{"bad_input", "No such file", "a.json", "Look there"};
  EXPECT_EQ(json(error).get<ErrorInfo>(), error);
  EXPECT_EQ(error_document(error)["error"]["where"], "a.json");
  EXPECT_EQ(json("text").get<ErrorInfo>().code, "internal");
  EXPECT_EQ(describe(error), "No such file (a.json). Look there");
  const std::vector<std::pair<std::string, int>> statuses = {
      {"bad_usage", 2}, {"bad_input", 2},     {"device_unavailable", 3}, {"worker_died", 4},
      {"internal", 4},  {"out_of_memory", 5}, {"cancelled", 130},        {"else", 4}};
  for (const auto& [code, status] : statuses) EXPECT_EQ(exit_status(code), status) << code;
}

}  // namespace
}  // namespace phasescope::protocol
