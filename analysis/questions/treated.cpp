#include "analysis/questions/treated.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numbers>

#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "formats/error.h"
#include "model/loss.h"

namespace phasescope::analysis {
namespace {

class TreatingHook final : public model::AttentionHook {
 public:
  explicit TreatingHook(const Treatment& treatment) : treatment_(treatment) {}
  void before(const model::LayerInput& input, model::AttentionProgram& program) override {
    treatment_(input, program);
  }

 private:
  const Treatment& treatment_;
};

}  // namespace

std::vector<double> losses_under(const model::Model& model, const std::vector<std::int64_t>& ids,
                                 model::AttentionHook* hook, const TreatedPass& pass) {
  const at::NoGradGuard no_gradients;
  model::ForwardOptions options;
  options.backend = pass.backend;
  options.kernels = pass.kernels;
  options.hook = hook;
  if (pass.progress != nullptr) {
    options.cancelled = [&pass] { return pass.progress->cancelled(); };
    options.progress = [&pass](double done) { pass.progress->progress(done, pass.doing); };
  }
  const at::Tensor losses =
      model::token_losses(model.decoder, ids_tensor(ids), options, pass.observer)[0];
  return to_vector<double>(losses.to(at::kDouble) / std::numbers::ln2);
}

std::vector<double> treated_losses(const model::Model& model, const std::vector<std::int64_t>& ids,
                                   const Treatment& treatment, const TreatedPass& pass) {
  TreatingHook hook(treatment);
  return losses_under(model, ids, treatment ? &hook : nullptr, pass);
}

bool turns_planes(const model::AttentionProgram& program) {
  return program.transformed &&
         (program.is<model::PlainProgram>() || program.is<model::TapeProgram>() ||
          program.is<model::TableProgram>() || program.is<model::ClampProgram>());
}

void require_other_distances(const model::Model& model) {
  for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
    const model::Encoding& encoding = model.decoder.encoding_of(layer);
    const std::string why = model::no_other_distance(model.config(), encoding);
    if (why.empty()) continue;
    throw formats::Error("not_applicable", "cannot show this model another distance: " + why);
  }
}

}  // namespace phasescope::analysis
