#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "formats/tokenizer.h"
#include "training/token_file.h"

namespace phasescope::training {

// A text file, a folder of them (in the order of their names, with those of the folders in it;
// what is hidden is not read) or a .jsonl file of {"text": ...} lines, as the ids of all its
// documents, one behind the other.
struct PreparedCorpus {
  TokenFile ids;
  std::string sha256;      // of the files that were read
  std::int64_t bytes = 0;  // of the same
};

struct PrepareOptions {
  // The tokenizer of the model that is trained; null: bytes.
  const formats::Tokenizer* tokenizer = nullptr;
  std::int64_t between = 0;     // the id between two documents
  std::filesystem::path cache;  // folder of what is prepared, made where it is missing
  // A tokenizer reads a document in pieces of at most so many bytes, which end behind a line,
  // before a space where there is no line's end, or behind a character.
  std::size_t piece = std::size_t{32} << 20;
  std::function<void(const std::string&)> notice;  // told what takes a while
  // Called between two pieces that are read or hashed, at most 1 MiB of a text or a line of .jsonl;
  // what it throws ends the preparing and leaves nothing behind.
  std::function<void()> look_up = [] {};
};

// A text file by bytes is read as it stands. Of all else the ids are kept in a file of `cache`,
// named after the text, the tokenizer and `between`: written atomically, with its SHA-256 beside
// it, which is compared each time; one that is not what it was is made anew. Neither reading,
// cutting nor hashing takes more memory than some pieces or the longest line of a .jsonl file.
// Throws Error "bad_input", which names the file and the line.
PreparedCorpus prepare_corpus(const std::filesystem::path& path, const PrepareOptions& options);

// What can be said of a corpus at once: throws Error "bad_input" where it is missing, empty, or a
// text of fewer bytes than `least`.
void check_corpus(const std::filesystem::path& path, std::int64_t least);

}  // namespace phasescope::training
