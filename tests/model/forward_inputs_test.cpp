// What a file gives a forward pass beside the ids: masks of pairs and documents.
#include "model/forward_inputs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/error.h"
#include "golden.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::model {
namespace {

class ForwardInputs : public testing::Test {
 protected:
  ForwardOptions read(const NamedTensors& tensors, const ModelConfig& config) {
    const std::filesystem::path file = folder_.path() / "inputs.safetensors";
    NamedTensors written = tensors;
    written.emplace_back("input_ids", ids_);
    write_tensors(formats::real_file_system(), file, written);
    ForwardOptions options;
    read_forward_inputs(formats::SafetensorsFile::open(file), "", ids_, config, options);
    return options;
  }

  std::string refusal(const NamedTensors& tensors, const ModelConfig& config) {
    try {
      read(tensors, config);
    } catch (const formats::Error& error) {
      return error.code();
    }
    return "";
  }

  const at::NoGradGuard no_grad_;
  TemporaryFolder folder_;
  at::Tensor ids_ = random_ids(2, 12, 29);
};

// Texts packed into one, each counted from 0, give what they give alone.
TEST_F(ForwardInputs, DocumentsDoNotSeeEachOther) {
  const at::Tensor documents = at::cat({at::full({5}, 3, at::kLong), at::full({7}, 9, at::kLong)});
  const at::Tensor places = at::cat({at::arange(5, at::kLong), at::arange(7, at::kLong)});
  for (const char* encoding : {"rope", "alibi", "tape", "tapa", "cape", "learned"}) {
    for (const bool causal : {true, false}) {
      ModelConfig config = tiny_config(encoding);
      config.attention.causal = causal;
      const auto model = random_model(config, 1, at::kDouble);
      const ForwardOptions options =
          read({{"document_ids", documents}, {"position_ids", places}}, config);
      const at::Tensor packed = model->decoder.forward(ids_, options);
      const at::Tensor first = model->decoder.forward(ids_.slice(1, 0, 5));
      const at::Tensor second = model->decoder.forward(ids_.slice(1, 5, 12));
      // Sums over the same keys in another order.
      EXPECT_LT(relative_error(packed, at::cat({first, second}, 1)), 1e-13) << encoding;
    }
  }
}

TEST_F(ForwardInputs, AMaskOfPairsReplacesTheModels) {
  const auto model = random_model(tiny_config("rope"), 1, at::kDouble);
  const at::Tensor seen = at::rand({12, 12}).gt(0.5) | at::eye(12).to(at::kBool);
  const at::Tensor expected = model->decoder.forward(ids_, {.mask = seen});
  const at::Tensor whole = seen.expand({2, 1, 12, 12}).contiguous();
  const at::Tensor added = at::zeros({1, 12, 12}).masked_fill(seen.logical_not(), -1e30);
  for (const at::Tensor& mask : {whole.to(at::kLong), whole, added}) {
    const ForwardOptions options = read({{"attention_mask", mask}}, model->config());
    EXPECT_TRUE(model->decoder.forward(ids_, options).equal(expected));
  }
}

TEST_F(ForwardInputs, MasksThatDoNotFitAreRefused) {
  const ModelConfig config = tiny_config("rope");
  at::Tensor two = at::ones({2, 12, 12}, at::kLong);
  EXPECT_EQ(refusal({{"attention_mask", two}}, config), "");
  two[1][3][0] = 0;
  EXPECT_EQ(refusal({{"attention_mask", two}}, config), "bad_input");
  EXPECT_EQ(refusal({{"attention_mask", at::ones({1, 12, 11})}}, config), "bad_input");
  EXPECT_EQ(refusal({{"attention_mask", at::ones({1, 3, 12, 12})}}, config), "bad_input");
  EXPECT_EQ(refusal({{"document_ids", at::ones({11}, at::kLong)}}, config), "bad_input");
  ForwardOptions short_of_one;
  short_of_one.document_ids = at::ones({2, 11}, at::kLong);
  EXPECT_THROW(random_model(config, 1)->decoder.forward(ids_, short_of_one), formats::Error);
}

// A text's documents as the mask of pairs that they amount to, with windows and padding. One text
// at a time, as masks of pairs are the same for all.
TEST_F(ForwardInputs, DocumentsAreTheMaskTheyAmountTo) {
  const at::Tensor place = at::arange(12, at::kLong);
  const at::Tensor documents = at::stack({place.floor_divide(5), place.remainder(3) * -7});
  const at::Tensor near = (place.unsqueeze(1) - place).abs() < 4;
  for (const char* encoding : {"rope", "alibi", "tape", "tapa", "cape", "fire", "t5", "shaw"}) {
    for (const bool causal : {true, false}) {
      for (const bool padded : {false, true}) {
        ModelConfig config = tiny_config(encoding);
        config.attention.causal = causal;
        config.attention.window = 4;
        for (std::int64_t layer = 0; layer < config.layers; ++layer) {
          config.attention.local_layers.push_back(layer);
        }
        const auto model = random_model(config, 1, at::kDouble);
        ForwardOptions options = read({{"document_ids", documents}}, config);
        if (padded) options.key_mask = at::ones({2, 12}, at::kLong);
        if (padded) options.key_mask.slice(1, 11).zero_();
        const at::Tensor ours = model->decoder.forward(ids_, options);
        for (std::int64_t b = 0; b < 2; ++b) {
          at::Tensor seen = near & (documents[b].unsqueeze(1) == documents[b]);
          if (causal) seen = seen.tril();
          ForwardOptions given = {.mask = seen};
          if (padded) given.key_mask = options.key_mask.slice(0, b, b + 1);
          const at::Tensor theirs = model->decoder.forward(ids_.slice(0, b, b + 1), given)[0];
          // Sums of the same numbers.
          EXPECT_LT(relative_error(ours[b].slice(0, 0, 11), theirs.slice(0, 0, 11)), 1e-13)
              << encoding << causal << padded << b;
        }
      }
    }
  }
}

TEST_F(ForwardInputs, DocumentsRunFused) {
  const at::Tensor documents = at::stack(
      {at::arange(12, at::kLong).floor_divide(5), at::arange(12, at::kLong).floor_divide(2)});
  const auto model = random_model(tiny_config("rope"), 1);
  AllRan kernels;
  ForwardOptions options = read({{"document_ids", documents}}, model->config());
  options.kernels = &kernels;
  const at::Tensor fused = model->decoder.forward(ids_, options);
  EXPECT_EQ(protocol::words_of(protocol::listed(kernels)), fused_kernel_name());
  options.backend = Backend::plain;
  // Float32 through two layers.
  EXPECT_LT(relative_error(fused, model->decoder.forward(ids_, options)), 1e-5);
}

// Tokens before a text's first real one see padding alone; nobody's implementation is right there.
TEST_F(ForwardInputs, ChecksLeaveOutTokensThatSeePaddingAlone) {
  const std::string llama = golden("hf/models/llama").string();
  const auto model = open_model(llama);
  const at::Tensor ids = random_ids(1, 9, model->config().vocab_size);
  at::Tensor mask = at::ones({1, 9}, at::kLong);
  mask.slice(1, 0, 3).zero_();
  mask[0][5] = 0;
  // The sixth token is the first of its document.
  const at::Tensor documents = at::arange(9, at::kLong).ge(5).to(at::kLong).unsqueeze(0);
  at::Tensor logits = model->decoder.forward(ids, {.key_mask = mask, .document_ids = documents});
  const std::filesystem::path file = folder_.path() / "reference.safetensors";
  const auto passes = [&] {
    write_tensors(formats::real_file_system(), file,
                  {{"input_ids", ids},
                   {"attention_mask", mask},
                   {"document_ids", documents},
                   {"logits", logits}});
    return check_against(llama, file).passed;
  };
  EXPECT_TRUE(passes());
  logits.slice(1, 0, 3).fill_(7);
  logits[0][5].fill_(7);
  EXPECT_TRUE(passes());
  for (const std::int64_t token : {3, 4, 6}) {
    logits[0][token][0] += 1;
    EXPECT_FALSE(passes()) << token;
    logits[0][token][0] -= 1;
  }
}

}  // namespace
}  // namespace phasescope::model
