// GGUF files: blocks against the Python package gguf, names and keys, and bad files by the rows of
// the table of faults for safetensors.
#include "formats/tensors/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/base64.h"
#include "formats/gguf_model.h"
#include "formats/json.h"
#include "formats/tensors/ggml_blocks.h"
#include "formats/tensors/small_floats.h"
#include "formats/tokenizers/gguf_tokenizer.h"
#include "gguf_writer.h"
#include "support.h"

namespace phasescope::formats {
namespace {

std::vector<float> values_of(const TensorFile& file, const std::string& name) {
  const TensorEntry& entry = *file.find(name);
  std::vector<float> values(entry.size / sizeof(float));
  file.read(entry, std::as_writable_bytes(std::span(values)));
  return values;
}

// IEEE 754: the value of every bit pattern by its definition.
TEST(SmallFloats, AreWhatTheirBitsMean) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const double sign = bits >> 15 != 0 ? -1 : 1, fraction = bits & 1023;
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const float value = f16_value(static_cast<std::uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0) << bits;
      EXPECT_EQ(std::isinf(value), fraction == 0) << bits;
      continue;
    }
    const double wanted =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(static_cast<double>(value), sign * wanted) << bits;
    EXPECT_EQ(std::signbit(value), sign < 0) << bits;
  }
  int finite = 0;
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    const float e4m3 = e4m3_value(byte);
    EXPECT_EQ(std::isnan(e4m3), (bits & 0x7F) == 0x7F) << bits;
    finite += std::isfinite(e4m3) ? 1 : 0;
    if (bits < 0x7F && bits > 0) {
      EXPECT_GT(e4m3, e4m3_value(static_cast<std::uint8_t>(bits - 1)));
    }
    if (bits < 255) {
      EXPECT_EQ(std::log2(static_cast<double>(e8m0_value(byte))), static_cast<double>(bits) - 127);
    }
  }
  EXPECT_EQ(finite, 254);
  // OFP8, table 1 and 2: largest and smallest numbers.
  EXPECT_EQ(e4m3_value(0x7E), 448);
  EXPECT_EQ(e4m3_value(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3_value(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_value(0x81), -0x1p-9f);
  EXPECT_EQ(e5m2_value(0x7B), 57344);
  EXPECT_EQ(e5m2_value(0x01), 0x1p-16f);
  EXPECT_TRUE(std::isinf(e5m2_value(0x7C)));
  EXPECT_TRUE(std::isnan(e8m0_value(255)));
  EXPECT_EQ(bf16_value(0xC049), std::bit_cast<float>(0xC0490000u));
}

TEST(GgmlBlocks, AreThePackagesNumbers) {
  const Json cases = json_from_file(test_data("formats/ggml_blocks.json"));
  int compared = 0;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const GgmlType* type = ggml_type(number);
    if (type == nullptr || type->decode == nullptr) continue;
    const Json& item = cases.at(std::string(type->name));
    const std::string bytes = decoded_base64(item.at("bytes").get<std::string>(), "bytes");
    const std::string wanted = decoded_base64(item.at("values").get<std::string>(), "values");
    ASSERT_EQ(bytes.size(), 2 * type->bytes) << type->name;
    ASSERT_EQ(wanted.size(), 2 * type->values * sizeof(float)) << type->name;
    std::vector<float> reference(2 * type->values), ours(2 * type->values);
    std::memcpy(reference.data(), wanted.data(), wanted.size());
    for (std::size_t n = 0; n < 2; ++n) {
      type->decode(reinterpret_cast<const std::byte*>(bytes.data()) + n * type->bytes,
                   ours.data() + n * type->values);
    }
    const auto largest =
        *std::max_element(reference.begin(), reference.end(),
                          [](float a, float b) { return std::abs(a) < std::abs(b); });
    // A compiler may round a product and a sum once where the package rounds twice: a unit of
    // float32 of the largest number.
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_NEAR(ours[i], reference[i], 0x1p-23f * std::abs(largest)) << type->name << " " << i;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 10);
}

// ---- A whole file -------------------------------------------------------------------------------

std::vector<std::string> llama_keys() {
  using gguf::key;
  return {key("general.architecture", "llama"),
          key("llama.block_count", 1u),
          key("llama.context_length", 64u),
          key("llama.embedding_length", 8u),
          key("llama.feed_forward_length", 4u),
          key("llama.attention.head_count", 2u),
          key("llama.attention.head_count_kv", 1u),
          key("llama.attention.layer_norm_rms_epsilon", 1e-5f),
          key("llama.rope.freq_base", 50000.0f)};
}

// Numbers 0, 1, 2, ... in every tensor, its number in the thousands.
struct Growing {
  std::vector<std::string> entries;
  std::string data;
  void add(const std::string& name, const std::vector<std::uint64_t>& dims) {
    entries.push_back(gguf::tensor(name, dims, 0, data.size()));
    std::size_t count = 1;
    for (const std::uint64_t size : dims) count *= size;
    for (std::size_t i = 0; i < count; ++i) {
      data += gguf::bytes_of(static_cast<float>(1000 * entries.size() + i));
    }
    data = gguf::padded(data);
  }
};

Growing llama_tensors() {
  Growing tensors;
  tensors.add("token_embd.weight", {8, 6});
  tensors.add("blk.0.attn_q.weight", {8, 8});
  tensors.add("blk.0.attn_k.weight", {8, 4});
  tensors.add("blk.0.ffn_down.weight", {4, 8});
  tensors.add("output_norm.weight", {8});
  return tensors;
}

class Gguf : public ::testing::Test {
 protected:
  std::filesystem::path written(const std::vector<std::string>& keys, const Growing& tensors) {
    return folder_.file("model.gguf", gguf::file(keys, tensors.entries, tensors.data));
  }
  std::filesystem::path written(const std::vector<std::string>& more_keys) {
    std::vector<std::string> keys = llama_keys();
    keys.insert(keys.end(), more_keys.begin(), more_keys.end());
    return written(keys, llama_tensors());
  }
  Error refused(const std::string& content) {
    const auto path = folder_.file("bad.gguf", content);
    const Error error = error_of([&] { GgufFile::open(path); });
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_TRUE(tells(error, "bad.gguf"));
    return error;
  }
  Error model_refused(const std::vector<std::string>& more_keys) {
    const auto path = written(more_keys);
    return error_of([&] { open_gguf_model(path); });
  }

  TemporaryFolder folder_;
};

TEST_F(Gguf, KeysShapesAndNumbersAreRead) {
  const GgufFile file = GgufFile::open(written({gguf::key("general.name", "tiny")}));
  EXPECT_EQ(file.keys().at("llama.block_count"), 1);
  // Not 9.99999975e-6, which is what the file's 32 bits are.
  EXPECT_EQ(file.keys().at("llama.attention.layer_norm_rms_epsilon"), 1e-5);
  EXPECT_EQ(file.metadata().at("general.name"), "tiny");
  EXPECT_EQ(file.find("token_embd.weight")->shape, (std::vector<std::int64_t>{6, 8}));
  EXPECT_EQ(values_of(file, "token_embd.weight")[9], 1009);
  EXPECT_EQ(values_of(file, "output_norm.weight")[7], 5007);
}

TEST_F(Gguf, LlamasRowsComeBackInTheirOrder) {
  const GgufModel model = open_gguf_model(written({}));
  EXPECT_EQ(model.config.at("model_type"), "llama");
  EXPECT_EQ(model.config.at("vocab_size"), 6);
  EXPECT_EQ(model.config.at("head_dim"), 4);
  EXPECT_EQ(model.config.at("num_key_value_heads"), 1);
  EXPECT_EQ(model.config.at("tie_word_embeddings"), true);
  EXPECT_EQ(model.config.at("rope_parameters").at("rope_theta"), 50000);
  // Heads of 4 rows: plain rows 0 1 2 3 lie in the file as 0 2 1 3.
  const auto q = values_of(*model.tensors, "model.layers.0.self_attn.q_proj.weight");
  const std::vector<float> first = {q[0], q[8], q[16], q[24], q[32], q[40], q[48], q[56]};
  EXPECT_EQ(first, (std::vector<float>{2000, 2016, 2008, 2024, 2032, 2048, 2040, 2056}));
  EXPECT_EQ(q[17], 2009);
  const auto down = values_of(*model.tensors, "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(down[5], 4005);
  // Parts that begin within a row.
  const TensorEntry& entry = *model.tensors->find("model.layers.0.self_attn.q_proj.weight");
  std::vector<float> part(9);
  model.tensors->read_part(entry, 5 * 4, std::as_writable_bytes(std::span(part)));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), q.begin() + 5));
}

// Rows cannot be counted in heads of no channel.
TEST_F(Gguf, MoreHeadsThanChannelsAreRefused) {
  std::vector<std::string> keys = llama_keys();
  std::erase(keys, gguf::key("llama.attention.head_count", 2u));
  keys.push_back(gguf::key("llama.attention.head_count", 9u));
  const auto path = written(keys, llama_tensors());
  EXPECT_TRUE(tells(error_of([&] { open_gguf_model(path); }), "is 9, more than the 8 channels"));
}

TEST_F(Gguf, DivisorsOfTheFrequenciesAreNotPassedOver) {
  Growing tensors = llama_tensors();
  tensors.entries.push_back(gguf::tensor("rope_freqs.weight", {2}, 0, tensors.data.size()));
  tensors.data = gguf::padded(tensors.data + gguf::floats({1, 8}));
  const GgufModel model = open_gguf_model(written(llama_keys(), tensors));
  const Json& rope = model.config.at("rope_parameters");
  EXPECT_EQ(rope.at("rope_type"), "longrope");
  EXPECT_EQ(rope.at("long_factor"), (Json{1.0, 8.0}));
  EXPECT_EQ(rope.at("short_factor"), (Json{1.0, 8.0}));
  EXPECT_EQ(rope.at("attention_factor"), 1.0);
  EXPECT_EQ(model.tensors->find("rope_freqs.weight"), nullptr);
}

TEST_F(Gguf, RopeScalingAndWindowsAreFollowedOrRefused) {
  const GgufModel linear = open_gguf_model(written({gguf::key("llama.rope.scaling.type", "linear"),
                                                    gguf::key("llama.rope.scaling.factor", 4.0f)}));
  EXPECT_EQ(linear.config.at("rope_parameters").at("rope_type"), "linear");
  EXPECT_EQ(linear.config.at("rope_parameters").at("factor"), 4);
  const GgufModel window =
      open_gguf_model(written({gguf::key("llama.attention.sliding_window", 16u)}));
  EXPECT_EQ(window.config.at("model_type"), "mistral");
  EXPECT_EQ(window.config.at("sliding_window"), 16);
  EXPECT_TRUE(tells(model_refused({gguf::key("llama.rope.scaling.type", "spiral")}), "spiral"));
  EXPECT_TRUE(tells(model_refused({gguf::key("llama.rope.dimension_count", 2u)}), "whole heads"));
  EXPECT_TRUE(tells(model_refused({gguf::key("llama.expert_count", 8u)}), "experts"));
  EXPECT_TRUE(tells(model_refused({gguf::key("llama.attention.causal", false)}), "both sides"));
  EXPECT_TRUE(tells(model_refused({gguf::key("split.count", 3u)}), "one of 3"));
}

TEST_F(Gguf, AnUnknownKeyOfTheArchitectureIsWarnedOf) {
  const GgufModel model = open_gguf_model(written({gguf::key("llama.embedding_scale", 2.0f)}));
  ASSERT_EQ(model.warnings.size(), 1u);
  EXPECT_NE(model.warnings[0].find("llama.embedding_scale"), std::string::npos);
}

TEST_F(Gguf, UnknownArchitecturesAreRefusedWithThoseThatAreKnown) {
  const auto path = written({gguf::key("general.architecture", "mamba")}, llama_tensors());
  const Error error = error_of([&] { open_gguf_model(path); });
  EXPECT_TRUE(tells(error, "\"mamba\""));
  EXPECT_TRUE(tells(error, "llama, qwen2, qwen3"));
}

TEST_F(Gguf, MissingKeysAreAllNamed) {
  const auto path = written({gguf::key("general.architecture", "qwen3")}, llama_tensors());
  const Error error = error_of([&] { open_gguf_model(path); });
  for (const char* key : {"qwen3.embedding_length", "qwen3.block_count", "qwen3.context_length"}) {
    EXPECT_TRUE(tells(error, key));
  }
}

// ---- Tokenizers ---------------------------------------------------------------------------------

TEST_F(Gguf, TokenizersOfBothKindsAreMadeOfTheKeys) {
  const std::vector<std::string> pieces = {"<unk>", "<s>", "</s>", "\u2581",
                                           "a",     "b",   "ab",   "\u2581ab"};
  const GgufFile scored = GgufFile::open(written(
      {gguf::key("tokenizer.ggml.model", "llama"), gguf::key("tokenizer.ggml.tokens", pieces),
       gguf::key("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -5, -6, -7, -1, -2}),
       gguf::key("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1, 1, 1, 1, 1}),
       gguf::key("tokenizer.ggml.bos_token_id", 1u),
       gguf::key("tokenizer.ggml.eos_token_id", 2u)}));
  const auto llama = make_gguf_tokenizer(scored.keys(), "here");
  // "\u2581ab" and "b": the best merges first, by hand.
  EXPECT_EQ(llama->encode("abb").ids, (std::vector<std::int64_t>{1, 7, 5}));
  const std::vector<std::string> letters = {"a", "b", "\u0120", "ab", "\u0120ab", "<end>"};
  const GgufFile merged = GgufFile::open(
      written({gguf::key("tokenizer.ggml.model", "gpt2"), gguf::key("tokenizer.ggml.pre", "qwen2"),
               gguf::key("tokenizer.ggml.tokens", letters),
               gguf::key("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 1, 3}),
               gguf::key("tokenizer.ggml.merges", std::vector<std::string>{"a b", "\u0120 ab"})}));
  const auto bytes = make_gguf_tokenizer(merged.keys(), "here");
  EXPECT_EQ(bytes->encode("ab ab<end>b").ids, (std::vector<std::int64_t>{3, 4, 5, 1}));
  EXPECT_EQ(bytes->decode(std::vector<std::int64_t>{4, 1}), " abb");
}

TEST_F(Gguf, TokenizersThatCannotBeCarriedOutAreRefused) {
  const auto with = [&](const std::string& key, const Json& value) {
    Json keys = {{"tokenizer.ggml.model", "gpt2"},
                 {"tokenizer.ggml.tokens", {"a", "b", "ab"}},
                 {"tokenizer.ggml.merges", {"a b"}}};
    EXPECT_NE(make_gguf_tokenizer(keys, "here"), nullptr);
    keys["tokenizer.ggml." + key] = value;
    return error_of([&] { make_gguf_tokenizer(keys, "here"); });
  };
  EXPECT_TRUE(tells(with("pre", "tomorrow"), "\"tomorrow\""));
  EXPECT_TRUE(tells(with("pre", "tomorrow"), "llama-bpe"));
  EXPECT_TRUE(tells(with("model", "rwkv"), "\"rwkv\""));
  EXPECT_TRUE(tells(with("merges", {"a c"}), "not in the vocabulary"));
  EXPECT_TRUE(tells(with("token_type", {1}), "there are 3 tokens"));
  EXPECT_TRUE(tells(with("tokens", {"a", "a", "ab"}), "there twice"));
  EXPECT_EQ(make_gguf_tokenizer(Json::object(), "here"), nullptr);
}

// ---- Bad files: the rows of safetensors ---------------------------------------------------------

TEST_F(Gguf, Row1_ShortFilesAndHugeCountsFailAtOnce) {
  const std::string whole = gguf::header(0, 0);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(tells(refused(whole.substr(0, length)), "ends within")) << length;
  }
  EXPECT_NO_THROW(GgufFile::open(folder_.file("none.gguf", whole)));
  EXPECT_TRUE(tells(refused(gguf::header(~0ull, 0)), "a million"));
  EXPECT_TRUE(tells(refused(gguf::header(0, ~0ull)), "a million"));
  EXPECT_TRUE(tells(refused(gguf::header(900'000, 0)), "room for"));
  EXPECT_TRUE(
      tells(refused(gguf::header(0, 1) + gguf::u64(1ull << 40) + gguf::u64(0)), "1099511627776"));
  const std::string array = gguf::header(0, 1) + gguf::text("k") + gguf::u32(9) + gguf::u32(0);
  EXPECT_TRUE(tells(refused(array + gguf::u64(1ull << 60)), "1152921504606846976 elements"));
}

TEST_F(Gguf, Row2_OtherFilesAndVersions) {
  EXPECT_TRUE(tells(refused("GGML" + gguf::u32(3) + gguf::u64(0) + gguf::u64(0)), "GGUF"));
  EXPECT_TRUE(tells(refused(gguf::header(0, 0, 1)), "version 1"));
  EXPECT_TRUE(tells(refused(gguf::header(0, 0, 0x03000000)), "big-endian"));
  EXPECT_TRUE(tells(refused(gguf::header(0, 1) + gguf::text("k") + gguf::u32(99)), "type 99"));
  // The second byte of the name, which stands at byte 32.
  const std::string broken = gguf::header(0, 1) + gguf::text("a\xFFz") + gguf::u32(0) + "x";
  EXPECT_TRUE(tells(refused(broken), "not UTF-8"));
  EXPECT_TRUE(tells(refused(broken), "byte 33"));
  const std::string nested = gguf::header(0, 1) + gguf::text("k") + gguf::u32(9) + gguf::u32(9) +
                             gguf::u64(1) + gguf::u32(4) + gguf::u64(0);
  EXPECT_TRUE(tells(refused(nested), "array of arrays"));
  EXPECT_TRUE(
      tells(refused(gguf::file({gguf::key("general.alignment", 24u)}, {}, "")), "power of two"));
}

TEST_F(Gguf, Row3_OverlapsGapsAndWhatRunsPastTheEnd) {
  using gguf::tensor;
  const std::string data(128, '\0');
  const auto with = [&](const std::vector<std::string>& tensors, const std::string& bytes) {
    return refused(gguf::file({}, tensors, bytes));
  };
  const Error overlap = with({tensor("a", {16}, 0, 0), tensor("b", {16}, 0, 32)}, data);
  EXPECT_TRUE(tells(overlap, "\"a\""));
  EXPECT_TRUE(tells(overlap, "\"b\" overlap"));
  EXPECT_TRUE(tells(with({tensor("a", {8}, 0, 0), tensor("b", {8}, 0, 96)}, data), "gap of 64"));
  EXPECT_TRUE(tells(with({tensor("a", {8}, 0, 4)}, data), "alignment"));
  EXPECT_TRUE(tells(with({tensor("a", {64}, 0, 0)}, data), "past the end"));
  // A block that is cut short: Q4_K has 144 bytes for 256 numbers, Q6_K 210.
  EXPECT_TRUE(tells(with({tensor("a", {256}, 12, 0)}, std::string(143, '\0')), "past the end"));
  EXPECT_TRUE(tells(with({tensor("a", {256, 2}, 14, 0)}, std::string(419, '\0')), "past the end"));
  EXPECT_TRUE(tells(with({tensor("a", {8}, 0, 1ull << 63)}, data), "gap"));
  EXPECT_TRUE(tells(with({tensor("a", {8}, 0, 0)}, data), "96 bytes after its last tensor"));
}

TEST_F(Gguf, Row4_ShapesThatWrapAndRowsOfHalfBlocks) {
  using gguf::tensor;
  EXPECT_TRUE(tells(refused(gguf::file({}, {tensor("a", {1ull << 32, 1ull << 31}, 0, 0)}, "")),
                    "too large"));
  EXPECT_TRUE(
      tells(refused(gguf::file({}, {tensor("a", {1ull << 63}, 0, 0)}, "")), "dimension of"));
  EXPECT_TRUE(
      tells(refused(gguf::file({}, {tensor("a", {48, 2}, 2, 0)}, "")), "whole blocks of 32"));
  const std::vector<std::uint64_t> many(9, 1);
  EXPECT_TRUE(tells(refused(gguf::file({}, {tensor("a", many, 0, 0)}, "")), "9 dimensions"));
}

TEST_F(Gguf, Row5_NamesThatAreThereTwice) {
  using gguf::tensor;
  EXPECT_TRUE(tells(refused(gguf::file({gguf::key("k", 1u), gguf::key("k", 1u)}, {}, "")),
                    "\"k\" is there twice"));
  EXPECT_TRUE(tells(refused(gguf::file({}, {tensor("a", {8}, 0, 0), tensor("a", {8}, 0, 32)},
                                       std::string(64, '\0'))),
                    "\"a\" is there twice"));
}

TEST_F(Gguf, Row6_AnUnknownTypeIsListedAndTheOthersWork) {
  using gguf::tensor;
  const auto path = folder_.file(
      "types.gguf", gguf::file({}, {tensor("odd", {32}, 23, 0), tensor("plain", {8}, 0, 64)},
                               std::string(64, 'x') + gguf::floats({1, 2, 3, 4, 5, 6, 7, 8})));
  const GgufFile file = GgufFile::open(path);
  const TensorEntry& odd = *file.find("odd");
  EXPECT_EQ(odd.dtype, DType::unsupported);
  EXPECT_EQ(odd.dtype_name, "IQ4_XS");
  std::vector<std::byte> bytes(odd.size);
  EXPECT_TRUE(tells(error_of([&] { file.read(odd, bytes); }), "IQ4_XS"));
  EXPECT_EQ(values_of(file, "plain")[7], 8);
}

TEST_F(Gguf, Row8_AFileThatChangesIsAnErrorAndNoSignal) {
  const auto path = written({});
  const GgufFile file = GgufFile::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 64);
  EXPECT_TRUE(tells(error_of([&] { values_of(file, "output_norm.weight"); }), "cut short"));
}

}  // namespace
}  // namespace phasescope::formats
