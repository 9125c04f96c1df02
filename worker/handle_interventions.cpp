#include "worker/handle_interventions.h"

#include "analysis/ablate.h"
#include "protocol/messages/ablate.h"
#include "worker/model_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using protocol::Reply;

// The model as it is named, without the settings that are the change.
std::shared_ptr<const model::Model> model_before(const protocol::AblateRequest& request,
                                                 RequestContext& context) {
  protocol::Opening opening = request.running;
  opening.set = {};
  return context.models().open(request.model, opening, context);
}

// A reading knows its seed and no text, so that it is the same in every verb.
constexpr const char* kDrawnOnce =
    "resample: the row that stands in place of each row is drawn once, by seed, layer, head and "
    "row, and is the same in every text; intervals over texts leave out how much other draws would "
    "differ, which another seed shows";

Reply ablate(const protocol::AblateRequest& request, RequestContext& context) {
  const auto model = model_before(request, context);
  analysis::Texts texts = question_texts(request.reading, context, *model);
  if (request.how == "resample") texts.add_note(kDrawnOnce);
  analysis::AblateOptions options;
  options.backend = model::backend_named(request.running.backend);
  options.heads = request.head;
  options.how = request.how, options.limit = request.limit;
  options.by = request.by, options.maps = request.maps;
  options.set = reading_of("model", request.running.set).settings;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  analysis::AblateOutput out = analysis::analyse_ablate(model, texts, options, context);
  out.result.texts = names_of(texts);
  out.result.provenance =
      provenance_of(asked(request), context, {model}, &texts, out.result.provenance.ran);
  return reply_of(out.result, std::move(out.tensors));
}

}  // namespace

std::vector<Handler> interventions_handlers() {
  return {method("what a model loses without its heads, or read otherwise", ablate)};
}

}  // namespace phasescope::worker
