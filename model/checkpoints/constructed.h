#pragma once
// Models whose heads are known exactly: built in memory, opened by their names as bundled ones are.
//
// All read bytes (vocabulary V = 256, token 0 is [BOS]), all but the circuit with two heads of V
// channels each. Token t
// has 1 in channel t and 1 in channel C - 8 of C = blocks V + 8; norms have weights 1, MLPs and
// what a model does not use are 0. A residual row of squared length r leaves RMSNorm times 1 /
// sqrt(r / C + eps), which the projections take back for the rows that the names speak of. Weights
// are float32, so that closed forms hold to 1e-6.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoints/open_model.h"

namespace phasescope::model {

struct Constructed {
  ModelConfig config;
  Weights weights;  // float32
};

// q and k are 0: weight 1 / (i + 1) everywhere.
Constructed uniform_heads();
// Head 0 of what follows; head 1 is uniform. Score `score` on token 0, 0 elsewhere.
Constructed sink_head(double score);
// Score `score` at distance `delta` < 16, 0 elsewhere: a t5 table.
Constructed distance_head(std::int64_t delta, double score);
// Score `score` at distance `delta` and less elsewhere, a sum of planes, score mean_m cos((lambda -
// delta) theta_m): RoPE.
Constructed rotated_head(std::int64_t delta, double score);
// Score `score` where the key's token is the query's.
Constructed duplicate_head(double score);
// Layer 0, head 0: `first` at distance 1, copies the token to block 2. Layer 1, head 1: block 1 of
// the query against block 2 of the key with `second`, copies the key's token to block 3, which the
// logits read.
Constructed induction_heads(double first, double second);
// Score `score` at distance 7; the token found is copied to block 2, which the logits read times
// `gain`: on texts of period 8 it is the next one.
Constructed copying_head(double score, double gain);
// copying_head() trained for 113 tokens, and a head 1 that reads what lies farther away, with
// `score`, and writes its successors three times as strong: it fails past 113 tokens.
Constructed failing_head(double score, double gain);

// Four layers of one head and 16 channels (arXiv 2501.00712, Theorem 4.1 and Appendix B.1,
// corrected): the bytes "0".."9" are the transpositions of five things, other bytes leave them as
// they are, and behind [BOS] the next token is "1" where all so far are the identity, else "0". The
// logit of layer 3 is +0.5 on [BOS] for the identity and at most -0.5 otherwise.
Constructed permutation_circuit();

// A model that opens by its name.
struct ConstructedEntry {
  std::string name, title;
  std::function<Constructed()> make;
};
const std::vector<ConstructedEntry>& constructed_models();
// Null where there is none of that name.
const ConstructedEntry* find_constructed(const std::string& name);

// A constructed model as open_model() gives it; its hash is of its tensors in the file's order.
std::shared_ptr<const Model> opened(const Constructed& made, const std::string& name,
                                    at::ScalarType dtype);

}  // namespace phasescope::model
