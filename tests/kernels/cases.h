#pragma once
// Random attention problems (kernels/problems/) with memory for their results.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/problems/problems.h"

namespace phasescope::kernels::testing {

using namespace problems;

/// The storages of q, k, v, out and their gradients, for tests to take in turn.
inline constexpr Storage kStorages[] = {Storage::float32, Storage::bfloat16, Storage::float16};
/// Rounds each value to what the storage can hold.
void round_to(Storage storage, std::span<float> values);

std::string problem_name(const Problem& problem);

/// The numbers of a float32 tensor of a problem, whose rows lie without gaps in some order.
template <typename Void>
std::span<float> numbers_of(const Tensor4<Void>& tensor, std::int64_t batch,
                            const TensorSize& size) {
  auto* data = static_cast<float*>(const_cast<void*>(static_cast<const void*>(tensor.data)));
  const std::int64_t count = data ? batch * size.heads * size.rows * size.channels : 0;
  return {data, static_cast<std::size_t>(count)};
}

/// What every implementation is held to.
inline constexpr std::int64_t kSizes[] = {1, 2, 17, 63, 64, 65, 81, 127, 128, 129};
inline constexpr std::int64_t kLongSize = 1000;
inline constexpr std::int64_t kDims[] = {8, 16, 32, 48, 64, 80, 96, 128};
inline constexpr std::int64_t kGroups[] = {1, 2, 7};
/// Every size with every dimension, each pair with one of the groups and causal or not: any two of
/// the four come together. The long size, most of whose time is the reference's, comes once, causal
/// for every other variant.
std::vector<Problem> paired_problems(Kind kind);

/// Sizes of the problems with masks that every implementation is held to, chosen for its tiles.
struct MaskSizes {
  AttentionShape window;  ///< causal and not, with each of `windows`
  std::vector<std::int64_t> windows;
  AttentionShape late;                ///< few queries at the end of many keys, with a window
  AttentionShape padding;             ///< three texts; the third is padding alone
  std::int64_t padding_window = 0;    ///< the same texts again with this window
  AttentionShape cap;                 ///< scores far below the cap, about it, and far above
  AttentionShape cap_and_masks;       ///< a cap with a window and padding
  AttentionShape documents;           ///< each kind of documents, causal and not
  std::int64_t documents_window = 0;  ///< the same texts again with this window and padding
};
/// Four of these lists are products: windows, paddings, kinds of documents and gates with what they
/// come together with (causal or not, a window or none, a shape). With `every` each has all of its
/// product; else every value of each factor comes, and which two of them come together goes by the
/// variant, so that neighbours in all_kinds() have the others. Variants differ in their scores, and
/// a mask knows nothing of these: what fails for a pair of masks alone fails for another variant.
std::vector<Problem> window_problems(Kind kind, const MaskSizes& sizes, bool every = false);
/// Any three values come together for one of four variants that follow each other.
std::vector<Problem> padding_problems(Kind kind, const MaskSizes& sizes, bool every = false);
std::vector<Problem> document_problems(Kind kind, const MaskSizes& sizes, bool every = false);
std::vector<Problem> soft_cap_problems(Kind kind, const MaskSizes& sizes);
/// Among them rows that see no key, and every storage of a mask.
std::vector<Problem> sink_problems(Kind kind, const MaskSizes& sizes);
/// Both kinds, rows that see no key among them, and beside sinks.
std::vector<Problem> gate_problems(Kind kind, const MaskSizes& sizes, bool every = false);
/// All of the four products.
std::vector<Problem> every_mask_problem(Kind kind, const MaskSizes& sizes);

/// Owns the arrays of one problem; results are contiguous. In a 16-bit storage the kernels are
/// given arrays of that; the float32 ones hold the same numbers and take the results back.
class Case : public RandomInputs {
 public:
  explicit Case(const Problem& problem);

  void forward();
  void backward();

  ForwardOutputs outputs;
  SavedForward saved;
  Gradients gradients;

  std::vector<float> out, out_state, lse;
  std::vector<float> ungated;  ///< empty where there is no gate
  std::vector<float> dq, dk, dv, d_state, d_table, d_w1, d_b1, d_w2, d_b2;
  std::vector<float> d_factor, d_slope, d_intercept;
  std::vector<float> d_sinks, d_query_bias, d_key_bias, d_query_factor, d_far_q, d_far_k, d_gate;
  std::vector<double> score_gradients;  ///< (B, heads, score_distances())
  std::int64_t score_distances() const;

 private:
  /// 16-bit numbers of one of the arrays above.
  struct Narrow {
    std::span<float> values;
    std::vector<std::uint16_t> bits;
    bool is_result;
  };

  void store_as(Storage storage);
  void write_narrow();
  void read_narrow();
  FireGradients make_fire_gradients(const FireVariant& fire);
  CapeGradients make_cape_gradients(const CapeVariant& cape);
  void make_gradients();
  void make_side_gradients();

  Storage storage_;
  std::vector<Narrow> narrow_;
};

}  // namespace phasescope::kernels::testing
