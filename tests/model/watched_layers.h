#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "model/checkpoints/open_model.h"

namespace phasescope::model {

// What crosses while layers of models on a device run, whoever asks for it. A layer goes
// from the first operator that reads its weights to the first that reads those of another, or, in
// the last, to the last that reads its own. What a reader of the layer takes to the host is in it
// too.
// `Side` is the device that counts it: counts(), memory_of() a tensor, and tell_reads(told), which
// is given the memory of each tensor before an operator reads it.
template <class Side>
class WatchedLayers {
 public:
  explicit WatchedLayers(const Model& model) {
    add(model);
    Side::tell_reads([this](const void* memory) { read(memory); });
  }
  ~WatchedLayers() { Side::tell_reads({}); }
  WatchedLayers(const WatchedLayers&) = delete;
  WatchedLayers& operator=(const WatchedLayers&) = delete;

  // Another model whose layers are watched.
  void add(const Model& model) {
    const Weights& weights = model.decoder.weights();
    for (const auto& [name, tensor] : named_tensors(model.config(), model.encoding(), weights)) {
      const std::string of_layers = "model.layers.";
      // Those of its encoding are read by who asks it for other scores, too, when it has run.
      if (name.starts_with(of_layers) && name.find(".encoding.") == name.npos) {
        places_[Side::memory_of(tensor)] = std::stoll(name.substr(of_layers.size()));
      }
    }
    for (const at::Tensor& outside : {weights.embedding, weights.final_norm, weights.head}) {
      if (outside.defined()) places_[Side::memory_of(outside)] = kOutside;
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
    const auto now = Side::counts();
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
  decltype(Side::counts()) before_ = Side::counts();
  std::int64_t layers_ = 0, to_device_ = 0, reads_ = 0;
};

}  // namespace phasescope::model
