#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/text_input.h"
#include "formats/tokenizer.h"
#include "training/batch.h"
#include "training/prepared_corpus.h"
#include "training/run_config.h"
#include "training/token_file.h"

namespace phasescope::training {

// Whether a program of the source tree may be run: it and its folder are this user's, root's or
// those of the owner of the running program, and not everybody may write them. The tree's path is
// that of where it was built, which on another machine is anybody's to make.
bool is_safe_to_run(const std::filesystem::path& program);

// Where train.txt of the "desk" corpus is or would be made, in the order they are looked at:
// $PHASESCOPE_CORPUS (a file, or a folder with train.txt), the source tree's .cache/corpus,
// $XDG_CACHE_HOME/phasescope/corpus (default ~/.cache).
std::vector<std::filesystem::path> desk_corpus_places();

// The training text's file: of "desk" the first of the places that is there and as it was made
// (corpus.json beside it says that), made by tools/make_corpus.py where none is (`notice` is told
// so); otherwise the path itself. Throws Error "bad_input" that says what to install or to type.
std::filesystem::path find_corpus(const std::string& corpus,
                                  const std::function<void(const std::string&)>& notice = {});

// Held-out texts for windows of `window` bytes: "desk" the bundled ones (analysis/texts.h says
// which), a .jsonl collection, or one text file cut into texts of 4096 bytes, or of a window where
// that is longer.
std::vector<formats::NamedText> read_validation_texts(const std::string& validation,
                                                      std::int64_t window);

// A text's tokens by a tokenizer, without its template; bytes where it is null.
std::vector<std::int64_t> tokens_of(const std::string& text, const formats::Tokenizer* tokenizer);

// A text, or several of them, by bytes or by a tokenizer, and windows drawn from it. What a step
// reads depends on the seed and the step alone, never on the steps before, so a resumed run reads
// the same.
class Corpus {
 public:
  // `tokenizer`: of the model that is trained, null for bytes; its [BOS], where it has one, is at
  // every window's start. Throws Error "bad_input" when the text is shorter than one window of
  // `context` tokens.
  Corpus(std::string text, const DataSection& data, std::int64_t context,
         const formats::Tokenizer* tokenizer = nullptr);
  // Opens a text file, a folder or a .jsonl file, read window by window from a file of ids
  // (prepared_corpus.h; what is prepared is kept in $XDG_CACHE_HOME/phasescope/tokens). Between two
  // documents stands the beginning's id. `notice` is told what takes a while, and what `look_up`
  // throws ends it (PrepareOptions).
  static Corpus open(
      const std::filesystem::path& path, const DataSection& data, std::int64_t context,
      const formats::Tokenizer* tokenizer = nullptr,
      const std::function<void(const std::string&)>& notice = {},
      const std::function<void()>& look_up = [] {});

  // Inputs: the beginning id, then the text; targets: the text itself, one place further.
  Batch batch(const TrainSection& train, std::int64_t context, std::int64_t step) const;
  const std::string& sha256() const { return sha256_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t tokens() const {
    return file_ ? file_->size() : static_cast<std::int64_t>(ids_.size());
  }
  std::int64_t bos() const { return bos_; }
  // `count` ids from place `begin` on.
  std::vector<std::int64_t> read(std::int64_t begin, std::int64_t count) const;

 private:
  Corpus(PreparedCorpus prepared, std::int64_t bos, const DataSection& data);
  // Of each id of inputs, counted from 0 at a window's start; nothing where all have one document.
  std::vector<std::int64_t> documents_of(const Batch& batch) const;
  void require_a_window(const DataSection& data, std::int64_t context) const;

  std::vector<std::int64_t> ids_;  // of a text in memory, or:
  std::optional<TokenFile> file_;
  bool by_bytes_ = true;
  std::int64_t bytes_ = 0;
  std::string sha256_;
  std::int64_t bos_;
  bool apart_;  // DataSection::documents
};

}  // namespace phasescope::training
