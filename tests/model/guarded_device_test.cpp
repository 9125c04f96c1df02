// Models on a second device (phantom_device.h) whose memory is guarded: the host's code cannot read
// or write it behind the device's back, and answers stay the CPU's.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "analyses_there.h"
#include "analysis/distance.h"
#include "analysis/heads.h"
#include "next_token_loss.h"

namespace phasescope::model {
namespace {

// ---- the guard ----------------------------------------------------------------------------------

float first_of(const at::Tensor& x) {
  return *static_cast<const volatile float*>(x.storage().data());
}

TEST(GuardedDevice, AHostThatReadsItsMemoryDies) {
  at::set_num_threads(1);
  const at::Tensor host = at::arange(8, at::kFloat);
  at::Tensor copied, made;
  {
    const GuardedPhantom guard;
    copied = host.to(phantom_device());
    made = copied + 1;  // whose memory the CPU's kernel has allocated
    EXPECT_EXIT((void)first_of(copied), testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT((void)first_of(made), testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT(*static_cast<volatile float*>(made.storage().mutable_data()) = 2,
                testing::KilledBySignal(SIGSEGV), "");
    // What asks the device is answered.
    EXPECT_TRUE(made.cpu().equal(host + 1));
    EXPECT_EQ(made.sum().item<double>(), 36);
    EXPECT_EQ(first_of(host), 0);
  }
  EXPECT_EQ(first_of(made), 1);  // nobody guards it any more
}

// Looks at a layer's queries as if they lay with the host, where a hook is called in a pass.
class Peeking final : public AttentionHook {
 public:
  void before(const LayerInput&, AttentionProgram& program) override { (void)first_of(program.q); }
};

TEST(GuardedDevice, AHookThatReadsItsMemoryDies) {
  at::set_num_threads(1);
  const auto model = tiny_model({"rope", "rope", Json::object()}, at::kFloat);
  const at::Tensor ids = random_ids(1, 9, model->config().vocab_size);
  Peeking peeking;
  (void)model->decoder.forward(ids, {.hook = &peeking});
  const GuardedPhantom guard;
  const auto device = there(model);
  EXPECT_EXIT((void)device->decoder.forward(ids, {.hook = &peeking}),
              testing::KilledBySignal(SIGSEGV), "");
}

// ---- models -------------------------------------------------------------------------------------

class ModelsGuarded : public AnalysesThere {
 protected:
  const GuardedPhantom guard_;
  const std::shared_ptr<const Model> guarded_ = there(model_);

  template <class Call>
  void expect_same_guarded(const Call& call) {
    const std::string real = said(call, model_), found = said(call, guarded_);
    ASSERT_TRUE(real.starts_with('{')) << real;  // an answer, and no sentence that both say
    if (rounds_otherwise(GetParam()) && real.starts_with('{') && found.starts_with('{')) {
      expect_near(Json::parse(found), Json::parse(real), GetParam().name);
    } else {
      EXPECT_EQ(found, real);
    }
  }
};

// One of each kind of kernel and of terms that run plain: each operator opens and shuts the memory,
// which takes longer than what it computes.
std::vector<Variant> guarded_variants() {
  std::vector<Variant> list = encodings_alone();
  const std::set<std::string> names = {"none", "rope", "alibi", "t5",   "fire",           "cape",
                                       "tapa", "tape", "shaw",  "cope", "randomized_rope"};
  std::erase_if(list, [&](const Variant& one) { return !names.contains(one.name); });
  EXPECT_EQ(list.size(), names.size());
  return list;
}
INSTANTIATE_TEST_SUITE_P(Registry, ModelsGuarded, testing::ValuesIn(guarded_variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(ModelsGuarded, HeadsAreTheSame) {
  expect_same_guarded([&](const auto& model) {
    return analysis::analyse_heads(passes_of(model), {}, progress_).result;
  });
}

TEST_P(ModelsGuarded, DistancesAreTheSame) {
  expect_same_guarded([&](const auto& model) {
    return analysis::analyse_distance(passes_of(model), {.per_head = true}, progress_);
  });
}

TEST_P(ModelsGuarded, AStepOfTrainingIsTheSame) {
  const at::Tensor ids = random_ids(2, 17, model_->config().vocab_size);
  const auto gradients = [&](const Model& of) {
    NamedTensors list;
    for (const auto& [name, tensor] :
         named_tensors(of.config(), of.encoding(), of.decoder.weights())) {
      tensor.set_requires_grad(true);
    }
    next_token_loss(of.decoder.forward(ids), ids).backward();
    for (const auto& [name, tensor] :
         named_tensors(of.config(), of.encoding(), of.decoder.weights())) {
      if (tensor.grad().defined()) list.emplace_back(name, tensor.grad().cpu());
    }
    return list;
  };
  const NamedTensors expected = gradients(*model_), found = gradients(*guarded_);
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_FALSE(found.empty());
  for (std::size_t n = 0; n < found.size(); ++n) {
    if (rounds_otherwise(GetParam())) {
      EXPECT_LT(relative_error(found[n].second, expected[n].second), 1e-4) << found[n].first;
    } else {
      EXPECT_TRUE(found[n].second.equal(expected[n].second)) << found[n].first;
    }
  }
}

}  // namespace
}  // namespace phasescope::model
