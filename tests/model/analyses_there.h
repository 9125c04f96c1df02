#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "formats/error.h"
#include "golden.h"
#include "other_device.h"
#include "protocol/progress.h"

// Analyses of one model on the CPU and on the second device: the same answers, and what crosses
// while its layers run.

namespace phasescope::model {

// What crosses while layers of models on the second device run, whoever asks for it. A layer goes
// from the first operator that reads its weights to the first that reads those of another, or, in
// the last, to the last that reads its own. What a reader of the layer takes to the host is in it
// too.
class LayerWatch {
 public:
  explicit LayerWatch(const Model& model) {
    add(model);
    watch_phantom_reads([this](const void* memory) { read(memory); });
  }
  ~LayerWatch() { watch_phantom_reads({}); }
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  // Another model whose layers are watched.
  void add(const Model& model) {
    const Weights& weights = model.decoder.weights();
    for (const auto& [name, tensor] : named_tensors(model.config(), model.encoding(), weights)) {
      const std::string of_layers = "model.layers.";
      // Those of its encoding are read by who asks it for other scores, too, when it has run.
      if (name.starts_with(of_layers) && name.find(".encoding.") == name.npos) {
        places_[tensor.storage().data()] = std::stoll(name.substr(of_layers.size()));
      }
    }
    for (const at::Tensor& outside : {weights.embedding, weights.final_norm, weights.head}) {
      if (outside.defined()) places_[outside.storage().data()] = kOutside;
    }
  }

  void reset() { layers_ = to_device_ = reads_ = 0, layer_ = kOutside; }

  // How many have begun.
  std::int64_t layers() const { return layers_; }
  // Copies to the device and values asked for, of all layers together.
  std::int64_t to_device() const { return to_device_; }
  std::int64_t reads() const { return reads_; }

 private:
  static constexpr std::int64_t kOutside = -1;

  void read(const void* memory) {
    const auto place = places_.find(memory);
    if (place == places_.end()) return;
    const PhantomCounts now = phantom_counts();
    const std::int64_t layer = place->second;
    // From one layer to the next, and back where gradients are made.
    if (layer_ != kOutside && layer != kOutside && std::abs(layer - layer_) <= 1) {
      to_device_ += now.to_device - before_.to_device;
      reads_ += now.reads - before_.reads;
    }
    if (layer != layer_ && layer != kOutside) ++layers_;
    layer_ = layer, before_ = now;
  }

  std::map<const void*, std::int64_t> places_;  // layers by the memory of their weights
  std::int64_t layer_ = kOutside;
  PhantomCounts before_;
  std::int64_t layers_ = 0, to_device_ = 0, reads_ = 0;
};

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

// What an analysis gives of a model, or why it has no answer for it.
template <class Call>
std::string said(const Call& call, const std::shared_ptr<const Model>& model) {
  try {
    return words(call(model));
  } catch (const formats::Error& error) {
    return error.full_text();
  }
}

// What may cross within layers: copies to the device, and values that are asked for.
enum class Crosses { nothing, something };

class AnalysesThere : public testing::TestWithParam<Variant> {
 protected:
  AnalysesThere() { at::set_num_threads(1); }

  // The same answer of both; one that there is at all, of encodings that `call` takes for sure.
  // While a layer runs nothing goes to the device and no value is asked for, but for what
  // `crosses`.
  template <class Call>
  void expect_same(const Call& call, const std::set<std::string>& answered = {"rope", "alibi"},
                   Crosses crosses = Crosses::nothing) {
    expect_same(call, model_, device_, answered, crosses);
  }
  template <class Call>
  void expect_same(const Call& call, const std::shared_ptr<const Model>& model,
                   const std::shared_ptr<const Model>& device,
                   const std::set<std::string>& answered, Crosses crosses = Crosses::nothing) {
    const std::string real = said(call, model);
    watch_.reset();
    const std::string found = said(call, device);
    if (crosses == Crosses::nothing) {
      EXPECT_EQ(watch_.to_device(), 0) << "copies to the device within layers";
      EXPECT_EQ(watch_.reads(), 0) << "values asked for within layers";
    }
    if (real.starts_with('{')) {
      EXPECT_GE(watch_.layers(), model->config().layers) << "no pass was watched";
    }
    if (rounds_otherwise(GetParam()) && real.starts_with('{') && found.starts_with('{')) {
      expect_near(Json::parse(found), Json::parse(real), GetParam().name);
    } else {
      EXPECT_EQ(found, real);
    }
    if (answered.contains(GetParam().name)) {
      EXPECT_EQ(real.front(), '{') << real;
    }
  }

  const std::shared_ptr<const Model> model_ = tiny_model(GetParam(), at::kFloat);
  const std::shared_ptr<const Model> device_ = there(model_);
  LayerWatch watch_{*device_};
  mutable protocol::NoProgress progress_;
};

}  // namespace phasescope::model
