#pragma once
// Figures of what is changed in a model, and of heads and models beside each other.
#include <string>
#include <vector>

#include "app/figures/figures.h"
#include "protocol/messages/ablate.h"

namespace phasescope::app {

// What the loss rises by: layers down and heads across where every change is one of a head, a point
// each change elsewhere; by position, of the changes that matter most; how far the maps move, a
// figure a change.
std::vector<widgets::PlotSpec> ablate_figures(const protocol::AblateResult& result,
                                              const ModelNames& names);

// What b loses beside a, by position, paired row by row; nothing is drawn where there is no loss.
widgets::PlotSpec loss_change_figure(const protocol::CompareResult& result,
                                     const ModelNames& names);

// Tensor `js_divergence` of a heads result, (L H, L H): every two heads of a model.
widgets::PlotSpec heads_divergence_figure(const protocol::HeadsResult& result, const Grid& matrix,
                                          const ModelNames& names);

// Heads of each layer of the two models that are compared: the matched heads do not tell them where
// one model has more heads than the other, some of which have no partner.
struct HeadsALayer {
  std::int64_t a = 1, b = 1;
};

// Tensor `js_between` of a comparison, (La Ha, Lb Hb), with the matched heads marked.
widgets::PlotSpec matched_heads_figure(const protocol::CompareResult& result, const Grid& matrix,
                                       HeadsALayer heads, const ModelNames& names);

}  // namespace phasescope::app
