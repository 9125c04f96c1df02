#include "model/encodings/tape_circuit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace phasescope::model {

namespace {

constexpr std::int64_t kThings = 5;
constexpr std::int64_t kRows = 6;      // of the matrix e of a token
constexpr std::int64_t kSymbols = 11;  // ten transpositions and [bos]
constexpr double kUnseen = -64;        // its exponential adds nothing to 1 in any dtype

const EncodingInfo& tape_circuit_info() {
  static const EncodingInfo info = {
      .key = "tape_circuit",
      .title = "TAPE's circuit of permutations",
      .formula =
          "layers 0 and 1: each token reads itself; layer 2: s_ij = q_i.k_j / sqrt(d); layer 3: "
          "s_ij = l_i k_j0, l_i = (1,2,3,4,5,54.5) e_i (1,2,3,4,5,-1)^T, e_i = I - sum_j<=i xi_j "
          "eta_j^T, eta = (I + M . Xi Xi^T)^-1 Xi",
      .source = "arXiv 2501.00712, Theorem 4.1 and Appendix B.1, corrected",
      .departure =
          "no TAPE checkpoint holds it: its second layer solves a triangular system where "
          "a softmax stands, and its states are whole numbers made of the tokens that "
          "layer 0 reads",
      .options = {},
      .under_shift = {UnderShift::Kind::stays, "states are made of tokens in their order"},
      .has_state = false,
  };
  return info;
}

// Row s: delta_a - delta_b of the transposition s; that of [bos] is 0. (11, 6)
at::Tensor vectors_of_symbols(const at::TensorOptions& options) {
  at::Tensor xi = at::zeros({kSymbols, kRows}, options.dtype(at::kDouble));
  for (std::int64_t symbol = 0; symbol + 1 < kSymbols; ++symbol) {
    const auto [a, b] = circuit_transposition(symbol);
    xi[symbol][a] = 1, xi[symbol][b] = -1;
  }
  return xi.to(options);
}

// eta_i = xi_i - sum_j<i (xi_j.xi_i) eta_j, (B, N, 6): the triangular system in blocks of rows,
// what earlier ones have in it being a 6 x 6 matrix, so that no N x N is held.
at::Tensor solved(const at::Tensor& xi) {
  constexpr std::int64_t kBlock = 64;
  const std::int64_t tokens = xi.size(1);
  at::Tensor before = at::zeros({xi.size(0), kRows, kRows}, xi.options());  // sum xi_j eta_j^T
  std::vector<at::Tensor> all;
  for (std::int64_t begin = 0; begin < tokens; begin += kBlock) {
    const at::Tensor own = xi.slice(1, begin, std::min(begin + kBlock, tokens));
    const at::Tensor products = at::matmul(own, own.transpose(1, 2)).tril(-1);
    const at::Tensor system = products + at::eye(own.size(1), xi.options());
    all.push_back(at::linalg_solve_triangular(system, own - at::matmul(own, before), false));
    before = before + at::matmul(own.transpose(1, 2), all.back());
  }
  return at::cat(all, 1);
}

// e_i = I - sum_j<=i xi_j eta_j^T, (B, N, 36): the permutation up to there.
at::Tensor permutations(const at::Tensor& xi, const at::Tensor& eta) {
  const at::Tensor sums = (xi.unsqueeze(3) * eta.unsqueeze(2)).cumsum(1);
  return (at::eye(kRows, xi.options()) - sums).flatten(2);
}

// +0.5 for the identity, at most -0.5 for any other permutation: (B, N).
at::Tensor logits_of(const at::Tensor& e) {
  const at::Tensor left = tensor_of({1, 2, 3, 4, 5, 54.5}, e.options());
  const at::Tensor right = tensor_of({1, 2, 3, 4, 5, -1}, e.options());
  return at::matmul(e, at::outer(left, right).flatten());
}

// Layers are told apart by what is known when they begin: nothing, xi, eta too, e too.
class TapeCircuit final : public Encoding {
 public:
  TapeCircuit(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return tape_circuit_info(); }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const std::int64_t known = state.table.defined() ? state.table.size(2) : 0;
    if (known <= kRows) {
      TermProgram term;
      term.arrays = 2;
      term.score = [](const TermRegion& region) {
        const at::Tensor own = (region.query_id == region.key_id).unsqueeze(1);
        return at::where(own, region.content, region.content + kUnseen);
      };
      program.variant = std::move(term);
    } else if (known > 2 * kRows) {
      const at::Tensor logits = logits_of(state.table.slice(2, 2 * kRows)) / scale_;
      const at::Tensor first = logits.unsqueeze(1).unsqueeze(3).to(q.scalar_type());
      const at::Tensor rest = at::zeros_like(q.slice(3, 1));
      program.transform(at::cat({first.expand({-1, q.size(1), -1, 1}), rest}, 3), k);
    }
    return program;
  }

  Pieces in_pieces(std::int64_t) const override {
    return {Pieces::Kind::refused, "its states are made of all symbols of the text at once"};
  }

  // After layer 0, whose output says which symbol each token is in its first channels, xi; after
  // layer 1 eta, after layer 2 e. What the symbols are is rounded to whole numbers.
  void after_mlp(const Parameters&, const MlpContext& context,
                 PositionState& state) const override {
    const at::Tensor& said = context.attention_output;
    if (!state.table.defined()) {
      const std::int64_t given = std::min(kSymbols, said.size(2));
      const at::Tensor symbols =
          said.slice(2, 0, given).to(table_dtype(said.scalar_type())).round();
      const at::Tensor vectors = vectors_of_symbols(symbols.options()).slice(0, 0, given);
      state.table = at::matmul(symbols, vectors);
      return;
    }
    const at::Tensor xi = state.table.slice(2, 0, kRows);
    if (state.table.size(2) == kRows) {
      state.table = at::cat({xi, solved(xi)}, 2);
    } else if (state.table.size(2) == 2 * kRows) {
      const at::Tensor eta = state.table.slice(2, kRows);
      state.table = at::cat({state.table, permutations(xi, eta)}, 2);
    }
  }
};

std::unique_ptr<Encoding> make_tape_circuit(const Json& options, const ModelConfig& model) {
  return std::make_unique<TapeCircuit>(options, model);
}

}  // namespace

std::array<std::int64_t, 2> circuit_transposition(std::int64_t symbol) {
  for (std::int64_t a = 0; a < kThings; ++a) {
    const std::int64_t partners = kThings - 1 - a;
    if (symbol < partners) return {a, a + 1 + symbol};
    symbol -= partners;
  }
  return {0, 0};
}

EncodingEntry tape_circuit_entry() { return {&tape_circuit_info(), &make_tape_circuit}; }

}  // namespace phasescope::model
