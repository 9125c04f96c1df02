// TAPE's tensor forms against their definition, written out with four numbers a plane: e_i e_j^T
// between q and k (arXiv 2501.00712, Eq. 6), and updates that read other heads alone.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "../golden.h"
#include "model/attention/attention.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kHeads = 3, kDim = 8, kPlanes = 4, kTokens = 11, kUnits = 5, kWidth = 24;

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

struct Case {
  std::string form, layout;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.form << " " << c.layout; }

// Channels of a plane: first and second.
at::Tensor channel(const at::Tensor& x, const Case& c, std::int64_t plane, std::int64_t which) {
  const std::int64_t at = c.layout == "half" ? plane + which * kPlanes : 2 * plane + which;
  return x.select(-1, at);
}

// e (H, N, planes, 2, 2), a rotation for each token and plane.
at::Tensor rotations() {
  at::Tensor e = at::zeros({kHeads, kTokens, kPlanes, 2, 2}, at::kDouble);
  for (std::int64_t n = 0; n < kTokens; ++n) {
    for (std::int64_t m = 0; m < kPlanes; ++m) {
      const double angle =
          static_cast<double>(n) * std::pow(10000.0, -2.0 * static_cast<double>(m) / kDim);
      const at::Tensor block = at::tensor(
          {std::cos(angle), -std::sin(angle), std::sin(angle), std::cos(angle)}, at::kDouble);
      e.select(1, n).select(1, m).copy_(block.view({2, 2}).expand({kHeads, 2, 2}));
    }
  }
  return e;
}

// Scores (H, N, N) of all pairs. LR22: sum_m (e_i^T q_m).(e_j^T k_m) for e the transpose of the
// paper's printed block, which turns distances the way RoPE does.
at::Tensor scores_of(const at::Tensor& e, const at::Tensor& q, const at::Tensor& k, const Case& c) {
  at::Tensor scores = at::zeros({kHeads, kTokens, kTokens}, at::kDouble);
  const auto plane = [&](const at::Tensor& x, std::int64_t m) {  // (H, N, 2)
    return at::stack({channel(x, c, m, 0), channel(x, c, m, 1)}, -1);
  };
  if (c.form == "L4R1") {
    for (std::int64_t m = 0; m < kPlanes; m += 2) {
      // The first column of two blocks, (cos, sin, cos, sin), against four channels.
      const at::Tensor column = at::cat(
          {e.select(2, m).select(-1, 0), e.select(2, m + 1).select(-1, 0)}, -1);  // (H, N, 4)
      const auto product = [&](const at::Tensor& x) {
        return (at::cat({plane(x, m), plane(x, m + 1)}, -1) * column).sum(-1);  // (H, N)
      };
      scores += product(q).unsqueeze(2) * product(k).unsqueeze(1);
    }
    return scores / std::sqrt(static_cast<double>(kDim));
  }
  for (std::int64_t m = 0; m < kPlanes; ++m) {
    const at::Tensor qm = plane(q, m), km = plane(k, m), em = e.select(2, m);
    if (c.form == "L1R4") {
      const at::Tensor vector = em.flatten(-2) / std::sqrt(2.0);  // four numbers, of length 1
      scores += at::matmul(vector, vector.transpose(1, 2)) * at::matmul(qm, km.transpose(1, 2));
    } else {
      const at::Tensor turned_q = at::matmul(em, qm.unsqueeze(-1)).squeeze(-1);
      const at::Tensor turned_k = at::matmul(em, km.unsqueeze(-1)).squeeze(-1);
      scores += at::matmul(turned_q, turned_k.transpose(1, 2));
    }
  }
  return scores / std::sqrt(static_cast<double>(kDim));
}

at::Tensor across_heads(const at::Tensor& w, const at::Tensor& e) {  // (out, H) and (H, N, P, 2, 2)
  return at::matmul(w, e.flatten(1)).unflatten(1, e.sizes().slice(1));
}

class TapeForms : public testing::TestWithParam<Case> {};

TEST_P(TapeForms, AreTheirDefinitionBeforeAndAfterAnUpdate) {
  const Case& c = GetParam();
  ModelConfig config =
      tiny_config("tape", {{"tensor_form", c.form}, {"layout", c.layout}, {"hidden", kUnits}});
  const auto encoding = make_encoding(config);
  const Parameters layer = {{"up_proj", drawn({kUnits, kHeads}, 1)},
                            {"x_proj", drawn({kUnits, kWidth}, 2)},
                            {"down_proj", drawn({kHeads, kUnits}, 3)},
                            {"post_attention_linear", drawn({kHeads, kHeads}, 4)}};
  const at::Tensor q = drawn({1, kHeads, kTokens, kDim}, 5),
                   k = drawn({1, kHeads, kTokens, kDim}, 6);
  const at::Tensor y = drawn({1, kTokens, kWidth}, 7);
  StartContext context;
  context.positions.length = kTokens;
  context.dtype = context.angle_dtype = at::kDouble;
  const Parameters none;
  context.shared = &none;
  PositionState state = encoding->start(context);
  at::Tensor e = rotations();
  for (int pass = 0; pass < 2; ++pass) {
    const AttentionProgram program = encoding->program(layer, q, k, state);
    const at::Tensor scores = scores_of(e, q[0], k[0], c).tril();
    const at::Tensor ours =
        plain_scores(program, {0, kHeads}, {0, kTokens}, {0, kTokens}).nan_to_num(0, 0, 0)[0];
    EXPECT_LT(relative_error(ours.tril(), scores), 1e-13) << pass;
    const AttentionResult result = attention(program, k, {.backend = Backend::plain});
    encoding->after_attention(layer, result.state, state);
    encoding->after_mlp(layer, {.mlp_output = y, .attention_output = y}, state);
    // e += P (sum_j a_ij e_j), then e += W2 (g * (W1 e)), each number of a block alike.
    const at::Tensor hidden = at::ones({kTokens, kTokens}, at::kBool).triu(1);
    const at::Tensor weights =
        at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1);
    const at::Tensor averaged = at::matmul(weights, e.flatten(2)).unflatten(2, e.sizes().slice(2));
    e = e + across_heads(layer.at("post_attention_linear"), averaged);
    const at::Tensor gate = at::silu(at::matmul(y[0], layer.at("x_proj").t()));  // (N, I)
    const at::Tensor units =
        across_heads(layer.at("up_proj"), e) * gate.t().view({kUnits, kTokens, 1, 1, 1});
    e = e + across_heads(layer.at("down_proj"), units);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, TapeForms,
                         testing::Values(Case{"LR22", "half"}, Case{"L1R4", "half"},
                                         Case{"L1R4", "interleaved"}, Case{"L4R1", "half"},
                                         Case{"L4R1", "interleaved"}),
                         [](const auto& info) {
                           return info.param.form + "_" + info.param.layout;
                         });

// Equation 5: a matrix of O(R) on the right of every e changes nothing, mirror images included. Of
// a column's single number that is its sign; the four numbers of a vector are two, twice, so that
// an orthogonal 2 x 2 matrix on (c, s) is one of O(4) on the vector.
TEST(TapeTensorForms, AVectorsOrthogonalMatrixChangesNothing) {
  for (const std::string form : {"L1R4", "L4R1", "LR22"}) {
    ModelConfig config = tiny_config("tape", {{"tensor_form", form}});
    const auto encoding = make_encoding(config);
    Weights weights = converted(init_weights(config, *encoding, 3), at::kDouble);
    std::uint64_t seed = 20;
    for (LayerWeights& layer : weights.layers) {
      for (auto& [name, tensor] : layer.encoding) tensor = drawn(tensor.sizes(), seed++) * 0.3;
    }
    const auto model = model_of(config, weights, form);
    const at::NoGradGuard no_grad;
    const at::Tensor ids = random_ids(1, kTokens, config.vocab_size);
    StartContext context;
    context.positions.length = kTokens;
    context.dtype = context.angle_dtype = at::kDouble;
    context.shared = &weights.encoding;
    const at::Tensor z = encoding->start(context).z;  // (1, 1, N, 2, P)
    const at::Tensor logits = model->decoder.forward(ids);
    const auto change = [&](const at::Tensor& r) {
      const at::Tensor turned = at::matmul(z.transpose(-1, -2), r).transpose(-1, -2).contiguous();
      return relative_error(model->decoder.forward(ids, {.initial_state = turned}), logits);
    };
    const at::Tensor turn = at::tensor({0.6, 0.8, -0.8, 0.6}, at::kDouble).view({2, 2});
    const at::Tensor mirror = at::tensor({0.6, 0.8, 0.8, -0.6}, at::kDouble).view({2, 2});
    EXPECT_LT(change(-at::eye(2, at::kDouble)), 1e-12) << form;
    if (form == "L1R4") {
      EXPECT_LT(change(turn), 1e-12);
      EXPECT_LT(change(mirror), 1e-12);
    } else if (form == "L4R1") {
      EXPECT_GT(change(turn), 1e-3);
      EXPECT_GT(change(mirror), 1e-3);
    } else {
      // (c, s) turned is the block turned; its mirror image runs the other way.
      EXPECT_LT(change(turn), 1e-12);
      EXPECT_GT(change(mirror), 1e-3);
    }
  }
}

}  // namespace
}  // namespace phasescope::model
