#pragma once

#include "model/families/family.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {

// Gemma: a Llama with norms of 1 + w and scaled embeddings.
Family gemma_family();

// What all Gemmas share.
void read_gemma(FamilyReader& reading, const LlamaDefaults& defaults);
// What Gemma 2 and 3 share: scale, caps, norms on both sides of a branch.
void read_gemma2(FamilyReader& reading, double score_cap, double logit_cap);
TensorPlace gemma2_place(const std::string& name);
// The ropes of Gemma 3 and 3n: of rope_parameters by layer type, or rope_theta and
// rope_local_base_freq, to the latter of which no scaling applies.
void read_gemma3_ropes(FamilyReader& reading);

// Classes of Gemma with layers that read a table of their own and share keys and values, where a
// file says nothing.
struct GemmaNDefaults {
  LlamaDefaults sizes;
  double logit_cap = 0;            // 0: none
  std::int64_t shared_layers = 0;  // the last ones, which take the keys and values of earlier ones
};
// What Gemma 3n and 4 share: plain norms, no score scale, values with a norm, the layers' own
// inputs, shared keys and values.
void read_gemma_n(FamilyReader& reading, const GemmaNDefaults& defaults);
TensorPlace gemma_n_place(const ModelConfig& config, const std::string& name);

}  // namespace phasescope::model
