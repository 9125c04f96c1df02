// Bytes from anywhere as the JSON files of a checkpoint: any document, a configuration's rope and
// tokenizer, an index of shards. The first byte chooses.

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "formats/error.h"
#include "formats/hf_config.h"
#include "formats/json.h"
#include "formats/tensors/safetensors.h"
#include "formats/tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::formats;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::require;

constexpr int kKinds = 4;

// A folder with the shards a.safetensors {a} and b.safetensors {b}, and an index to be written.
class ShardedFolder {
 public:
  ShardedFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    const std::vector<std::byte> bytes(4);
    for (const std::string tensor : {"a", "b"}) {
      const TensorToWrite only{tensor, DType::f32, {1}, bytes};
      write_safetensors(real_file_system(), path_ / (tensor + ".safetensors"), {&only, 1}, {});
    }
  }
  ~ShardedFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  void open_with(const std::string& index) const {
    const auto path = path_ / "model.safetensors.index.json";
    std::ofstream(path, std::ios::binary) << index;
    const TensorArchive archive = TensorArchive::open(path);
    for (const TensorEntry& entry : archive.tensors()) {
      require(entry.name == "a" || entry.name == "b");
    }
  }

 private:
  std::filesystem::path path_;
};

void read_document(const std::string& text) {
  const Json document = parse_json(text, "fuzz");
  // What was read is written and read again as the same.
  require(parse_json(document.dump(), "again") == document);
}

void read_configuration(const std::string& text) {
  const Json document = parse_json(text, "fuzz");
  ConfigProblems problems;
  const ConfigReader config(document, problems);
  constexpr std::int64_t kHeadDim = 8;
  const RawRope rope = read_rope(config, {}, "full_attention", kHeadDim);
  remote_code_notice(config);
  problems.throw_if_any("fuzz");
  const auto planes = static_cast<std::size_t>(double(kHeadDim) * rope.partial_rotary_factor) / 2;
  require(rope.theta > 0);
  require(rope.type != "longrope" || rope.long_factor.size() == planes);
}

void read_tokenizer(const std::string& text) {
  const auto tokenizer = make_tokenizer(parse_json(text, "fuzz"), "fuzz", 300);
  const auto tokens = tokenizer->encode(text);
  for (const std::int64_t id : tokens.ids) require(id >= 0 && id < tokenizer->vocab_size());
  require(tokenizer->decode(tokens.ids) == text);
}

void read(int kind, const std::string& text) {
  static const ShardedFolder folder;
  if (kind == 0) return read_document(text);
  if (kind == 1) return read_configuration(text);
  if (kind == 2) return read_tokenizer(text);
  folder.open_with(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  allow_bad_input([&] {
    read(data[0] % kKinds, std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  const char* const endings[kKinds] = {".json", "config.json", ".tokenizer_section", ".index.json"};
  const unsigned kind = random() % kKinds;
  if (const auto kept = case_of_tests(random, endings[kind])) {
    return static_cast<char>(kind) + *kept;
  }
  static const std::vector<std::string> seeds = {
      R"(0{"a": [1, 2.5, -3e-7, null, true, "\u00e9\n"], "b": {"c": {}}})",
      R"(1{"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}, "auto_map": {}})",
      R"(1{"rope_parameters": {"full_attention": {"rope_type": "longrope", "factor": 4.0,)"
      R"( "long_factor": [1, 1, 1, 1], "short_factor": [1, 1, 1, 1]}}})",
      R"(2{"type": "bytes", "vocab_size": 258, "bos": 256})",
      R"(3{"metadata": {"total_size": 8}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})",
  };
  std::string seed = seeds[random() % seeds.size()];
  seed[0] = static_cast<char>(seed[0] - '0');
  return seed;
}
