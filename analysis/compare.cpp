#include "analysis/compare.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/divergence.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

void require_same_sides(const model::Model& a, const model::Model& b) {
  const bool causal = a.config().attention.causal;
  if (causal == b.config().attention.causal) return;
  const std::string& one = (causal ? a : b).report.name;
  const std::string& other = (causal ? b : a).report.name;
  throw formats::bad_input("the rows of a causal model, " + one +
                               ", and of one that sees both ways, " + other +
                               ", are over different keys, so they cannot be compared",
                           "models", "compare two models of one kind");
}

// What is left out of the comparison; empty for nothing.
std::string left_out(const model::Model& a, const model::Model& b) {
  std::string note;
  for (const model::Model* model : {&a, &b}) {
    if (model->config().encoder_layers > 0) {
      note += (note.empty() ? "" : "; ") + model->report.name +
              " is compared by its decoder's self-attention";
    }
  }
  const auto size = [](const model::Model& model) {
    return model.report.name + " has " + std::to_string(model.config().layers) + " layers of " +
           std::to_string(model.config().heads) + " heads";
  };
  if (a.config().layers != b.config().layers || a.config().heads != b.config().heads) {
    note += (note.empty() ? "" : "; ") + size(a) + " and " + size(b) +
            ": those that both have are compared";
  }
  return note;
}

// Summed over the texts of one model; NaN, and why, where it has none.
struct Loss {
  explicit Loss(const TextPass& first) : obstacle(first.loss_obstacle()) {}
  void add(TextPass& pass) {
    sum += obstacle.empty() ? pass.losses().sum().item<double>() : std::nan("");
  }
  std::string obstacle;
  double sum = 0;
};

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
  require_same_sides(a[0]->model(), b[0]->model());
  out.provenance.note = left_out(a[0]->model(), b[0]->model());
  at::Tensor divergence;
  double tokens = 0, predicted = 0;
  Loss loss_a(*a[0]), loss_b(*b[0]);
  for (std::size_t t = 0; t < a.size(); ++t) {
    progress.throw_if_cancelled();
    progress.progress(static_cast<double>(t) / static_cast<double>(a.size()), "comparing");
    const auto count = static_cast<double>(a[t]->tokens());
    const at::Tensor weighted = text_divergence(*a[t], *b[t]) * count;
    divergence = divergence.defined() ? divergence + weighted : weighted;
    tokens += count;
    predicted += count - 1;
    loss_a.add(*a[t]);
    loss_b.add(*b[t]);
  }
  out.loss = {{"a", loss_a.sum / predicted},
              {"b", loss_b.sum / predicted},
              {"difference", (loss_b.sum - loss_a.sum) / predicted}};
  for (const auto& [model, loss] : {std::pair{out.a, &loss_a}, {out.b, &loss_b}}) {
    if (loss->obstacle.empty()) continue;
    std::string& note = out.provenance.note;
    note +=
        (note.empty() ? "" : "; ") + model + " has no loss of the next token: " + loss->obstacle;
  }
  for (std::int64_t l = 0; l < divergence.size(0); ++l) {
    for (std::int64_t h = 0; h < divergence.size(1); ++h) {
      out.heads.push_back({l, h, divergence[l][h].item<double>() / tokens});
    }
  }
  return out;
}

}  // namespace phasescope::analysis
