#include "training/batch.h"

#include <algorithm>

namespace phasescope::training {
namespace {

// Those of the rows, `width` values each; nothing of nothing.
template <class T>
std::vector<T> values_of_rows(const std::vector<T>& values, std::int64_t width, std::int64_t begin,
                              std::int64_t end) {
  if (values.empty()) return {};
  return {values.begin() + begin * width, values.begin() + end * width};
}

}  // namespace

std::int64_t Batch::counted() const {
  return std::ranges::count_if(targets, [](std::int64_t id) { return id >= 0; });
}

Batch part_of(const Batch& batch, std::int64_t begin, std::int64_t end) {
  Batch part = batch;
  part.windows = end - begin;
  part.first = batch.first + begin;
  part.inputs = values_of_rows(batch.inputs, batch.length, begin, end);
  part.key_mask = values_of_rows(batch.key_mask, batch.length, begin, end);
  part.documents = values_of_rows(batch.documents, batch.length, begin, end);
  part.decoder_ids = values_of_rows(batch.decoder_ids, batch.decoder_length, begin, end);
  part.targets = values_of_rows(batch.targets, batch.answers(), begin, end);
  part.positions = values_of_rows(batch.positions, batch.length, begin, end);
  part.decoder_positions =
      values_of_rows(batch.decoder_positions, batch.decoder_length, begin, end);
  part.pieces = values_of_rows(batch.pieces, batch.length * batch.piece, begin, end);
  return part;
}

}  // namespace phasescope::training
