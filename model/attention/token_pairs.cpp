#include "model/attention/token_pairs.h"

#include <ATen/ATen.h>

namespace phasescope::model {
namespace {

// The indices of pairs and their order by query, (5, P) on the host.
at::Tensor with_order(const PairIndices& pairs) {
  const at::Tensor order = pairs.query.argsort(/*stable=*/true, /*dim=*/0);
  return at::stack({pairs.text, pairs.head, pairs.query, pairs.key, order});
}

PairIndices indices_of(const at::Tensor& rows) { return {rows[0], rows[1], rows[2], rows[3]}; }

std::vector<TokenPairs::Row> rows_of_queries(const at::Tensor& query, const at::Tensor& order) {
  const at::Tensor sorted = query.index_select(0, order).contiguous();
  const auto* queries = sorted.const_data_ptr<std::int64_t>();
  std::vector<TokenPairs::Row> rows;
  for (std::int64_t n = 0; n < sorted.size(0); ++n) {
    if (rows.empty() || rows.back().query != queries[n]) rows.push_back({queries[n], n, n});
    rows.back().end = n + 1;
  }
  return rows;
}

}  // namespace

PairIndices PairIndices::slice(std::int64_t begin, std::int64_t end) const {
  return {text.slice(0, begin, end), head.slice(0, begin, end), query.slice(0, begin, end),
          key.slice(0, begin, end)};
}

TokenPairs::TokenPairs(const at::Tensor& here, const at::Tensor& there)
    : here_(indices_of(here)),
      there_(indices_of(there)),
      by_query_(there[4]),
      rows_(rows_of_queries(here_.query, here[4])) {}

TokenPairs::TokenPairs(const PairIndices& indices, const at::Device& device)
    : TokenPairs(of_all({indices}, device)[0]) {}

std::vector<TokenPairs> TokenPairs::of_all(const std::vector<PairIndices>& lists,
                                           const at::Device& device) {
  std::vector<TokenPairs> made;
  if (lists.empty()) return made;
  std::vector<at::Tensor> parts;
  for (const PairIndices& list : lists) parts.push_back(with_order(list));
  const at::Tensor there = at::cat(parts, 1).to(device);
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    made.push_back(TokenPairs(part, there.narrow(1, begin, part.size(1))));
    begin += part.size(1);
  }
  return made;
}

TokenPairs TokenPairs::of_head(std::int64_t head) const {
  TokenPairs pairs = *this;
  for (PairIndices* indices : {&pairs.here_, &pairs.there_}) {
    indices->head = at::full_like(indices->head, head);
  }
  return pairs;
}

}  // namespace phasescope::model
