#pragma once
// Memory for everything that a forward pass can measure of a case.

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/kernels/cases.h"

namespace phasescope::kernels::testing {

/// Every probe of a case, switched on; with_content: the sums of content scores too, without which
/// those of scores come about in another way; top_count: of a row's largest weights.
struct Probes {
  explicit Probes(Case& c, std::vector<std::int64_t> bucket_edges, bool with_content = true,
                  std::int64_t top_count = 0)
      : edges(std::move(bucket_edges)) {
    const AttentionShape& s = c.inputs.shape;
    const auto rows = static_cast<std::size_t>(s.batch * s.heads * s.queries);
    for (auto* array : {&entropy, &max_score, &top1, &first, &distance, &sink, &windows[0],
                        &windows[1], &windows[2]}) {
      array->resize(rows);
    }
    max_key.resize(rows);
    RowProbes& r = c.outputs.rows;
    r.entropy = entropy.data();
    r.max_score = max_score.data();
    r.max_key = max_key.data();
    r.top1_mass = top1.data();
    r.first_key_weight = first.data();
    r.mean_distance = distance.data();
    r.sink_weight = sink.data();
    r.windows = {1, 16, 64};
    for (std::size_t w = 0; w < 3; ++w) r.window_mass[w] = windows[w].data();
    if (top_count > 0) {
      top_key.resize(rows * static_cast<std::size_t>(top_count));
      top_weight.resize(top_key.size());
      r.top_count = top_count;
      r.top_key = top_key.data();
      r.top_weight = top_weight.data();
    }
    BucketProbes& b = c.outputs.buckets;
    b.edges = edges.data();
    b.count = static_cast<std::int64_t>(edges.size()) - 1;
    const auto sums = static_cast<std::size_t>(s.batch * s.heads * b.count);
    pairs.resize(sums);
    weight.resize(sums);
    score.resize(sums);
    square.resize(sums);
    b.pairs = pairs.data();
    b.weight = weight.data();
    b.score = score.data();
    b.score_square = square.data();
    if (!with_content) return;
    content.resize(sums);
    content_square.resize(sums);
    term.resize(sums);
    term_square.resize(sums);
    b.content = content.data();
    b.content_square = content_square.data();
    b.term = term.data();
    b.term_square = term_square.data();
  }

  std::vector<std::int64_t> edges, pairs;
  std::vector<float> entropy, max_score, top1, first, distance, sink, windows[3], top_weight;
  std::vector<std::int32_t> max_key, top_key;
  std::vector<double> weight, score, square, content, content_square, term, term_square;
};

}  // namespace phasescope::kernels::testing
