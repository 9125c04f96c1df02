// What a pass over a text keeps.
#include "analysis/text_pass.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "analysis/tensors.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::small_model;

TEST(TextPass, KeptAndUnkeptSayTheSame) {
  const auto model = small_model("tape");
  const auto ids = ids_tensor(random_texts(1, 30, 32, 4).items[0].ids);
  TextPass kept(model, ids), unkept(model, ids, {}, 0);
  EXPECT_TRUE(kept.layer(1)->lse().equal(unkept.layer(1)->lse()));
  EXPECT_EQ(unkept.kept_bytes(), 0);
  EXPECT_GT(kept.kept_bytes(), 0);
  int states = 0;
  unkept.visit_positions([&states](std::int64_t, const model::PositionState&) { ++states; });
  EXPECT_EQ(states, 3);
  EXPECT_THROW(kept.layer(2), formats::Error);
}

// Bytes of the layers' tensors and of the states between them, each memory once.
std::int64_t held_bytes(TextPass& pass) {
  std::map<const void*, std::int64_t> memory;
  const auto add = [&memory](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const at::Storage& storage = tensor.storage();
    memory[storage.data()] = static_cast<std::int64_t>(storage.nbytes());
  };
  pass.visit_layers([&](const AttentionPointer& layer) {
    const model::AttentionProgram& program = layer->program();
    for (const at::Tensor* one : {&program.q, &program.k, &program.q_plain, &program.k_plain}) {
      add(*one);
    }
    add(layer->v()), add(layer->lse()), add(layer->entropy());
  });
  pass.visit_positions([&add](std::int64_t, const model::PositionState& state) { add(state.z); });
  add(pass.hidden());
  std::int64_t sum = 0;
  for (const auto& [data, bytes] : memory) sum += bytes;
  return sum;
}

// No less than what is held, and what 16-bit numbers take less is told: queries, keys and values
// are nearly all of it.
TEST(TextPass, BytesAreThoseOfTheDtype) {
  for (const char* encoding : {"rope", "alibi", "tape"}) {
    SCOPED_TRACE(encoding);
    const auto exact = small_model(encoding);
    const auto ids = ids_tensor(random_texts(1, 30, 32, 4).items[0].ids);
    std::map<at::ScalarType, std::int64_t> said;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      TextPass pass(model::in_dtype(exact, dtype), ids);
      pass.run();
      said[dtype] = pass.kept_bytes();
      EXPECT_GE(pass.kept_bytes(), held_bytes(pass)) << at::toString(dtype);
    }
    EXPECT_EQ(said[at::kDouble], 2 * said[at::kFloat]);
    EXPECT_EQ(said[at::kHalf], said[at::kBFloat16]);
    EXPECT_LT(said[at::kHalf], 0.6 * static_cast<double>(said[at::kFloat]));
  }
}

// 19.12: a map of a layer stops the pass there, and its zooms run none.
TEST(TextPass, OneLayerIsReadAloneAndKept) {
  const auto model = small_model("rope");
  const auto ids = ids_tensor(random_texts(1, 30, 32, 4).items[0].ids);
  std::vector<double> done;
  bool cancelled = false;
  model::ForwardOptions options;
  options.progress = [&done](double share) { done.push_back(share); };
  options.cancelled = [&cancelled] { return cancelled; };
  TextPass whole(model, ids);
  const std::int64_t half = whole.layer(0) ? whole.kept_bytes() / 2 : 0;
  TextPass pass(model, ids, options, half + 4096);  // room for one of two layers
  const AttentionPointer first = pass.layer(0);
  EXPECT_EQ(done, std::vector<double>{0.5});
  EXPECT_TRUE(first->lse().equal(whole.layer(0)->lse()));
  EXPECT_EQ(pass.layer(0), first);
  EXPECT_EQ(done.size(), 1u);
  EXPECT_GT(pass.kept_bytes(), 0);
  EXPECT_TRUE(pass.layer(1)->lse().equal(whole.layer(1)->lse()));
  EXPECT_EQ(pass.layer(0)->layer(), 0);  // the other one has left
  EXPECT_TRUE(pass.hidden().equal(whole.hidden()));
  pass.release();
  EXPECT_EQ(pass.kept_bytes(), 0);
  cancelled = true;
  EXPECT_THROW(pass.layer(0), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
