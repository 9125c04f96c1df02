#pragma once
// A layer's content scores as if they were its scores, so that every probe and map can read them.
#include "model/attention/layer_attention.h"

namespace phasescope::analysis {

// Whether the content score is the score: nothing rotates, adds or multiplies.
bool content_is_score(const model::AttentionProgram& program);

// The same layer with q.k before any transform, times the scale (TAPA: qA.kA / sqrt(t d)), as its
// scores. Weights, log-sum-exp and entropy of the result mean nothing.
model::LayerAttention content_attention(const model::LayerAttention& attention);

}  // namespace phasescope::analysis
