// Quantised checkpoints against what other people's code decodes them to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/json.h"
#include "formats/model_tensors.h"
#include "formats/quantised/dequantise.h"
#include "formats/tensors/value_counts.h"
#include "support.h"
#include "tests/golden_folder.h"

namespace phasescope::formats {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* name;
  const char* label;     // one of those its tensors have
  std::int64_t decoded;  // tensors, in the whole case
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr Case kCases[] = {
    {"fp8_block", "FP8 E4M3 in blocks of 128x128", 7},
    {"fp8_block_partial", "FP8 E4M3 in blocks of 32x32", 7},
    {"fp8_block_e8m0", "FP8 E4M3 in blocks of 32x32", 7},
    {"mxfp4_gpt_oss", "MXFP4", 4},
    {"gptq_int4", "GPTQ int4", 7},
    {"gptq_int4_act_order", "GPTQ int4", 7},
    {"gptq_int4_v2", "GPTQ int4", 7},
    {"awq_int4", "AWQ int4", 7},
    {"compressed_w4a16", "compressed-tensors int4", 7},
    {"compressed_w4a16_asym", "compressed-tensors int4", 7},
    {"compressed_fp8_channel", "compressed-tensors FP8 E4M3", 7},
    {"bnb_nf4", "bitsandbytes NF4", 7},
    {"bnb_nf4_double", "bitsandbytes NF4, quantised twice", 7},
    {"gguf_f32", "", 0},
    {"gguf_f16", "", 0},
    {"gguf_bf16", "", 0},
    {"gguf_q8_0", "Q8_0", 9},
    {"gguf_q4_0", "Q4_0", 9},
    {"gguf_q4_1", "Q4_1", 9},
    {"gguf_q5_0", "Q5_0", 9},
    {"gguf_q5_1", "Q5_1", 9},
    {"gguf_q4_k", "Q4_K", 9},
    {"gguf_k_mixed", "Q2_K", 9},
};

ModelTensors opened(const fs::path& folder) {
  const fs::path gguf = folder / "model.gguf";
  if (fs::exists(gguf)) return open_model_tensors(gguf, gguf);
  return open_model_tensors(folder / "config.json", folder);
}

double as_double(const std::byte* at, DType dtype) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, item_size(dtype));
  if (dtype == DType::bf16) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}

// Every w.NAME of the reference, element by element; how many there are.
int expect_weights(const TensorArchive& archive, const fs::path& reference) {
  const auto file = SafetensorsFile::open(reference);
  int compared = 0;
  for (const TensorEntry& wanted : file.tensors()) {
    if (!wanted.name.starts_with("w.")) continue;
    const TensorEntry* entry = archive.find(wanted.name.substr(2));
    if (entry == nullptr) {
      ADD_FAILURE() << wanted.name << " is missing";
      continue;
    }
    EXPECT_EQ(entry->shape, wanted.shape) << wanted.name;
    if (entry->dtype == DType::f16) continue;  // as the file has it
    std::vector<std::byte> ours(entry->size), theirs(wanted.size);
    archive.read(*entry, ours);
    file.read(wanted, theirs);
    double largest = 0, worst = 0;
    for (std::int64_t i = 0; i < wanted.element_count(); ++i) {
      const double b = as_double(theirs.data() + 4 * i, DType::f32);
      const auto item = static_cast<std::int64_t>(item_size(entry->dtype));
      const double difference = std::abs(as_double(ours.data() + item * i, entry->dtype) - b);
      largest = std::max(largest, std::abs(b));
      worst = difference <= worst ? worst : difference;  // NaN stays
    }
    // A unit of float32: a compiler may round a product and a sum once, others' code twice.
    EXPECT_LE(worst, 0x1p-23 * largest) << wanted.name;
    ++compared;
  }
  return compared;
}

class Quantised : public ::testing::TestWithParam<Case> {};

// One matrix of each format, which lies in tests/data.
TEST(QuantisedMatrices, AreWhatOthersDecodeThemTo) {
  int compared = 0;
  for (const Case& one : kCases) {
    const fs::path folder = test_data("formats/quantised") / one.name;
    if (!fs::exists(folder)) continue;
    const ModelTensors model = opened(folder);
    compared += expect_weights(model.archive, folder / "expected.safetensors");
    EXPECT_EQ(decoded_tensors(model.archive.tensors()).count(one.label), 1u) << one.name;
  }
  EXPECT_EQ(compared, 8);
}

TEST_P(Quantised, EveryTensorIsWhatOthersDecodeItTo) {
  const fs::path folder = golden_path(std::string("hf/formats/") + GetParam().name, true);
  if (folder.empty()) GTEST_SKIP() << "its files are not here";
  const ModelTensors model = opened(folder);
  const auto decoded = decoded_tensors(model.archive.tensors());
  std::int64_t count = 0;
  for (const auto& [label, tensors] : decoded) count += tensors;
  EXPECT_EQ(count, GetParam().decoded);
  EXPECT_EQ(decoded.count(GetParam().label), count > 0 ? 1u : 0u);
  EXPECT_GE(expect_weights(model.archive, folder / "expected.safetensors"), count);
  if (count > 0) {
    EXPECT_NE(model.quirks.at(0).find("dequantised once"), std::string::npos);
    EXPECT_NE(model.quirks.at(0).find(GetParam().label), std::string::npos);
  }
  for (const TensorEntry& entry : model.archive.tensors()) {
    EXPECT_NE(entry.dtype, DType::unsupported) << entry.name;
  }
}

// What the loader does with large tensors: parts that begin and end anywhere, blocks of a visit.
TEST_P(Quantised, PartsAndBlocksAreThoseOfTheWhole) {
  fs::path folder = test_data("formats/quantised") / GetParam().name;
  if (!fs::exists(folder)) folder = golden_path(std::string("hf/formats/") + GetParam().name, true);
  if (folder.empty()) GTEST_SKIP() << "its files are not here";
  const ModelTensors model = opened(folder);
  for (const TensorEntry& entry : model.archive.tensors()) {
    if (!entry.decoded) continue;
    std::vector<std::byte> whole(entry.size);
    model.archive.read(entry, whole);
    for (const auto& [begin, count] :
         {std::pair<std::size_t, std::size_t>{0, 4}, {4, 148}, {124, 1000}}) {
      std::vector<std::byte> part(std::min<std::size_t>(count, entry.size - begin));
      model.archive.read_part(entry, begin, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(begin)))
          << entry.name << " " << begin;
    }
    EXPECT_EQ(count_values(model.archive, entry).elements * sizeof(float), entry.size);
    EXPECT_EQ(count_values(model.archive, entry).nan, 0u);
    EXPECT_EQ(entry.size % 4, 0u);
    EXPECT_EQ(model.archive.whole_bytes(entry) % 4, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Quantised, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- What cannot be read ------------------------------------------------------------------------

struct Stored {
  DType dtype;
  std::vector<std::int64_t> shape;
};

class BadQuantised : public ::testing::Test {
 protected:
  // A checkpoint of zeros with this quantization_config; `content` of some tensors in their place.
  Error refused(const Json& quantisation, const std::map<std::string, Stored>& tensors,
                const std::map<std::string, std::string>& content = {}) {
    write(quantisation, tensors, content);
    return error_of([&] { open_model_tensors(folder_ / "config.json", folder_.path()); });
  }
  void write(const Json& quantisation, const std::map<std::string, Stored>& tensors,
             const std::map<std::string, std::string>& content = {}) {
    folder_.file("config.json", Json{{"quantization_config", quantisation}}.dump());
    std::vector<std::vector<std::byte>> zeros;
    std::vector<TensorToWrite> list;
    for (const auto& [name, stored] : tensors) {
      const auto bytes = *checked_element_count(stored.shape) * item_size(stored.dtype);
      zeros.emplace_back(bytes);
      if (const auto own = content.find(name); own != content.end()) {
        std::memcpy(zeros.back().data(), own->second.data(), std::min(bytes, own->second.size()));
      }
      list.push_back({name, stored.dtype, stored.shape, {}});
    }
    for (std::size_t i = 0; i < list.size(); ++i) list[i].bytes = zeros[i];
    write_safetensors(real_file_system(), folder_ / "model.safetensors", list);
  }

  TemporaryFolder folder_;
  const std::map<std::string, Stored> gptq_ = {{"a.qweight", {DType::i32, {4, 16}}},
                                               {"a.qzeros", {DType::i32, {2, 2}}},
                                               {"a.scales", {DType::f16, {2, 16}}},
                                               {"a.g_idx", {DType::i32, {32}}}};
};

TEST_F(BadQuantised, UnknownMethodsAreRefusedByNameWithThoseThatAreKnown) {
  const Error error = refused({{"quant_method", "quip_of_tomorrow"}}, gptq_);
  EXPECT_TRUE(tells(error, "\"quip_of_tomorrow\""));
  for (const char* known :
       {"fp8", "mxfp4", "gptq", "awq", "compressed-tensors", "bitsandbytes", "config.json"}) {
    EXPECT_TRUE(tells(error, known));
  }
  EXPECT_TRUE(tells(refused({{"bits", 4}}, gptq_), "nothing says how"));
}

TEST_F(BadQuantised, AnOrderOfInputsThatTheFileDoesNotHaveIsNamed) {
  auto unordered = gptq_;
  unordered.erase("a.g_idx");
  const Json config = {
      {"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}, {"desc_act", true}};
  EXPECT_TRUE(tells(refused(config, unordered), "desc_act"));
  EXPECT_TRUE(tells(refused(config, unordered), "a.g_idx"));
}

TEST_F(BadQuantised, SettingsThatCannotBeReadAreNamed) {
  const auto gptq = [&](const Json& more) {
    Json config = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}};
    config.update(more);
    return refused(config, gptq_);
  };
  EXPECT_TRUE(tells(gptq({{"bits", 3}}), "bits: is 3"));
  EXPECT_TRUE(tells(gptq({{"checkpoint_format", "marlin"}}), "marlin"));
  EXPECT_TRUE(tells(gptq({{"group_size", "many"}}), "group_size"));
  EXPECT_TRUE(tells(gptq({{"format", "marlin"}}), "marlin"));  // as newer tools call it
  EXPECT_TRUE(tells(refused({{"quant_method", "awq"}, {"version", "gemv"}}, gptq_), "gemv"));
  EXPECT_TRUE(tells(refused({{"quant_method", "awq"}, {"format", "gemv_fast"}}, gptq_), "format"));
  EXPECT_TRUE(tells(refused({{"quant_method", "awq"}, {"backend", "llm-awq"}}, gptq_), "backend"));
  EXPECT_TRUE(tells(refused({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}, gptq_),
                    "load_in_4bit"));
  EXPECT_TRUE(
      tells(refused({{"quant_method", "compressed-tensors"}, {"format", "int-quantized"}}, gptq_),
            "int-quantized"));
  const Json rotated = {{"quant_method", "compressed-tensors"},
                        {"format", "pack-quantized"},
                        {"transform_config", {{"config_groups", {{"R1", Json::object()}}}}}};
  EXPECT_TRUE(tells(refused(rotated, gptq_), "transform_config"));
  EXPECT_TRUE(tells(refused({{"quant_method", "fp8"}, {"weight_block_size", {128}}}, gptq_),
                    "weight_block_size"));
}

TEST_F(BadQuantised, TensorsThatDoNotFitAreNamed) {
  const Json config = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}};
  const auto with = [&](const std::string& name, const Stored& stored) {
    auto tensors = gptq_;
    tensors[name] = stored;
    return refused(config, tensors);
  };
  write(config, gptq_);
  EXPECT_NO_THROW(open_model_tensors(folder_ / "config.json", folder_.path()));
  EXPECT_TRUE(tells(with("a.qzeros", {DType::i32, {2, 3}}), "\"a.qzeros\" has the shape [2, 3]"));
  EXPECT_TRUE(tells(with("a.qweight", {DType::f32, {4, 16}}), "I32"));
  EXPECT_TRUE(tells(with("a.qweight", {DType::i32, {64}}), "2 dimensions"));
  EXPECT_TRUE(tells(with("a.g_idx", {DType::i32, {31}}), "a.g_idx"));
  auto empty_index = gptq_;
  empty_index["a.g_idx"] = {DType::i32, {0}};
  write(config, empty_index);
  EXPECT_NO_THROW(open_model_tensors(folder_ / "config.json", folder_.path()));
  auto without = gptq_;
  without.erase("a.scales");
  EXPECT_TRUE(tells(refused(config, without), "without \"a.scales\""));
  auto no_index = gptq_;
  no_index.erase("a.g_idx");
  EXPECT_TRUE(tells(refused({{"quant_method", "gptq"}, {"group_size", 8}}, no_index), "need 4"));
}

TEST_F(BadQuantised, AGroupThatIsNoneIsAnErrorWhenItIsRead) {
  auto tensors = gptq_;
  tensors.erase("a.g_idx");
  write({{"quant_method", "gptq"}, {"group_size", 16}}, tensors);
  // A group of 7 in the middle of the inputs.
  std::vector<std::vector<std::byte>> content;
  std::vector<TensorToWrite> list;
  const auto archive = TensorArchive::open(folder_.path());
  for (const TensorEntry& entry : archive.tensors()) {
    content.emplace_back(entry.size);
    list.push_back({entry.name, entry.dtype, entry.shape, {}});
  }
  list.push_back({"a.g_idx", DType::i32, {32}, {}});
  content.emplace_back(32 * 4);
  content.back()[4 * 20] = std::byte{7};
  for (std::size_t i = 0; i < list.size(); ++i) list[i].bytes = content[i];
  write_safetensors(real_file_system(), folder_ / "model.safetensors", list);
  const ModelTensors model = open_model_tensors(folder_ / "config.json", folder_.path());
  const TensorEntry& entry = *model.archive.find("a.weight");
  std::vector<std::byte> out(entry.size);
  EXPECT_TRUE(tells(error_of([&] { model.archive.read(entry, out); }), "the group 7"));
}

TEST_F(BadQuantised, Row4_AwqTensorsThatDoNotFitAreNamed) {
  const Json config = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 16}};
  const std::map<std::string, Stored> sound = {{"a.qweight", {DType::i32, {32, 2}}},
                                               {"a.qzeros", {DType::i32, {2, 2}}},
                                               {"a.scales", {DType::f16, {2, 16}}}};
  write(config, sound);
  EXPECT_NO_THROW(open_model_tensors(folder_ / "config.json", folder_.path()));
  const auto with = [&](const std::string& name, const Stored& stored) {
    auto tensors = sound;
    tensors[name] = stored;
    return refused(config, tensors);
  };
  EXPECT_TRUE(tells(with("a.qweight", {DType::i32, {32, 3}}), "must have [32, 2]"));
  EXPECT_TRUE(tells(with("a.qweight", {DType::i32, {48, 2}}), "need 3"));
  EXPECT_TRUE(tells(with("a.qzeros", {DType::i32, {1, 2}}), "must have [2, 2]"));
  EXPECT_TRUE(tells(with("a.scales", {DType::f16, {2, 12}}), "12 outputs"));
  EXPECT_TRUE(tells(with("a.scales", {DType::f16, {3, 16}}), "a.qzeros"));
  EXPECT_TRUE(tells(with("a.qweight", {DType::i32, {0, 2}}), "no elements"));
}

// A state of 4 x 32 numbers in two blocks, and everything about it that may be a lie.
TEST_F(BadQuantised, Row4_Nf4StatesThatDoNotFitTheirTensorsAreNamed) {
  const Json config = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
  const std::string state = "w.quant_state.bitsandbytes__nf4";
  const std::map<std::string, Stored> sound = {{"w", {DType::u8, {64, 1}}},
                                               {"w.absmax", {DType::f32, {2}}},
                                               {"w.quant_map", {DType::f32, {16}}}};
  const auto with_state = [&](const std::string& text, const std::string& name = "",
                              const Stored& stored = {}) {
    auto tensors = sound;
    if (!name.empty()) tensors[name] = stored;
    tensors[state] = {DType::u8, {static_cast<std::int64_t>(text.size())}};
    return std::pair(tensors, std::map<std::string, std::string>{{state, text}});
  };
  const auto says = [&](const auto& checkpoint) {
    return refused(config, checkpoint.first, checkpoint.second);
  };
  const std::string good = R"({"shape": [4, 32], "blocksize": 64})";
  const auto [tensors, content] = with_state(good);
  write(config, tensors, content);
  EXPECT_NO_THROW(open_model_tensors(folder_ / "config.json", folder_.path()));

  const char* wraps = R"({"shape": [2147483648, 2147483648, 2147483648], "blocksize": 64})";
  EXPECT_TRUE(tells(says(with_state(wraps)), "too large a shape"));
  EXPECT_TRUE(tells(says(with_state(R"({"shape": [4, 64]})")), "must have 128"));
  EXPECT_TRUE(tells(says(with_state(R"({"shape": [4, -32]})")), "shape"));
  EXPECT_TRUE(tells(says(with_state(R"({"shape": [4.5, 32]})")), "part of a dimension"));
  EXPECT_TRUE(tells(says(with_state(R"({"blocksize": 64})")), "is no shape"));
  for (const char* block : {"0", "63", "-64", "1e30", "\"64\""}) {
    const std::string text = std::string(R"({"shape": [4, 32], "blocksize": )") + block + "}";
    EXPECT_TRUE(tells(says(with_state(text)), "blocksize")) << block;
  }
  EXPECT_TRUE(tells(says(with_state(good.substr(0, 14))), "w.quant_state"));
  EXPECT_TRUE(tells(says(with_state("[1]")), "w.quant_state"));
  EXPECT_TRUE(tells(says(with_state(good, "w.absmax", {DType::f32, {1}})), "must have 2"));
  EXPECT_TRUE(tells(says(with_state(good, "w.quant_map", {DType::f32, {15}})), "must have 16"));
  EXPECT_TRUE(tells(says(with_state(good, "w", {DType::u8, {63, 1}})), "must have 64"));
  EXPECT_TRUE(tells(says(with_state(good, "w", {DType::i8, {64, 1}})), "U8"));

  // Magnitudes that are quantised themselves.
  const std::string nested = R"({"shape": [4, 32], "blocksize": 64, "nested_blocksize": 256})";
  EXPECT_TRUE(tells(says(with_state(nested)), "must be U8"));
  auto twice = with_state(nested, "w.absmax", {DType::u8, {2}});
  EXPECT_TRUE(tells(says(twice), "without \"w.nested_quant_map\""));
  twice.first["w.nested_quant_map"] = {DType::f32, {256}};
  twice.first["w.nested_absmax"] = {DType::f32, {0}};
  EXPECT_TRUE(tells(says(twice), "must have 1"));
}

TEST_F(BadQuantised, Row8_AFileCutShortAfterOpeningIsAnError) {
  write({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}}, gptq_);
  const ModelTensors model = open_model_tensors(folder_ / "config.json", folder_.path());
  const TensorEntry& entry = *model.archive.find("a.weight");
  EXPECT_FALSE(model.archive.mapped(entry));  // its numbers are nowhere in the file
  std::filesystem::resize_file(folder_ / "model.safetensors", 64);
  std::vector<std::byte> out(entry.size);
  EXPECT_TRUE(tells(error_of([&] { model.archive.read(entry, out); }), "cut short"));
}

TEST_F(BadQuantised, PlainWeightsOfAQuantisedConfigurationAreReadWithAWarning) {
  write({{"quant_method", "gptq"}}, {{"a.weight", {DType::f32, {2, 2}}}});
  const ModelTensors model = open_model_tensors(folder_ / "config.json", folder_.path());
  EXPECT_EQ(model.archive.tensors().size(), 1u);
  ASSERT_EQ(model.warnings.size(), 1u);
  EXPECT_NE(model.warnings[0].find("no tensor is kept so"), std::string::npos);
  EXPECT_TRUE(model.quirks.empty());
}

}  // namespace
}  // namespace phasescope::formats
