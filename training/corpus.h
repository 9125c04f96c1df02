#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/text_input.h"
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

// A text by bytes, and windows drawn from it. What a step reads depends on the seed and the step
// alone, never on the steps before, so a resumed run reads the same.
class Corpus {
 public:
  // Throws Error "bad_input" when the text is shorter than one window of `context` bytes.
  Corpus(std::string text, const DataSection& data, int64_t context);
  static Corpus open(const std::filesystem::path& path, const DataSection& data, int64_t context);

  // Inputs: the beginning id, then the text; targets: the text itself, one place further.
  Batch batch(const TrainSection& train, int64_t context, int64_t step) const;
  const std::string& sha256() const { return sha256_; }
  int64_t bytes() const { return static_cast<int64_t>(text_.size()); }

 private:
  std::string text_;
  std::string sha256_;
  int64_t bos_;
};

}  // namespace phasescope::training
