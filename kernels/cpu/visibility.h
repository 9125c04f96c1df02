#pragma once
// Which keys a query sees: causality, window, padding and documents of one call.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Keys [begin, end).
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Numbers least .. most that some documents lie in.
struct DocumentRange {
  std::int32_t least = 0;
  std::int32_t most = 0;
};
/// Of `count` tokens, at least one.
DocumentRange document_range(const std::int32_t* documents, std::int64_t count);

class Visibility {
 public:
  explicit Visibility(const AttentionInputs& inputs);

  /// The keys that some query of first .. last of a batch entry may see; what lies outside, none
  /// does. Neither end moves back from one query to the next.
  KeyRange keys(std::int64_t batch, std::int64_t first, std::int64_t last) const;

  /// False where `queries` queries from `row` and `count` keys from `key` (one at least of each)
  /// surely have no document in common.
  bool may_share_document(std::int64_t batch, std::int64_t row, std::int64_t queries,
                          std::int64_t key, std::int64_t count) const {
    return !has_documents() || share_range(batch, row, queries, key, count);
  }

  /// Distances from which on nothing is seen; beyond every distance where there is no window.
  std::int64_t window() const { return window_; }
  /// (keys) of a batch entry, 0 for padding; null where all keys are real.
  const std::uint8_t* mask(std::int64_t batch) const {
    return mask_ ? mask_ + batch * shape_.keys : nullptr;
  }
  bool has_documents() const { return key_documents_ != nullptr; }
  /// Documents of a batch entry's keys, and of its queries from `row` on: a panel's lanes may be
  /// read where fewer queries exist. With documents alone.
  const std::int32_t* key_documents(std::int64_t batch) const {
    return key_documents_ + batch * shape_.keys;
  }
  const std::int32_t* query_documents(std::int64_t batch, std::int64_t row) const {
    return query_documents_.data() + batch * shape_.queries + row;
  }

  /// Whether something else than their distance may hide pairs of a batch entry's queries from the
  /// keys that keys() gives: documents, or padding between real keys.
  bool has_holes(std::int64_t batch) const {
    return has_documents() || holes_[static_cast<std::size_t>(batch)];
  }

  /// The distances that pairs() counts, from the least.
  std::int64_t least_distance() const { return shape_.query_offset - shape_.keys + 1; }
  /// Number of pairs of one head of a batch entry that no mask hides, at each distance from
  /// least_distance() up to the largest. Linear in queries and keys; with documents also in the
  /// number of pairs of stretches (neighbours of one document, of keys without padding between
  /// them), one from the queries and one from the keys, that share their document.
  std::vector<std::int64_t> pairs(std::int64_t batch) const;

 private:
  void find_document_keys(const std::int32_t* queries, std::int64_t batch);
  bool share_range(std::int64_t batch, std::int64_t row, std::int64_t queries, std::int64_t key,
                   std::int64_t count) const;
  std::vector<std::int64_t> pairs_in_range(std::int64_t batch) const;
  std::vector<std::int64_t> pairs_in_documents(std::int64_t batch) const;

  const AttentionShape& shape_;
  std::int64_t window_;
  const std::uint8_t* mask_;
  std::vector<KeyRange> real_;  ///< of each batch entry: first real key to last
  std::vector<bool> holes_;     ///< of each batch entry: padding in between
  const std::int32_t* key_documents_;
  std::vector<std::int32_t> query_documents_;  ///< (B, queries), and lanes behind the last
  /// (B, queries): a query and those after it see no key of their documents before `begin`, it and
  /// those before it none from `end` on.
  std::vector<KeyRange> document_keys_;
};

}  // namespace phasescope::kernels
