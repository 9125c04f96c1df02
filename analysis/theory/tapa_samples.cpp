#include "analysis/theory/tapa_samples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/pair_samples.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

constexpr int kTapaSamplesDistances = 10;

// One head of one layer at the drawn pairs.
void read_head(const DrawnPairs& drawn, const model::LayerAttention& attention, TapaHead& out) {
  const model::AttentionProgram& program = attention.program();
  const model::TapaProgram& tapa = *program.as<model::TapaProgram>();
  const std::int64_t group = attention.heads() / attention.kv_heads();
  const at::Tensor q = model::on_host(program.q[0][out.head]).index_select(0, drawn.queries());
  const at::Tensor k = model::on_host(program.k[0][out.head / group]).index_select(0, drawn.keys());
  const std::int64_t rest = q.size(1) - tapa.content_dim;
  const at::Tensor qp = q.narrow(1, tapa.content_dim, rest),
                   kp = k.narrow(1, tapa.content_dim, rest);
  const at::Tensor phase =
      (tapa.linear_phase ? qp.sum(1) + kp.sum(1) : (qp * kp).sum(1)) * tapa.scale_phase;
  const at::Tensor angle =
      model::on_host(tapa.power).index_select(0, drawn.queries() - drawn.keys()) * phase;
  const at::Tensor amplitude =
      tapa.scale_content *
      (q.narrow(1, 0, tapa.content_dim) * k.narrow(1, 0, tapa.content_dim)).sum(1);
  const at::Tensor score = attention.pair_scores(drawn.pairs.of_head(out.head)).score;
  for (std::size_t d = 0; d < out.pairs.size(); ++d) {
    const auto from = static_cast<std::int64_t>(d) * drawn.a_distance;
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, from, drawn.a_distance); };
    append(out.pairs[d].amplitude, part(amplitude));
    append(out.pairs[d].angle, part(angle));
    append(out.pairs[d].score, part(score));
    out.pairs[d].text.insert(out.pairs[d].text.end(), static_cast<std::size_t>(drawn.a_distance),
                             drawn.text);
  }
}

TapaSamples read_samples(const CheckContext& context, std::int64_t pairs) {
  TapaSamples out;
  const CheckResult no_phases = not_measured(
      Verdict::premise_not_met,
      "premise: scores of an amplitude times the cosine of a phase; this model has none");
  if (context.model->config().encoding.key != "tapa") {
    out.refused = no_phases;
    return out;
  }
  const std::vector<std::int64_t> distances =
      reached_distances(*context.texts, kTapaSamplesDistances, true);
  if (distances.empty()) {
    out.refused = not_measured(Verdict::undecided,
                               "needs at least " + std::to_string(kFewestClusters) +
                                   " texts of 4 tokens or more for errors clustered by text");
    return out;
  }
  std::map<LayerHead, TapaHead> heads;
  visit_pairs(context, in_float64(context.model), distances, pairs,
              [&](const DrawnPairs& drawn, const model::LayerAttention& attention) {
                const auto* tapa = attention.program().as<model::TapaProgram>();
                if (tapa == nullptr) return;  // a layer with another encoding
                out.phase_channels = attention.q().size(3) - tapa->content_dim;
                out.linear_phase = tapa->linear_phase;
                for (std::int64_t head = 0; head < attention.heads(); ++head) {
                  TapaHead& one = heads[{attention.layer(), head}];
                  one.layer = attention.layer(), one.head = head;
                  for (std::size_t d = one.pairs.size(); d < distances.size(); ++d) {
                    one.pairs.emplace_back().distance = static_cast<double>(distances[d]);
                  }
                  read_head(drawn, attention, one);
                }
              });
  for (auto& [of, one] : heads) out.heads.push_back(std::move(one));
  if (out.heads.empty()) out.refused = no_phases;
  return out;
}

}  // namespace

std::shared_ptr<const TapaSamples> tapa_samples(const CheckContext& context, std::int64_t pairs) {
  if (context.samples == nullptr) {
    return std::make_shared<const TapaSamples>(read_samples(context, pairs));
  }
  std::shared_ptr<const TapaSamples>& kept = context.samples->tapa[pairs];
  if (kept == nullptr) kept = std::make_shared<const TapaSamples>(read_samples(context, pairs));
  return kept;
}

}  // namespace phasescope::analysis
