#pragma once

#include <memory>
#include <vector>

#include "model/decoder.h"

namespace phasescope::model {

// Keeps every layer's attention of a forward pass.
class AttentionKeeper : public Observer {
 public:
  bool wants_attention(std::int64_t) override { return true; }
  const ProbeRequest* wants_probes(std::int64_t) override { return probes; }
  void on_attention(const std::shared_ptr<const LayerAttention>& attention) override {
    layers.push_back(attention);
  }
  std::vector<std::shared_ptr<const LayerAttention>> layers;
  const ProbeRequest* probes = nullptr;  // measured on the way
};

}  // namespace phasescope::model
