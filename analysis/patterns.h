#pragma once
// What a positional encoding does, seen without its model: PE dot products and drift of the state,
// frequencies, bias curves.
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/messages/patterns.h"
#include "protocol/progress.h"
#include "protocol/reply.h"

namespace phasescope::analysis {

struct PatternsOptions {
  std::int64_t positions = 128;  // sampled for the pictures, evenly
  // States 0..n, or bias curves of layers 0..n-1; all where empty.
  std::optional<std::vector<std::int64_t>> layers;
  std::optional<std::int64_t> query;  // of the curves that are measured; the last token else
  // How many distances from 0 on the curves of tables have; without it, as many as there are keys.
  std::optional<std::int64_t> distances;
  // Whose rows are shown of the first `texts` texts that reach them, and over all of whose texts
  // the bias varies; the query above where empty, of encodings that correct a bias.
  std::vector<std::int64_t> queries;
  std::int64_t texts = 2;
  std::uint64_t seed = 0;
};

struct PatternsOutput {
  protocol::PatternsResult result;
  // pe_dot.L (S, S), pe_dot_heads.L (H, S, S), surface.L (H, A, B)
  std::vector<protocol::TensorRef> tensors;
  // Whether curves or rows are of all texts that reach a query; states are of the first one.
  bool of_all_texts = false;
};

// State 0 is the initial one, n the one after n layers; an encoding whose state never changes
// (rope) has state 0 alone. Where layers have encodings of their own, each has its states where it
// is read, and its drift is from its own first one. Where positions are added to the embedding
// (learned tables, sinusoids) state 0 is what is added, of every position of the model's table or
// context: G = P P^T. Bias curves: the encoding's own table where it has one; for a corrected bias
// (cape) the positional term of one query's row, averaged over the texts that reach it, beside its
// base. Throws Error "bad_usage" for layers, positions, a query and distances that are not there.
PatternsOutput analyse_patterns(const std::vector<std::shared_ptr<TextPass>>& passes,
                                const PatternsOptions& options, protocol::Progress& progress);

// Puts another model's states beside those of `out`: against, against_layers and the tensors
// against.pe_dot.L. Throws Error "not_applicable" unless both have products at the same positions.
void add_against(PatternsOutput& out, PatternsOutput other);

// G_ij = sum_m Re(z_i conj z_j) (TAPE, arXiv 2501.00712, Figures 7 and 8) of the chosen rows of a
// state z (B or 1, H or 1, N, 2, d/2), batch entry 0: (H or 1, S, S).
at::Tensor position_products(const at::Tensor& z, const at::Tensor& rows);

}  // namespace phasescope::analysis
