#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace phasescope::model {

// Single pairs of tokens by index: the text, head, query and key of each, (P) int64.
struct PairIndices {
  at::Tensor text, head, query, key;

  PairIndices slice(std::int64_t begin, std::int64_t end) const;
};

// Pairs whose scores layers are asked for. They are made before layers run: what depends on the
// indices is settled then, on the host, and a device has them all, so that no layer asks it or
// sends it anything.
class TokenPairs {
 public:
  // Pairs of one query, whose scores some programs give row by row: entries [begin, end) of
  // by_query().
  struct Row {
    std::int64_t query = 0, begin = 0, end = 0;
  };

  // Of indices on the host, for layers on `device`; in one copy.
  TokenPairs(const PairIndices& indices, const at::Device& device);
  // Several of them in one copy.
  static std::vector<TokenPairs> of_all(const std::vector<PairIndices>& lists,
                                        const at::Device& device);

  std::int64_t size() const { return here_.query.size(0); }
  const PairIndices& here() const { return here_; }    // on the host
  const PairIndices& there() const { return there_; }  // where the layers are
  // The numbers of the pairs in the order of their queries, (P) int64 where the layers are.
  const at::Tensor& by_query() const { return by_query_; }
  const std::vector<Row>& rows() const { return rows_; }
  // The same pairs, all of one head.
  TokenPairs of_head(std::int64_t head) const;

 private:
  TokenPairs(const at::Tensor& here, const at::Tensor& there);

  PairIndices here_, there_;
  at::Tensor by_query_;
  std::vector<Row> rows_;
};

}  // namespace phasescope::model
