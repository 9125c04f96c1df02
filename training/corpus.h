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
#include "training/run_config.h"

namespace phasescope::training {

// Where train.txt of the "desk" corpus is or would be made, in the order they are looked at:
// $PHASESCOPE_CORPUS (a file, or a folder with train.txt), the source tree's .cache/corpus,
// $XDG_CACHE_HOME/phasescope/corpus (default ~/.cache).
std::vector<std::filesystem::path> desk_corpus_places();

// The training text's file: of "desk" the first of the places that is there, made by
// tools/make_corpus.py where none is (`notice` is told so); otherwise the path itself. Throws Error
// "bad_input" that says what to install or to type.
std::filesystem::path find_corpus(const std::string& corpus,
                                  const std::function<void(const std::string&)>& notice = {});

// Held-out texts for windows of `window` bytes: "desk" the bundled ones (analysis/texts.h says
// which), a .jsonl collection, or one text file cut into texts of 4096 bytes, or of a window where
// that is longer.
std::vector<formats::NamedText> read_validation_texts(const std::string& validation,
                                                      int64_t window);

// A text's tokens by a tokenizer, without its template; bytes where it is null.
std::vector<int64_t> tokens_of(const std::string& text, const formats::Tokenizer* tokenizer);

// A text by bytes or by a tokenizer, and windows drawn from it. What a step reads depends on the
// seed and the step alone, never on the steps before, so a resumed run reads the same.
class Corpus {
 public:
  // `tokenizer`: of the model that is trained, null for bytes; its [BOS], where it has one, is at
  // every window's start. Throws Error "bad_input" when the text is shorter than one window of
  // `context` tokens.
  Corpus(std::string text, const DataSection& data, int64_t context,
         const formats::Tokenizer* tokenizer = nullptr);
  static Corpus open(const std::filesystem::path& path, const DataSection& data, int64_t context,
                     const formats::Tokenizer* tokenizer = nullptr);

  // Inputs: the beginning id, then the text; targets: the text itself, one place further.
  Batch batch(const TrainSection& train, int64_t context, int64_t step) const;
  const std::string& sha256() const { return sha256_; }
  int64_t bytes() const { return static_cast<int64_t>(text_.size()); }
  int64_t tokens() const { return ids_.empty() ? bytes() : static_cast<int64_t>(ids_.size()); }
  int64_t bos() const { return bos_; }

 private:
  int64_t token(std::size_t place) const {
    return ids_.empty() ? static_cast<unsigned char>(text_[place]) : ids_[place];
  }

  std::string text_;
  std::vector<std::int32_t> ids_;  // empty where tokens are the text's bytes
  std::string sha256_;
  int64_t bos_;
};

}  // namespace phasescope::training
