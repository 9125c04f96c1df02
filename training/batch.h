#pragma once

#include <cstdint>
#include <vector>

namespace phasescope::training {

// What is read at once, and what it is to answer. Rows of ids, row-major.
struct Batch {
  std::int64_t windows = 0, length = 0;  // rows, and ids a row that is read
  std::int64_t first = 0;                // the first row's number in the step's whole batch
  std::vector<std::int64_t>
      inputs;  // (windows, length); of an encoder-decoder what the encoder reads
  std::vector<std::int64_t> key_mask;  // the same shape, 0 for padding that no query sees; or empty
  std::int64_t decoder_length = 0;     // above 0 in an encoder-decoder:
  std::vector<std::int64_t> decoder_ids;  // (windows, decoder_length), what its decoder reads
  std::vector<std::int64_t> targets;  // (windows, answers()), the id at each place; -1: none counts
  // (windows, length): the number of each token's document, whose tokens it sees alone; or empty.
  std::vector<std::int64_t> documents;
  // Where the ids stand, for encodings that know of nodes: the shapes of inputs and decoder_ids.
  // Empty where they stand one after the other.
  std::vector<std::int64_t> positions, decoder_positions;
  std::vector<std::int64_t>
      cells;  // (length, 2), row and column on a grid, the same of all rows; or empty
  // A batch of images: the numbers of a piece, and (windows, length, piece) of them; there is one
  // answer.
  std::int64_t piece = 0;
  std::vector<float> pieces;

  std::int64_t answers() const {
    if (piece > 0) return 1;
    return decoder_length > 0 ? decoder_length : length;
  }
  std::int64_t tokens() const { return windows * (length + decoder_length); }
  std::int64_t counted() const;  // targets that count
};

// The rows begin .. end - 1 of a batch.
Batch part_of(const Batch& batch, std::int64_t begin, std::int64_t end);

}  // namespace phasescope::training
