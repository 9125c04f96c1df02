#include "worker/analysis_texts.h"

#include "analysis/tensors.h"
#include "worker/pass_cache.h"

namespace phasescope::worker {

Passes passes_of(const ModelPointer& model, const analysis::Texts& texts,
                 const std::string& backend, protocol::Progress& progress) {
  Passes passes;
  if (texts.items.size() == 1) {
    passes.push_back(
        pass_cache().get(model, texts.items[0], model::backend_named(backend), progress));
    return passes;
  }
  model::ForwardOptions options;
  options.backend = model::backend_named(backend);
  for (const analysis::Text& text : texts.items) {
    passes.push_back(std::make_shared<analysis::TextPass>(
        model, analysis::ids_tensor(text.ids), analysis::with_inputs_of(text, options), 0));
  }
  return passes;
}

std::vector<protocol::Ran> ran_of(const Passes& passes) {
  protocol::AllRan all;
  for (const auto& pass : passes) all.insert(pass->kernels().begin(), pass->kernels().end());
  return protocol::listed(all);
}

bool text_may_be_cut(const protocol::Reading& reading) {
  const bool ids = !reading.input.ids.is_null() || reading.input.inputs || reading.input.sample;
  return !ids && reading.length == 0;
}

}  // namespace phasescope::worker
