#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "model/positions.h"

// What attention runs, as an encoding says it: the ways to a score, and a layer's program.

namespace phasescope::model {

// In which numbers a program's tensor is kept.
enum class Numbers {
  tokens,   // the model's dtype, one row a token, which kernels read as it is
  weights,  // the model's dtype; kernels read float32
  table,    // the table_dtype() of the model's; kernels read float32
  sums,     // float64, running sums over a text, of which differences count; kernels read it so
};
// Caches, gains, factors of biases and temperatures go by the last three.
struct TensorInfo {
  const char* name;
  Numbers numbers = Numbers::table;
  bool differentiable = true;
  int query_dim = -1;  // the dimension that has an entry for each query; -1: none has
  int head_dim = -1;   // for each head, of what adds and of what is multiplied by head
  bool adds = false;   // what is added to q.k is in proportion to it
};

// Each of the structs below is one way to a score. It has a name and lists its tensors once:
// tensors(self, each) calls each(TensorInfo, tensor) for all of them, undefined ones too. Casts,
// copies to a device, autograd and gradients go by that list, as does what readings and caches make
// of programs.

// The score is scale * q.k.
struct PlainProgram {
  static constexpr const char* kName = "plain";
  template <class Self, class Each>
  static void tensors(Self&, const Each&) {}
};
// scale * q.k + values[h][lambda - first_distance]; values (H, L). With first_distance 0 a negative
// distance reads its absolute value. Every distance in use must be there. With `multiplies` the
// score is scale * q.k * values[...] in place of the sum.
struct TableProgram {
  at::Tensor values;
  std::int64_t first_distance = 0;  // <= 0
  bool multiplies = false;

  static constexpr const char* kName = "table";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{.name = "values", .head_dim = 0, .adds = !self.multiplies}, self.values);
  }
};
// scale * q.k + values[b][h][i][lambda] for 0 <= lambda < L, scale * q.k elsewhere: values (B or 1,
// H, N, L), a row for each query.
struct QueryTableProgram {
  at::Tensor values;

  static constexpr const char* kName = "query table";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{.name = "values", .query_dim = 2, .head_dim = 1, .adds = true}, self.values);
  }
};
// scale * q.k + r_i . keys[h][:][lambda - first_distance]: a vector of each query, r (B or 1, H, N,
// rank), times a table of vectors by distance, keys (H or 1, rank, L). Distances outside the table
// add nothing or, with `clips`, what the nearest of its does.
struct RelativeKeysProgram {
  at::Tensor r, keys;
  std::int64_t first_distance = 0;
  bool clips = false;

  static constexpr const char* kName = "relative keys";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(
        TensorInfo{
            .name = "r", .numbers = Numbers::tokens, .query_dim = 2, .head_dim = 1, .adds = true},
        self.r);
    each(TensorInfo{"relative_keys"}, self.keys);
  }
};
// scale * q.k for lambda <= limits[h], scale * far q.k beyond: keys farther away than a limit are
// read as if they stood at it. q (B, H, N, d) turned by each head's limit, k (B, kv heads, N, d) by
// nothing.
struct ClampProgram {
  at::Tensor q, k;
  std::vector<std::int64_t> limits;  // (H), >= 0; one that no distance reaches: none

  static constexpr const char* kName = "clamp";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{.name = "far_q", .numbers = Numbers::tokens, .query_dim = 2, .head_dim = 1},
         self.q);
    each(TensorInfo{"far_k", Numbers::tokens}, self.k);
  }
};
// TAPA: scale_content * qA.kA * cos(power[|lambda|] * phase); see kernels/attention.h.
struct TapaProgram {
  std::int64_t content_dim = 0;
  double scale_content = 1;
  double scale_phase = 1;
  bool linear_phase = false;
  at::Tensor power;  // (L), |lambda|^alpha with any 2 pi in it

  static constexpr const char* kName = "tapa";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"power", Numbers::table, false}, self.power);
  }
};
// scale * q.k, and a second value stream: the state (B or 1, H or 1, N, d), [cosine | sine].
struct TapeProgram {
  at::Tensor state;

  static constexpr const char* kName = "tape";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"state", Numbers::tokens}, self.state);
  }
};

// All distances of a region's pairs lie within.
struct DistanceRange {
  std::int64_t least = 0, greatest = 0;
};

// A region of the scores, as a term is asked for it: content (B, heads, rows, columns), scale * q.k
// of q and k as transformed, with the index of its first head, row and column; the position ids of
// its queries (B or 1, rows, 1) and keys (B or 1, 1, columns), int64. The content's dtype is a
// table_dtype(), and terms compute in it.
struct TermRegion {
  at::Tensor content;
  at::Tensor query_id, key_id;
  std::int64_t first_head = 0, first_row = 0, first_column = 0;
  // Ends of query_id - key_id where they are known without reading the ids.
  std::optional<DistanceRange> distances = {};

  // `distances`, read of the ids where they are not known.
  DistanceRange distance_range() const;
};
// What no other struct can say, by plain tensor ops alone: the score of a region, of its content's
// shape and before any mask. It may outlive the encoding, so it holds what it needs.
struct TermProgram {
  std::function<at::Tensor(const TermRegion&)> score;
  bool reads_rows = false;  // is asked for all heads and all keys of its rows, whatever is wanted
  std::int64_t arrays = 0;  // of (B, rows, columns) that it makes, beside the scores
  const char* no_table = "a term that is no table of distances";  // what has no fused form

  static constexpr const char* kName = "term";
  template <class Self, class Each>
  static void tensors(Self&, const Each&) {}
};
// FIRE past its threshold: `term` is its definition, and the tensors say the same to the fused
// kernel, all float32. scale * q.k + slope[h][n] u + intercept[h][n], u = distance[lambda]
// factor[i], n the number of knots below u; see kernels/attention.h.
struct FireProgram {
  at::Tensor distance;          // (N)
  at::Tensor factor;            // (N)
  at::Tensor knots;             // (S - 1), ascending; no gradient
  at::Tensor slope, intercept;  // (H, S)
  TermProgram term;

  static constexpr const char* kName = "fire";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"distance"}, self.distance);
    each(TensorInfo{.name = "factor", .query_dim = 0}, self.factor);
    each(TensorInfo{"knots", Numbers::table, false}, self.knots);
    each(TensorInfo{.name = "slope", .head_dim = 0, .adds = true}, self.slope);
    each(TensorInfo{.name = "intercept", .head_dim = 0, .adds = true}, self.intercept);
  }
};
// The correction of all heads of a pair; forms and shapes as in kernels/attention.h.
struct CapeProgram {
  enum class Form { concat_residual, concat, add_residual, content };
  Form form = Form::concat_residual;
  // (H, L) base bias by distance; undefined for `content`, and where `fire` is the base.
  at::Tensor values;
  at::Tensor w1, b1, w2, b2;  // (D, in), (D), (H, D), (H)
  // The base past fire's threshold; its `term` defines the corrected score then.
  std::optional<FireProgram> fire = {};

  static constexpr const char* kName = "cape";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"values"}, self.values);
    each(TensorInfo{"w1", Numbers::weights}, self.w1);
    each(TensorInfo{"b1", Numbers::weights}, self.b1);
    each(TensorInfo{"w2", Numbers::weights}, self.w2);
    each(TensorInfo{"b2", Numbers::weights}, self.b2);
    // Its network makes the scores of all heads together.
    const auto of_fire = [&each](TensorInfo info, auto& tensor) {
      info.adds = false;
      each(info, tensor);
    };
    if (self.fire) FireProgram::tensors(*self.fire, of_fire);
  }
};

// Numbers of single tokens in the scores, beside any variant: its score s of query i and key j
// becomes factor_i (s + query_i + key_j). Biases (B or 1, H, N) in any dtype, whose sum is taken
// before it is rounded to the scores'; factors likewise. Undefined: 0, 0, 1.
struct TokenTerms {
  at::Tensor query, key, factor;

  bool defined() const { return query.defined() || key.defined() || factor.defined(); }

  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    TensorInfo info{"query_bias", Numbers::sums};
    info.query_dim = 2, info.head_dim = 1, info.adds = true;
    each(info, self.query);
    each(TensorInfo{.name = "key_bias", .numbers = Numbers::sums, .head_dim = 1, .adds = true},
         self.key);
    each(TensorInfo{.name = "query_factor", .query_dim = 2, .head_dim = 1}, self.factor);
  }
};

// Where a region of the scores begins.
struct ScoreCorner {
  std::int64_t head = 0, row = 0, column = 0;
};

struct AttentionProgram {
  at::Tensor q, k;  // (B, H, N, d), (B, kv heads, M, d), transformed; any strides. M is N but in
                    // cross attention, and where keys are kept from tokens before (query_offset)
  at::Tensor q_plain, k_plain;  // the same before the transform
  // Where q and k are normed behind the transform, q_plain and k_plain with that norm, which no
  // position has a part in: what content is made of. Undefined where they are not.
  at::Tensor q_normed, k_normed;
  bool transformed = false;  // whether q and k are others than these
  double scale = 1;          // of q.k; also of the content score where the variant is not tapa
  std::variant<PlainProgram, TableProgram, QueryTableProgram, RelativeKeysProgram, ClampProgram,
               TapaProgram, TapeProgram, CapeProgram, FireProgram, TermProgram>
      variant;
  Positions positions;
  TokenTerms tokens = {};
  double gain = 1;      // the score is multiplied by it; cape and term alone
  double soft_cap = 0;  // s becomes cap tanh(s / cap), before the mask; 0: not
  bool causal = true;
  std::int64_t window = 0;  // a query sees keys less than this many tokens away; 0: all
  // Row i is the text's token query_offset + i: masks, positions and documents are those of tokens.
  // Only what has a query_dim counts rows.
  std::int64_t query_offset = 0;
  at::Tensor key_mask = {};    // (B, M) bool, false for padding, which nothing sees
  bool padding_added = false;  // AttentionConfig::padding is "added"
  // Whether causal and key_mask leave some query padding alone, where it is known without reading
  // the mask.
  std::optional<bool> loses_rows = {};
  at::Tensor documents = {};  // (B, M) int64: a query sees the keys of its own document alone
  at::Tensor mask;  // (N, M) bool, true where a query sees a key; replaces `causal` and `window`
  // (H), learned sinks: each row's normaliser has e^sink more, so that its weights sum to less than
  // 1; log-sum-exps leave it out (kernels/attention.h). Undefined for none.
  at::Tensor sinks = {};
  // (B or 1, H, N, d_v) or (B or 1, H, N, 1), what a row's output is multiplied by; undefined for
  // nothing.
  at::Tensor gate = {};
  // (B or 1, H, L) zeros in float64, or undefined: a bias by |lambda| of the softmax's input,
  // behind all that is done to it but the mask. It has a gradient, which is what it is for: minus
  // that is what a bias by distance would lower the loss by. Farther pairs have none.
  at::Tensor distance_bias = {};
  // From this channel of content_q() and content_k() on q.k is content; the channels before it have
  // a position by construction, and all they give counts as positional.
  std::int64_t content_from = 0;
  // What else is done to the softmax's input, after all of the above but the mask: scores (B,
  // heads, rows, columns) to scores of that shape. It may outlive the encoding, and runs plain.
  std::function<at::Tensor(const at::Tensor& scores, const ScoreCorner& corner)> edit = {};

  void transform(const at::Tensor& new_q, const at::Tensor& new_k) {
    q = new_q, k = new_k, transformed = true;
  }

  // The queries and keys of content scores.
  const at::Tensor& content_q() const { return q_normed.defined() ? q_normed : q_plain; }
  const at::Tensor& content_k() const { return k_normed.defined() ? k_normed : k_plain; }

  // Whether the score is made in this way, how (null where it is another way), and its name.
  template <class P>
  bool is() const {
    return std::holds_alternative<P>(variant);
  }
  template <class P>
  const P* as() const {
    return std::get_if<P>(&variant);
  }
  template <class P>
  P* as() {
    return std::get_if<P>(&variant);
  }
  const char* name() const;

  // FIRE's pieces, its own or cape's; null where there are none.
  const FireProgram* fire() const;
  FireProgram* fire();
  // What defines the scores by tensor operations in place of the variant's formula; null for none.
  const TermProgram* term() const;
  TermProgram* term();
};

// Calls each(TensorInfo, tensor) for all tensors that a program's scores are computed from,
// undefined ones too; those before the transform are not among them.
template <class Program, class Each>
void for_each_tensor(Program& program, const Each& each) {
  each(TensorInfo{.name = "q", .numbers = Numbers::tokens, .query_dim = 2, .head_dim = 1},
       program.q);
  each(TensorInfo{"k", Numbers::tokens}, program.k);
  std::visit([&each](auto& variant) { variant.tensors(variant, each); }, program.variant);
  each(TensorInfo{"sinks", Numbers::weights}, program.sinks);
  each(TensorInfo{.name = "gate", .numbers = Numbers::tokens, .query_dim = 2, .head_dim = 1},
       program.gate);
  each(TensorInfo{"distance_bias", Numbers::sums}, program.distance_bias);
  program.tokens.tensors(program.tokens, each);
}

// Calls each(TensorInfo, tensor) for those of its variant that what it adds to q.k is in proportion
// to, and for those of its tokens' numbers.
template <class Program, class Each>
void for_each_added(Program& program, const Each& each) {
  const auto added = [&each](const TensorInfo& info, auto& tensor) {
    if (info.adds && tensor.defined()) each(info, tensor);
  };
  std::visit([&added](auto& variant) { variant.tensors(variant, added); }, program.variant);
}
template <class Program, class Each>
void for_each_added_of_tokens(Program& program, const Each& each) {
  program.tokens.tensors(program.tokens, [&each](const TensorInfo& info, auto& tensor) {
    if (info.adds && tensor.defined()) each(info, tensor);
  });
}

// Whether what its variant adds to q.k goes by the query too, and not by the distance alone.
bool adds_by_query(const AttentionProgram& program);

// Those of them that are defined and that gradients flow to, each(tensor), in the same order.
template <class Program, class Each>
void for_each_operand(Program& program, const Each& each) {
  for_each_tensor(program, [&each](const TensorInfo& info, auto& tensor) {
    if (info.differentiable && tensor.defined()) each(tensor);
  });
}

}  // namespace phasescope::model
