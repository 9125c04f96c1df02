// First weights by name.
#include "model/checkpoints/named_start.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "formats/counter_random.h"
#include "golden.h"

namespace phasescope::model {
namespace {

// The published values of AS 241, to two roundings (its relative error is 1e-16), and the inverse
// itself: Phi by erfc, whose own error is some 1e-16.
TEST(NamedStart, HasTheQuantilesOfTheNormalDistribution) {
  EXPECT_NEAR(normal_quantile(0.25), -0.6744897501960817, 4e-16 * 0.7);
  EXPECT_NEAR(normal_quantile(0.001), -3.090232306167814, 4e-16 * 3.1);
  EXPECT_NEAR(normal_quantile(1e-20), -9.262340089798408, 4e-16 * 9.3);
  for (const double p :
       {1e-300, 1e-16, 1e-9, 1e-4, 0.02, 0.074, 0.076, 0.3, 0.5, 0.7, 0.93, 0.99}) {
    // Where Phi falls fast, a rounding of x is |x| as many of Phi, twice over in the exponent.
    const double x = normal_quantile(p), back = std::erfc(-x / std::sqrt(2.0)) / 2;
    EXPECT_NEAR(back / p, 1, 4e-16 * (2 + x * x)) << p;
  }
}

// The published values of FNV-1a, 64 bits.
TEST(NamedStart, HashesNamesAsFnv1aDoes) {
  EXPECT_EQ(name_hash(""), 0xcbf29ce484222325u);
  EXPECT_EQ(name_hash("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(name_hash("foobar"), 0x85944171f73967e8u);
}

std::map<std::string, at::Tensor> drawn_tensors(const std::string& encoding, std::uint64_t seed) {
  const ModelConfig config = tiny_config(encoding);
  const auto made = make_encoding(config);
  const Weights weights = weights_by_name(config, *made, seed);
  const NamedTensors list = named_tensors(config, *made, weights);
  return {list.begin(), list.end()};
}

// Kerple has parameters that the others have not, and draws them between layers.
TEST(NamedStart, IsTheSameForTheSameNameInAnyModel) {
  const auto plain = drawn_tensors("none", 3), biased = drawn_tensors("kerple_log", 3);
  ASSERT_GT(biased.size(), plain.size());
  for (const auto& [name, tensor] : plain) {
    EXPECT_TRUE(tensor.equal(biased.at(name))) << name;
  }
  const auto& wq = plain.at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_FALSE(wq.equal(drawn_tensors("none", 4).at("model.layers.0.self_attn.q_proj.weight")));
  EXPECT_FALSE(wq.equal(plain.at("model.layers.0.self_attn.k_proj.weight")));
}

TEST(NamedStart, IsTheQuantileOfACountedDraw) {
  const std::string name = "model.layers.1.self_attn.o_proj.weight";
  const ModelConfig config = tiny_config("none");
  const at::Tensor wo = drawn_tensors("none", 3).at(name);
  const formats::CounterRandom random(3, name_hash(name));
  const double deviation = config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));
  EXPECT_EQ(wo.data_ptr<float>()[5],
            static_cast<float>(deviation * normal_quantile(random.unit(5))));
}

// Pieces of a tensor are what stands there in the whole, wherever they begin.
TEST(NamedStart, PiecesAreThoseOfTheWhole) {
  const ModelConfig config = tiny_config("tape");
  const auto encoding = make_encoding(config);
  const Weights whole = weights_by_name(config, *encoding, 3);
  for (const TensorSpec& spec : tensor_specs(config, *encoding)) {
    if (spec.optional) continue;
    Weights view = whole;
    const at::Tensor entries = tensor_at(view, spec.name).flatten();
    for (std::int64_t begin = 0; begin < entries.numel(); begin += 101) {
      const std::int64_t count = std::min<std::int64_t>(101, entries.numel() - begin);
      EXPECT_TRUE(
          entries_by_name(spec, config, 3, begin, count).equal(entries.narrow(0, begin, count)))
          << spec.name;
    }
  }
}

}  // namespace
}  // namespace phasescope::model
