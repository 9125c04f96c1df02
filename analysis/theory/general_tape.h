#pragma once
// TAPE's layers in the general tensor form (TAPE, arXiv 2501.00712, Section 3.2, Equations 6 to 8):
// the state of a token, head and plane is a matrix e (L, R), L = 2, and a score is the sum over
// planes of q^T e_i e_j^T k / sqrt(d). It starts as e = [[cos, sin], [-sin, cos]] (the transpose of
// Equation 2, with which Equation 6 is RoPE), so that z = e[0][0] + i e[0][1] is the model's state.
// Whatever acts on e from the right, rotations and reflections alike, can be tried on it.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/theory/check.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::analysis {

// What W1 and W2 mix: heads (the model); heads and the R columns ("w/o EQ"); heads and planes
// (Equation 8 read literally).
enum class GeneralUpdate { heads, heads_and_columns, heads_and_planes };

struct GeneralLayer {
  at::Tensor attention_norm, mlp_norm;  // (C)
  at::Tensor q, k, v, o;                // (H d, C), (H d, C), (H d, C), (C, H d)
  at::Tensor gate, up, down;            // (F, C), (F, C), (C, F)
  at::Tensor post_linear;               // (H, H)
  at::Tensor w1, w2, wx;                // (I, mixed), (mixed, I), (I, C)
};
struct GeneralTape {
  std::vector<GeneralLayer> layers;
  std::int64_t heads = 0, planes = 0;
  bool half_layout = false;  // channels (m, m + d/2) of a plane; otherwise (2m, 2m + 1)
  bool rowsum = false;       // the post-attention linear multiplies each head by its row's sum
  bool softmax_per_plane = false;  // Equation 7 as printed
  double norm_eps = 1e-6;
  double plane_scale = 0;  // of a plane's scores in the maps of planes; 0: as the shared ones
  GeneralUpdate update = GeneralUpdate::heads;
};
struct GeneralState {
  at::Tensor x;  // (N, C)
  at::Tensor e;  // (N, H, M, L, R)
};
struct GeneralInput : GeneralState {
  at::Tensor mask;  // (N, N) bool
};
struct GeneralLayerRun {
  GeneralState after;
  at::Tensor plane_scores;  // (H, M, N, N), before the mask
  at::Tensor attention;     // (H, N, N), of the summed scores
  at::Tensor plane_maps;    // (H, M, N, N), a softmax a plane
  at::Tensor averaged;      // (N, H, M, L, R), what the maps in force make of e
};

GeneralLayerRun run_layer(const GeneralTape& tape, std::size_t layer, const GeneralState& state,
                          const at::Tensor& mask);
// All layers; `runs` gathers them where it is given.
GeneralState run_general(const GeneralTape& tape, const GeneralInput& input,
                         std::vector<GeneralLayerRun>* runs = nullptr);

// [[Re, Im], [-Im, Re]] of the decoder's state (H or 1, N, 2, M), (N, H, M, 2, 2).
at::Tensor tensors_of_state(const at::Tensor& z, std::int64_t heads);

// Why a model has no general form here, as a sentence; empty where it has.
std::string general_form_missing(const model::Model& model);
GeneralTape general_tape(const model::Model& model);
// The embedding and first state of ids (1, N) in the model's dtype, causal.
GeneralInput general_input(const model::Model& model, const at::Tensor& ids);
// Largest relative difference of the last hidden states (before the final norm) from the model's.
double general_difference(const model::Model& model, const at::Tensor& ids);

}  // namespace phasescope::analysis
