#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "encoding_variants.h"
#include "formats/error.h"

// What tests of analyses on other devices read alike.

namespace phasescope::model {

// Each encoding once, as it comes.
inline std::vector<Variant> encodings_alone() {
  std::vector<Variant> list;
  std::set<std::string> seen;
  for (const Variant& variant : variants()) {
    if (seen.insert(variant.encoding).second) list.push_back(variant);
  }
  return list;
}

inline std::vector<std::shared_ptr<analysis::TextPass>> passes_of(
    const std::shared_ptr<const Model>& model) {
  std::vector<std::shared_ptr<analysis::TextPass>> passes;
  for (const analysis::Text& text :
       analysis::random_texts(2, 24, model->config().vocab_size, 5).items) {
    passes.push_back(std::make_shared<analysis::TextPass>(model, analysis::ids_tensor(text.ids)));
  }
  return passes;
}

// What evals of so small a model are asked, of a training's corpus and of a task.
inline std::vector<Json> small_evals(const std::string& corpus) {
  return {{{"task", "perplexity"}, {"corpus", corpus}, {"lengths", {16, 32}}, {"trials", 2}},
          {{"task", "passkey"}, {"lengths", {64}}, {"trials", 2}}};
}

}  // namespace phasescope::model
