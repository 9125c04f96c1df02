#pragma once
// What every pair scores at the distance that it has, against what the pass computed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/attention/layer_attention.h"
#include "model/attention/moved_scores.h"
#include "model/encodings/rotation.h"

namespace phasescope::analysis::testing {

// In every layer: in float64 to some roundings of the largest score; what is hidden is hidden.
class OwnDistances final : public model::AttentionHook {
 public:
  void before(const model::LayerInput& input, model::AttentionProgram& program) override {
    const std::int64_t tokens = program.q.size(2);
    const at::Tensor seen = at::ones({tokens, tokens}, at::kBool).tril().nonzero();
    const at::Tensor row = seen.select(1, 0), column = seen.select(1, 1);
    const at::Tensor places = model::position_ids(program.positions);
    const at::Tensor distance = places.index_select(0, row) - places.index_select(0, column);
    const at::Tensor moved = model::moved_scores(input, program, {row, column, distance});
    const model::LayerAttention attention(input.layer, program, program.q, {}, {},
                                          model::Backend::plain, model::ran_plain(program.q));
    const at::Tensor scores = attention.scores(attention.whole()).score[0];
    const at::Tensor ran = scores.index({at::indexing::Slice(), row, column});
    EXPECT_TRUE(moved.isneginf().equal(ran.isneginf()));
    const at::Tensor off = (moved - ran).masked_fill(ran.isneginf(), 0.0).abs();
    EXPECT_LE(off.max().item<double>(),
              1e-12 * std::max(1.0, ran.nan_to_num(0, 0, 0).abs().max().item<double>()))
        << "layer " << input.layer;
    ++layers;
  }

  int layers = 0;  // that were looked at
};

}  // namespace phasescope::analysis::testing
