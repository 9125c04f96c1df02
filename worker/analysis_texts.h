// Models with their texts, and the passes over them, as handlers that measure read them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "worker/model_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {

using Passes = std::vector<std::shared_ptr<analysis::TextPass>>;

// One text comes from the cache, and its pass reports to `progress`; a corpus is read text by text
// and nothing of it is kept.
Passes passes_of(const ModelPointer& model, const analysis::Texts& texts,
                 const std::string& backend, protocol::Progress& progress);

// What ran attention in all of them.
std::vector<protocol::Ran> ran_of(const Passes& passes);

// A model of a request, with its texts.
struct ModelTexts {
  ModelPointer model;
  analysis::Texts texts;
};

// `opening` hears of the reading of its weights; where it is null, the context does, from 0 to 1.
template <class R>
ModelTexts open_with_texts(const R& request, const std::string& name, RequestContext& context,
                           DefaultInput fallback, protocol::Progress* opening = nullptr) {
  protocol::Progress& progress = opening != nullptr ? *opening : context;
  ModelTexts out{context.models().open(name, request.running, progress), {}};
  protocol::Corpus corpus;
  if constexpr (requires { request.reading.corpus; }) corpus = request.reading.corpus;
  out.texts = read_input(request.reading, corpus, context, *out.model, fallback);
  return out;
}

// Ids, and texts whose length was asked for, are read as they are.
bool text_may_be_cut(const protocol::Reading& reading);

}  // namespace phasescope::worker
