#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "golden_tape.h"

namespace phasescope::analysis::testing {

using Passes = std::vector<std::shared_ptr<TextPass>>;

// Random texts, the same for the same arguments, on their way through a model.
inline Passes passes_for(const ModelPointer& model, std::int64_t texts = 2,
                         std::int64_t length = 24,
                         std::int64_t keep_bytes = std::int64_t{1} << 30) {
  Passes passes;
  for (const Text& text : random_texts(texts, length, model->config().vocab_size, 5).items) {
    passes.push_back(std::make_shared<TextPass>(model, ids_tensor(text.ids),
                                                model::ForwardOptions{}, keep_bytes));
  }
  return passes;
}

// So many texts, each of its own eight ids over and over.
inline Texts period_of_eight(std::int64_t count, std::int64_t tokens) {
  Texts texts;
  for (std::int64_t t = 0; t < count; ++t) {
    Text text{"period " + std::to_string(t), "", {}, {}};
    for (std::int64_t n = 0; n < tokens; ++n) text.ids.push_back(10 + t + (n % 8) * 23);
    texts.items.push_back(std::move(text));
  }
  texts.corpus = count > 1;
  return texts;
}

// (H, N, N) of one layer.
inline at::Tensor weights_of(TextPass& pass, std::int64_t layer) {
  const AttentionPointer attention = pass.layer(layer);
  return attention->weights(attention->whole())[0];
}

}  // namespace phasescope::analysis::testing
