// What `map` and `heads` say of models with learned sinks, gates of the output and a bias by token:
// the fused kernels' answers in float32 against sums of our own in float64, over q, k and what else
// scores have of a copy of the model that computes in float64 by plain operations.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/tensors.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::small_config;

constexpr std::int64_t kTokens = 24;
// Two layers in float32, of sums of tens of terms; weights are at most 1.
constexpr double kRounding = 1e-5;

struct Form {
  std::string name;
  model::ModelConfig config;
  bool sinks = false, gate = false, tokens = false;  // what each layer has
};

std::vector<Form> forms_of_attention() {
  std::vector<Form> forms = {
      {.name = "sinks", .config = small_config("rope"), .sinks = true},
      {.name = "gate", .config = small_config("rope"), .gate = true},
      {.name = "gate by head", .config = small_config("rope"), .gate = true},
      {.name = "bias by token", .config = small_config("fox"), .tokens = true}};
  forms[0].config.attention.sink_layers = {0, 1};
  forms[1].config.attention.gate = forms[2].config.attention.gate = "sigmoid";
  forms[2].config.attention.gate_by_head = true;
  return forms;
}

// A form's model on one text, fused in float32 and plain in float64.
struct Passes {
  std::shared_ptr<TextPass> fused, exact;
};

Passes passes_of(const Form& form) {
  const testing::ModelPointer model = model::random_model(form.config, 2);
  const auto ids = ids_tensor(random_texts(1, kTokens, form.config.vocab_size, 5).items[0].ids);
  model::ForwardOptions plain;
  plain.backend = model::Backend::plain;
  return {std::make_shared<TextPass>(model, ids),
          std::make_shared<TextPass>(model::in_dtype(model, at::kDouble), ids, plain,
                                     std::int64_t{1} << 30)};
}

// (H, N, N), 0 above the diagonal.
at::Tensor exact_weights(TextPass& exact, std::int64_t layer) {
  const AttentionPointer attention = exact.layer(layer);
  const model::AttentionProgram& program = attention->program();
  const at::Tensor q = attention->q_rotated()[0], k = attention->k_rotated()[0];
  EXPECT_EQ(q.scalar_type(), at::kDouble);
  at::Tensor scores = at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2)));
  if (program.tokens.defined()) {
    scores = scores + program.tokens.query[0].unsqueeze(2) + program.tokens.key[0].unsqueeze(1);
  }
  const at::Tensor each = scores.exp().tril();
  at::Tensor sum = each.sum(-1, true);
  if (program.sinks.defined()) sum = sum + program.sinks.to(at::kDouble).exp().view({-1, 1, 1});
  return each / sum;
}

// That the form is there, and that the fused kernel ran it.
void expect_form(const Form& form, TextPass& fused) {
  for (const std::int64_t layer : {0, 1}) {
    const AttentionPointer attention = fused.layer(layer);
    const model::AttentionProgram& program = attention->program();
    EXPECT_EQ(program.sinks.defined(), form.sinks);
    EXPECT_EQ(program.gate.defined(), form.gate);
    EXPECT_EQ(program.tokens.defined(), form.tokens);
    EXPECT_EQ(attention->ran().text(), model::fused_kernel_name());
  }
}

TEST(AttentionForms, AreInEveryCellOfAMap) {
  const at::NoGradGuard no_gradients;
  for (const Form& form : forms_of_attention()) {
    SCOPED_TRACE(form.name);
    const Passes passes = passes_of(form);
    expect_form(form, *passes.fused);
    for (const std::int64_t layer : {0, 1}) {
      const at::Tensor exact = exact_weights(*passes.exact, layer);
      for (std::int64_t head = 0; head < exact.size(0); ++head) {
        protocol::MapRequest options;
        options.head = {"L" + std::to_string(layer) + "H" + std::to_string(head)};
        options.size = {kTokens, kTokens};
        const MapOutput out = analyse_map(*passes.fused, options);
        const auto cells = out.tensors[0].values<float>();
        const auto wanted = to_vector<double>(exact[head]);
        ASSERT_EQ(cells.size(), wanted.size());
        for (std::size_t n = 0; n < cells.size(); ++n) {
          const std::size_t query = n / kTokens, key = n % kTokens;
          if (key > query) {
            EXPECT_EQ(cells[n], -std::numeric_limits<float>::infinity()) << query << ' ' << key;
          } else {
            EXPECT_NEAR(cells[n], wanted[n], kRounding)
                << options.head[0] << ' ' << query << ' ' << key;
          }
        }
      }
    }
  }
}

// Statistics of a head from its map (H, N, N).
struct Statistics {
  double entropy = 0, first = 0, previous = 0, largest = 0, window = 0, lengths = 0, sum = 0;
};

Statistics statistics_of(const at::Tensor& map) {
  Statistics s;
  const auto weights = to_vector<double>(map);
  for (std::int64_t q = 0; q < kTokens; ++q) {
    double top = 0;
    for (std::int64_t k = 0; k <= q; ++k) {
      const double w = weights[static_cast<std::size_t>(q * kTokens + k)];
      if (q > 0) s.entropy -= w * std::log(w) / (kTokens - 1);
      top = std::max(top, w);
      s.lengths += w * static_cast<double>(q - k);
      s.sum += w;
      if (k > q - 16) s.window += w / kTokens;
      if (k == 0) s.first += w / kTokens;
      if (k == q - 1) s.previous += w / (kTokens - 1);
    }
    s.largest += top / kTokens;
  }
  return s;
}

TEST(AttentionForms, AreInTheStatisticsOfHeads) {
  const at::NoGradGuard no_gradients;
  for (const Form& form : forms_of_attention()) {
    SCOPED_TRACE(form.name);
    const Passes passes = passes_of(form);
    protocol::NoProgress silent;
    const auto out = analyse_heads({passes.fused}, {}, silent);
    ASSERT_EQ(out.result.rows.size(), 4u);
    for (const protocol::HeadRow& row : out.result.rows) {
      const Statistics s = statistics_of(exact_weights(*passes.exact, row.layer)[row.head]);
      const auto expect = [&](const char* key, double wanted) {
        // Weights as above, times logarithms of at most some units, or distances.
        EXPECT_NEAR(row.values.at(key).mean, wanted, 4 * kRounding * (1 + std::abs(wanted)))
            << key << " L" << row.layer << 'H' << row.head;
      };
      expect("sink", s.first);
      expect("previous_token", s.previous);
      expect("top1_mass", s.largest);
      expect("window_mass_16", s.window);
      expect("mean_distance", s.lengths / s.sum);
      if (form.sinks) {
        expect("learned_sink", 1 - s.sum / kTokens);
      } else {
        expect("entropy", s.entropy);
      }
    }
  }
}

}  // namespace
}  // namespace phasescope::analysis
