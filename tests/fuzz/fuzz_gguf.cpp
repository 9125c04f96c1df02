// Bytes from anywhere as a GGUF file, as a model's and as a tokenizer's. What opens must keep the
// rules that readers trust: every tensor can be read to its end.

#include <vector>

#include "formats/error.h"
#include "formats/gguf_model.h"
#include "formats/tensors/gguf.h"
#include "formats/tokenizers/gguf_tokenizer.h"
#include "tests/formats/gguf_writer.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::formats;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::file_of;
using phasescope::fuzz::require;

void check(const TensorFile& file) {
  for (const TensorEntry& entry : file.tensors()) {
    require(file.find(entry.name) == &entry);
    if (entry.dtype == DType::unsupported) continue;
    require(static_cast<std::uint64_t>(entry.element_count()) * item_size(entry.dtype) ==
            entry.size);
    std::uint64_t seen = 0;
    std::vector<std::byte> content(entry.size);
    file.read(entry, content);
    file.visit(entry, [&](std::span<const std::byte> block) { seen += block.size(); });
    require(seen == entry.size);
  }
}

std::vector<std::string> model_keys(std::mt19937& random) {
  const char* architectures[] = {"llama", "qwen2", "qwen3"};
  const std::string name = architectures[random() % 3];
  std::vector<std::string> keys = {gguf::key("general.architecture", name.c_str()),
                                   gguf::key("general.alignment", 32u)};
  for (const auto& [key, value] : {std::pair{"block_count", 1u},
                                   {"context_length", 64u},
                                   {"embedding_length", 32u},
                                   {"feed_forward_length", 32u},
                                   {"attention.head_count", 2u},
                                   {"attention.head_count_kv", 1u},
                                   {"rope.dimension_count", 16u}}) {
    keys.push_back(gguf::key(name + "." + key, value));
  }
  keys.push_back(gguf::key(name + ".attention.layer_norm_rms_epsilon", 1e-5f));
  return keys;
}

std::vector<std::string> tokenizer_keys(std::mt19937& random) {
  const bool scored = random() % 2 == 0;
  std::vector<std::string> keys = {
      gguf::key("tokenizer.ggml.model", scored ? "llama" : "gpt2"),
      gguf::key("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "a", "b", "ab"}),
      gguf::key("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 1, 1, 1}),
      gguf::key("tokenizer.ggml.bos_token_id", 1u)};
  if (scored) {
    keys.push_back(gguf::key("tokenizer.ggml.scores", std::vector<float>{0, 0, -1, -2, -3}));
  } else {
    keys.push_back(gguf::key("tokenizer.ggml.merges", std::vector<std::string>{"a b"}));
    keys.push_back(gguf::key("tokenizer.ggml.pre", random() % 2 == 0 ? "qwen2" : "llama-bpe"));
  }
  return keys;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = file_of(data, size);
  allow_bad_input([&] {
    const GgufFile file = GgufFile::open(path);
    check(file);
    allow_bad_input([&] {
      if (const auto tokenizer = make_gguf_tokenizer(file.keys(), path)) tokenizer->encode("ab b");
    });
  });
  allow_bad_input([&] { check(*open_gguf_model(path).tensors); });
  return 0;
}

// Of every type that has blocks and some that have none, whole blocks of it.
std::string phasescope::fuzz::seed(std::mt19937& random) {
  if (const auto kept = case_of_tests(random, ".gguf")) return *kept;
  const struct {
    std::uint32_t number;
    std::uint64_t values, bytes;
  } types[] = {{0, 32, 128},   {1, 32, 64},    {30, 32, 64},   {2, 32, 18},   {3, 32, 20},
               {6, 32, 22},    {7, 32, 24},    {8, 32, 34},    {10, 256, 84}, {11, 256, 110},
               {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {23, 256, 136}};
  std::vector<std::string> keys = model_keys(random), tensors;
  if (random() % 2 == 0) {
    for (const std::string& key : tokenizer_keys(random)) keys.push_back(key);
  }
  std::string bytes;
  for (const char* name : {"token_embd.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight"}) {
    const auto& type = types[random() % std::size(types)];
    tensors.push_back(gguf::tensor(name, {type.values, 16}, type.number, bytes.size()));
    for (std::uint64_t i = 0; i < 16 * type.bytes; ++i) bytes += static_cast<char>(random());
    bytes = gguf::padded(bytes);
  }
  return gguf::file(keys, tensors, bytes);
}
