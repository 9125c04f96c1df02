#include "model/encodings/ape_tree.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/orthogonal_powers.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& ape_tree_info() {
  static const EncodingInfo info = {
      .key = "ape_tree",
      .title = "APE on trees (a matrix for each branch)",
      .formula =
          "s_ij = (M_i q_i).(M_j k_j) decay^steps / sqrt(d), M = W_b1^T ... W_bn^T of the branches "
          "b1 ... bn from the root to a token's node, W = exp(A - A^T); position ids are nodes, "
          "the "
          "root is 1, and 0 stands outside the tree, where the root does",
      .source = "arXiv 2312.16045, Section 4.2",
      .departure = "",
      .options =
          {ape_base_option(),
           start_option("every W"),
           {"branches", 2, "children of a node", {}, 1, 64},
           {"numbering",
            "breadth_first",
            "of nodes: level by level (with two branches the children of p are 2p and 2p + 1), or "
            "each subtree in turn",
            {"breadth_first", "depth_first"}},
           only_where({"numbering", {"depth_first"}},
                      {"levels", 16, "of the tree that depth_first numbers", {}, 1, 64}),
           {"paths",
            "true",
            "public: as if the root were 0, so that node p gets the path of node p + 1",
            {"true", "public"}},
           {"steps",
            "true",
            "between two nodes; public: twice what the longest path of the batch has below their "
            "common ancestor",
            {"true", "public"}},
           decay_option("step")},
      // Nodes have no shift: other ids are other nodes.
      .under_shift = {UnderShift::Kind::moves, "other ids are other nodes"},
      .has_state = false,
      .places = Places::tree,
  };
  return info;
}

// How node numbers turn into paths.
class Numbering {
 public:
  Numbering(std::int64_t branches, std::int64_t levels, bool depth_first, std::int64_t root)
      : branches_(branches), root_(root) {
    // Nodes of a tree of 0, 1, .. levels, as far as they can be counted.
    for (std::int64_t level = 0; depth_first && level <= levels; ++level) {
      const std::int64_t below = sizes_.empty() ? 0 : sizes_.back();
      sizes_.push_back(std::min(kMost, level == 0 ? 0 : branches * below + 1));
    }
  }

  // Branches from the root to each node: ids (...) to (..., depth), -1 past a path's end.
  at::Tensor paths(const at::Tensor& ids) const {
    const at::Tensor flat = ids.contiguous().flatten();
    std::vector<std::vector<std::int64_t>> all;
    std::size_t depth = 0;
    for (std::int64_t n = 0; n < flat.size(0); ++n) {
      all.push_back(path(flat.const_data_ptr<std::int64_t>()[n]));
      depth = std::max(depth, all.back().size());
    }
    const auto columns = static_cast<std::int64_t>(depth);
    at::Tensor result = at::full({flat.size(0), columns}, -1, at::kLong);
    std::int64_t* out = result.mutable_data_ptr<std::int64_t>();
    for (std::size_t n = 0; n < all.size(); ++n) {
      std::copy(all[n].begin(), all[n].end(), out + n * depth);
    }
    std::vector<std::int64_t> shape = ids.sizes().vec();
    shape.push_back(columns);
    return result.view(shape);
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 56;

  std::vector<std::int64_t> path(std::int64_t id) const {
    std::int64_t node = id - root_;
    std::vector<std::int64_t> branches;
    if (sizes_.empty()) {
      for (; node > 0; node = (node - 1) / branches_) {
        branches.push_back((node - 1) % branches_);
      }
      std::reverse(branches.begin(), branches.end());
      return branches;
    }
    if (node >= sizes_.back()) {
      throw formats::bad_input("node " + std::to_string(id) + " lies outside a tree of " +
                                   std::to_string(sizes_.back()) + " nodes",
                               "positions", "ape_tree.levels sets its depth");
    }
    for (std::size_t level = sizes_.size() - 1; node > 0; --level) {
      const std::int64_t size = sizes_[level - 1];
      branches.push_back((node - 1) / size);
      node = (node - 1) % size;
    }
    return branches;
  }

  std::int64_t branches_, root_;
  std::vector<std::int64_t> sizes_;  // empty for breadth first
};

// Steps between nodes, (B or 1, rows, columns). `longest` >= 0: the public code's.
struct TreeSteps {
  Numbering numbering;
  std::int64_t longest = -1;

  at::Tensor operator()(const TermRegion& region) const {
    const at::Tensor query = numbering.paths(region.query_id);  // (B or 1, rows, 1, depth)
    const at::Tensor key = numbering.paths(region.key_id);
    const at::Tensor of_query = query.ge(0).sum(-1), of_key = key.ge(0).sum(-1);
    at::Tensor together = at::ones({}, at::kBool);
    at::Tensor common = at::zeros({}, at::kLong);
    const std::int64_t depth = std::min(query.size(-1), key.size(-1));
    for (std::int64_t n = 0; n < depth; ++n) {
      const at::Tensor branch = query.select(-1, n);
      together = together & branch.eq(key.select(-1, n)) & branch.ge(0);
      common = common + together.to(at::kLong);
    }
    const at::Tensor steps = of_query + of_key - 2 * common;
    if (longest < 0) return steps;
    return at::where(steps.eq(0), steps, 2 * (longest - common));
  }
};

class ApeTree final : public Encoding {
 public:
  ApeTree(const Json& options, const ModelConfig& model)
      : Encoding(options, model),
        numbering_(integer("branches"), integer("levels"), text("numbering") == "depth_first",
                   text("paths") == "true" ? 1 : 0) {
    refuse_interpolation("ape_tree");
    if (head_dim_ % 2 != 0) {
      throw formats::bad_input("ape_tree needs an even head size but got " +
                               std::to_string(head_dim_));
    }
  }

  const EncodingInfo& info() const override { return ape_tree_info(); }

  std::string departure() const override {
    if (text("paths") == "true" && text("steps") == "true") return {};
    return "paths or steps are those of the public code, which are off against its own node "
           "numbers";
  }

  // One for all heads and layers.
  std::vector<ParameterSpec> shared_parameters() const override {
    ParameterSpec spec{
        .name = "generator", .shape = {integer("branches"), head_dim_, head_dim_}, .decays = false};
    spec.start = start_generator(text("start"), number("base"), head_dim_);
    return {spec};
  }

  // The state's table is W of each branch.
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    state.table = orthogonal_powers(context.shared->at("generator"), 1, context.dtype)[0];
    return state;
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const at::Tensor ids = position_ids(state.positions);
    const at::Tensor paths = numbering_.paths(ids.dim() == 2 ? ids : ids.unsqueeze(0));
    program.transform(placed(q, paths, state.table), placed(k, paths, state.table));
    if (number("decay") < 1) {
      const std::int64_t longest = text("steps") == "public" ? paths.size(-1) : -1;
      program.variant = decaying(number("decay"), TreeSteps{numbering_, longest});
    }
    return program;
  }

  // One product of every token for each level of the tree and each branch.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double branches = number("branches");
    const double levels =
        branches > 1 ? std::ceil(std::log(s.tokens * (branches - 1) + 1) / std::log(branches))
                     : s.tokens;
    return {token_cost("matrices of branches", s,
                       2 * levels * branches * s.heads * s.head_dim * s.head_dim)};
  }

 private:
  // M x of each token: x (B, H, N, d), paths (B or 1, N, depth), w (branches, d, d). The last
  // branch comes first: M = W_b1^T ... W_bn^T.
  static at::Tensor placed(const at::Tensor& x, const at::Tensor& paths, const at::Tensor& w) {
    at::Tensor result = x.to(w.scalar_type());
    for (std::int64_t step = paths.size(-1) - 1; step >= 0; --step) {
      const at::Tensor branch = paths.select(-1, step).unsqueeze(1).unsqueeze(-1);
      at::Tensor moved = result;
      for (std::int64_t b = 0; b < w.size(0); ++b) {
        moved = at::where(branch.eq(b), at::matmul(result, w[b]), moved);
      }
      result = moved;
    }
    return result.to(x.scalar_type());
  }

  Numbering numbering_;
};

std::unique_ptr<Encoding> make_ape_tree(const Json& options, const ModelConfig& model) {
  return std::make_unique<ApeTree>(options, model);
}

}  // namespace

EncodingEntry ape_tree_entry() { return {&ape_tree_info(), &make_ape_tree}; }

}  // namespace phasescope::model
