#include "kernels/cpu/visibility.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "kernels/cpu/problem.h"

namespace phasescope::kernels {
namespace {

// At least the lanes of the widest target's panel.
constexpr std::int64_t kMostLanes = 64;

/// Neighbours of one document.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
using Stretches = std::unordered_map<std::int32_t, std::vector<Stretch>>;

/// Of `count` tokens, leaving out those that `real` (may be null) marks 0.
Stretches stretches(const std::int32_t* documents, std::int64_t count, const std::uint8_t* real) {
  Stretches all;
  for (std::int64_t n = 0; n < count;) {
    if (real && !real[n]) {
      ++n;
      continue;
    }
    const std::int64_t begin = n;
    while (n < count && documents[n] == documents[begin] && (!real || real[n])) ++n;
    all[documents[begin]].push_back({begin, n});
  }
  return all;
}

}  // namespace

DocumentRange document_range(const std::int32_t* documents, std::int64_t count) {
  const auto [least, most] = std::minmax_element(documents, documents + count);
  return {*least, *most};
}

Visibility::Visibility(const AttentionInputs& inputs)
    : shape_(inputs.shape),
      window_(inputs.shape.window > 0 ? inputs.shape.window : kNoWindow),
      mask_(inputs.key_mask),
      key_documents_(inputs.key_documents) {
  real_.assign(static_cast<std::size_t>(shape_.batch), {0, shape_.keys});
  holes_.assign(real_.size(), false);
  for (std::int64_t b = 0; mask_ && b < shape_.batch; ++b) {
    const std::uint8_t* row = mask(b);
    KeyRange& real = real_[static_cast<std::size_t>(b)];
    while (real.end > 0 && !row[real.end - 1]) --real.end;
    while (real.begin < real.end && !row[real.begin]) ++real.begin;
    holes_[static_cast<std::size_t>(b)] =
        std::find(row + real.begin, row + real.end, std::uint8_t{0}) != row + real.end;
  }
  if (!has_documents()) return;
  const std::int64_t queries = shape_.batch * shape_.queries;
  query_documents_.assign(inputs.query_documents, inputs.query_documents + queries);
  query_documents_.resize(static_cast<std::size_t>(queries + kMostLanes));
  document_keys_.resize(static_cast<std::size_t>(queries));
  for (std::int64_t b = 0; b < shape_.batch; ++b) find_document_keys(query_documents(b, 0), b);
}

void Visibility::find_document_keys(const std::int32_t* queries, std::int64_t batch) {
  // No key at all, and neutral beside others.
  constexpr KeyRange kNone{std::numeric_limits<std::int64_t>::max(), 0};
  std::unordered_map<std::int32_t, KeyRange> of_document;
  for (const auto& [document, parts] : stretches(key_documents(batch), shape_.keys, mask(batch))) {
    of_document[document] = {parts.front().begin, parts.back().end};
  }
  KeyRange* ranges = document_keys_.data() + batch * shape_.queries;
  for (std::int64_t i = 0; i < shape_.queries; ++i) {
    if (i > 0 && queries[i] == queries[i - 1]) {
      ranges[i] = ranges[i - 1];
      continue;
    }
    const auto found = of_document.find(queries[i]);
    ranges[i] = found == of_document.end() ? kNone : found->second;
  }
  for (std::int64_t i = 1; i < shape_.queries; ++i) {
    ranges[i].end = std::max(ranges[i].end, ranges[i - 1].end);
  }
  for (std::int64_t i = shape_.queries - 2; i >= 0; --i) {
    ranges[i].begin = std::min(ranges[i].begin, ranges[i + 1].begin);
  }
}

KeyRange Visibility::keys(std::int64_t batch, std::int64_t first, std::int64_t last) const {
  const KeyRange real = real_[static_cast<std::size_t>(batch)];
  std::int64_t before = first + shape_.query_offset - window_ + 1;
  std::int64_t after = last + shape_.query_offset + (shape_.causal ? 1 : window_);
  if (has_documents()) {
    const KeyRange* ranges = document_keys_.data() + batch * shape_.queries;
    before = std::max(before, ranges[first].begin);
    after = std::min(after, ranges[last].end);
  }
  const std::int64_t begin = std::clamp(before, real.begin, real.end);
  return {begin, std::clamp(after, begin, real.end)};
}

bool Visibility::share_range(std::int64_t batch, std::int64_t row, std::int64_t queries,
                             std::int64_t key, std::int64_t count) const {
  const DocumentRange a = document_range(query_documents(batch, row), queries);
  const DocumentRange b = document_range(key_documents(batch) + key, count);
  return a.least <= b.most && b.least <= a.most;
}

std::vector<std::int64_t> Visibility::pairs(std::int64_t batch) const {
  if (shape_.queries == 0 || shape_.keys == 0) return {};
  std::vector<std::int64_t> counts =
      has_documents() ? pairs_in_documents(batch) : pairs_in_range(batch);
  for (std::size_t n = 0; n < counts.size(); ++n) {
    const std::int64_t distance = least_distance() + static_cast<std::int64_t>(n);
    if ((shape_.causal && distance < 0) || std::abs(distance) >= window_) counts[n] = 0;
  }
  return counts;
}

std::vector<std::int64_t> Visibility::pairs_in_range(std::int64_t batch) const {
  std::vector<std::int64_t> before{0};  // real keys before each
  for (std::int64_t j = 0; j < shape_.keys; ++j) {
    before.push_back(before.back() + (!mask_ || mask(batch)[j] != 0));
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(shape_.queries + shape_.keys - 1));
  for (std::size_t n = 0; n < counts.size(); ++n) {
    // Keys i + query_offset - distance of the queries i.
    const std::int64_t first = shape_.keys - 1 - static_cast<std::int64_t>(n);
    const std::int64_t begin = std::max<std::int64_t>(first, 0);
    const std::int64_t end = std::min(first + shape_.queries, shape_.keys);
    counts[n] = before[static_cast<std::size_t>(end)] - before[static_cast<std::size_t>(begin)];
  }
  return counts;
}

std::vector<std::int64_t> Visibility::pairs_in_documents(std::int64_t batch) const {
  // Two stretches give a trapezoid over the distances: four entries of its second difference.
  std::vector<std::int64_t> counts(static_cast<std::size_t>(shape_.queries + shape_.keys + 1));
  const Stretches of_queries = stretches(query_documents(batch, 0), shape_.queries, nullptr);
  const Stretches of_keys = stretches(key_documents(batch), shape_.keys, mask(batch));
  const auto add = [&](std::int64_t query, std::int64_t key, std::int64_t value) {
    counts[static_cast<std::size_t>(query - key + shape_.keys)] += value;
  };
  for (const auto& [document, queries] : of_queries) {
    const auto keys = of_keys.find(document);
    if (keys == of_keys.end()) continue;
    for (const Stretch& i : queries) {
      for (const Stretch& j : keys->second) {
        add(i.begin, j.end, 1);
        add(i.end, j.end, -1);
        add(i.begin, j.begin, -1);
        add(i.end, j.begin, 1);
      }
    }
  }
  for (int sum = 0; sum < 2; ++sum) {
    for (std::size_t n = 1; n < counts.size(); ++n) counts[n] += counts[n - 1];
  }
  counts.resize(static_cast<std::size_t>(shape_.queries + shape_.keys - 1));
  return counts;
}

}  // namespace phasescope::kernels
