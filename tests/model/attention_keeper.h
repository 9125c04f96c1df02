#pragma once

#include <memory>
#include <vector>

#include "model/decoder.h"

namespace phasescope::model {

// Keeps every layer's attention of a forward pass.
class AttentionKeeper : public Observer {
 public:
  bool wants_attention(std::int64_t) override { return true; }
  void on_attention(const std::shared_ptr<const LayerAttention>& attention) override {
    layers.push_back(attention);
  }
  std::vector<std::shared_ptr<const LayerAttention>> layers;
};

}  // namespace phasescope::model
