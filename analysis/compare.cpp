#include "analysis/compare.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/divergence.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

// Divergence of every common head on one text, (L, H).
at::Tensor text_divergence(TextPass& a, TextPass& b) {
  if (a.tokens() != b.tokens()) {
    throw formats::bad_input("the models read different numbers of tokens, " +
                                 std::to_string(a.tokens()) + " and " + std::to_string(b.tokens()),
                             "length", "give a length that both read");
  }
  std::vector<AttentionPointer> layers;
  a.visit_layers([&layers](const AttentionPointer& attention) { layers.push_back(attention); });
  std::vector<at::Tensor> rows;
  b.visit_layers([&](const AttentionPointer& attention) {
    const auto l = static_cast<std::size_t>(attention->layer());
    if (l < layers.size()) rows.push_back(divergence_of(*layers[l], *attention));
  });
  return at::stack(rows);
}

}  // namespace

protocol::CompareResult analyse_compare(const std::vector<std::shared_ptr<TextPass>>& a,
                                        const std::vector<std::shared_ptr<TextPass>>& b,
                                        protocol::Progress& progress) {
  protocol::CompareResult out;
  out.a = a[0]->model().report.name;
  out.b = b[0]->model().report.name;
  at::Tensor divergence;
  double tokens = 0, predicted = 0, loss_a = 0, loss_b = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(t) / static_cast<double>(a.size()), "comparing");
    const auto count = static_cast<double>(a[t]->tokens());
    const at::Tensor weighted = text_divergence(*a[t], *b[t]) * count;
    divergence = divergence.defined() ? divergence + weighted : weighted;
    tokens += count;
    predicted += count - 1;
    loss_a += a[t]->losses().sum().item<double>();
    loss_b += b[t]->losses().sum().item<double>();
  }
  out.loss = {{"a", loss_a / predicted},
              {"b", loss_b / predicted},
              {"difference", (loss_b - loss_a) / predicted}};
  for (std::int64_t l = 0; l < divergence.size(0); ++l) {
    for (std::int64_t h = 0; h < divergence.size(1); ++h) {
      out.heads.push_back({l, h, divergence[l][h].item<double>() / tokens});
    }
  }
  return out;
}

}  // namespace phasescope::analysis
