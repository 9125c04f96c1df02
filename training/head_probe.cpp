#include "training/head_probe.h"

#include <ATen/core/grad_mode.h>

#include <limits>
#include <memory>

#include "analysis/heads.h"
#include "analysis/metrics/registry.h"
#include "analysis/text_pass.h"
#include "model/checkpoints/open_model.h"
#include "protocol/progress.h"

namespace phasescope::training {

void check_probe(const EvalSection& eval) { analysis::select_metrics(eval.probe_metrics); }

HeadValues head_values(const model::Decoder& decoder, const std::vector<std::int64_t>& ids,
                       const EvalSection& eval, const model::ForwardOptions& options) {
  const at::NoGradGuard no_gradients;
  const auto model = std::make_shared<const model::Model>(
      model::Model{{}, nullptr, {decoder.config(), decoder.shared_encoding(), decoder.weights()}});
  analysis::HeadsOptions heads;
  heads.metrics = eval.probe_metrics;
  protocol::NoProgress undisturbed;
  const auto pass = std::make_shared<analysis::TextPass>(model, analysis::ids_tensor(ids), options);
  HeadValues values;
  for (const protocol::HeadRow& row :
       analysis::analyse_heads({pass}, heads, undisturbed).result.rows) {
    const auto layer = static_cast<std::size_t>(row.layer),
               head = static_cast<std::size_t>(row.head);
    for (const auto& [metric, value] : row.values) {
      auto& layers = values[metric];
      if (layers.size() <= layer) layers.resize(layer + 1);
      // A head without a map has no number.
      auto& of_layer = layers[layer];
      if (of_layer.size() <= head) {
        of_layer.resize(head + 1, std::numeric_limits<double>::quiet_NaN());
      }
      of_layer[head] = value.mean;
    }
  }
  return values;
}

}  // namespace phasescope::training
