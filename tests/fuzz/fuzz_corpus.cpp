// Bytes from anywhere as a corpus: a text, lines of JSON, or what stands beside ids that were
// prepared before. What is prepared has an id for every byte of its texts, or it is refused.

#include <filesystem>
#include <string>

#include "formats/error.h"
#include "formats/text_input.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_folder.h"
#include "training/prepared_corpus.h"

namespace {

using namespace phasescope;
using namespace phasescope::training;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::require;

constexpr unsigned kKinds = 4;

// Small pieces, so that documents are cut.
PreparedCorpus prepared(const std::filesystem::path& path, const std::filesystem::path& cache) {
  return prepare_corpus(path, {.between = 256, .cache = cache, .piece = 7});
}

void read_whole(const PreparedCorpus& corpus) {
  for (const std::int64_t id : corpus.ids.read(0, corpus.ids.size())) require(id >= 0 && id <= 256);
}

// A folder of two texts has one id between them.
void read_two(const TemporaryFolder& folder, const std::string& text) {
  folder.file("two/a.txt", text);
  folder.file("two/b.txt", "b");
  const PreparedCorpus corpus = prepared(folder / "two", folder / "cache");
  require(corpus.ids.size() == static_cast<std::int64_t>(text.size()) + (text.empty() ? 0 : 1) + 1);
  read_whole(corpus);
}

// Whatever was put in place of a prepared file or of what says its SHA-256, the ids are the text's.
void read_damaged(const TemporaryFolder& folder, const std::string& bytes, bool of_ids) {
  folder.file("lines/a.jsonl", "{\"text\": \"a text\"}\n");
  prepared(folder / "lines/a.jsonl", folder / "kept");
  for (const auto& entry : std::filesystem::directory_iterator(folder / "kept")) {
    if ((entry.path().extension() == ".ids") == of_ids) {
      folder.file("kept/" + entry.path().filename().string(), bytes);
    }
  }
  const PreparedCorpus corpus = prepared(folder / "lines/a.jsonl", folder / "kept");
  require(corpus.ids.read(0, corpus.ids.size()) ==
          std::vector<std::int64_t>{'a', ' ', 't', 'e', 'x', 't'});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const TemporaryFolder folder;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const unsigned kind = data[0] % kKinds;
  allow_bad_input([&] {
    if (kind == 0) {
      const auto lines = folder.file("x.jsonl", bytes);
      allow_bad_input([&] { formats::read_text_collection(lines); });
      read_whole(prepared(lines, folder / "cache"));
    } else if (kind == 1) {
      read_two(folder, bytes);
    } else {
      read_damaged(folder, bytes, kind == 2);
    }
  });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  static const std::string kOwn[kKinds] = {
      "{\"text\": \"one\"}\n\n{\"name\": \"b\", \"text\": \"two\\nlines\"}\n",
      "a text of more words than a piece has\nand a second line of them \xc3\xa4\xff",
      std::string("\1\0\2\0\3\0", 6), R"({"sha256": "0", "ids": 6, "bytes_an_id": 2})"};
  static const char* const kEndings[kKinds] = {".jsonl", ".txt", ".ids", ".json"};
  const unsigned kind = random() % kKinds;
  const auto kept = case_of_tests(random, kEndings[kind]);
  return static_cast<char>(kind) + (kept ? *kept : kOwn[kind]);
}
