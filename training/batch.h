#pragma once

#include <cstdint>
#include <vector>

namespace phasescope::training {

// What is read at once, and what it is to answer. Rows of ids, row-major.
struct Batch {
  int64_t windows = 0, length = 0;  // rows, and ids a row that is read
  std::vector<int64_t> inputs;    // (windows, length); of an encoder-decoder what the encoder reads
  std::vector<int64_t> key_mask;  // the same shape, 0 for padding that no query sees; or empty
  int64_t decoder_length = 0;     // above 0 in an encoder-decoder:
  std::vector<int64_t> decoder_ids;  // (windows, decoder_length), what its decoder reads
  std::vector<int64_t> targets;      // (windows, answers()), the id at each place; -1: none counts

  int64_t answers() const { return decoder_length > 0 ? decoder_length : length; }
  int64_t tokens() const { return windows * (length + decoder_length); }
};

}  // namespace phasescope::training
