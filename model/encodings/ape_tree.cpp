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

  // paths() by operations where the ids lie, with columns for the deepest node up to `greatest`.
  at::Tensor paths_there(const at::Tensor& ids, std::int64_t greatest) const {
    at::Tensor node = ids - root_;
    const at::Tensor none = at::full_like(node, -1);
    std::vector<at::Tensor> branches;
    const auto take = [&](const at::Tensor& branch, const at::Tensor& next) {
      const at::Tensor inside = node > 0;
      branches.push_back(at::where(inside, branch, none));
      node = at::where(inside, next, node);
    };
    if (!sizes_.empty()) {
      check(greatest);
      // A tree of level 1 is its root alone.
      for (std::size_t level = sizes_.size() - 1; level > 1; --level) {
        const std::int64_t size = sizes_[level - 1];
        take((node - 1).floor_divide(size), (node - 1).remainder(size));
      }
    } else {
      for (std::int64_t last = greatest - root_; last > 0; last = (last - 1) / branches_) {
        take((node - 1).remainder(branches_), (node - 1).floor_divide(branches_));
      }
    }
    if (branches.empty()) return at::empty_like(ids).unsqueeze(-1).slice(-1, 0, 0);
    if (!sizes_.empty()) return at::stack(branches, -1);
    // Those were found from a path's end: they move to its beginning.
    std::ranges::reverse(branches);
    const at::Tensor at_end = at::stack(branches, -1);
    const std::int64_t columns = at_end.size(-1);
    const at::Tensor from =
        at::arange(columns, ids.options()) + columns - at_end.ge(0).sum(-1, true);
    return at::where(from < columns, at_end.gather(-1, from.clamp_max(columns - 1)),
                     none.unsqueeze(-1));
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
    check(id);
    for (std::size_t level = sizes_.size() - 1; node > 0; --level) {
      const std::int64_t size = sizes_[level - 1];
      branches.push_back((node - 1) / size);
      node = (node - 1) % size;
    }
    return branches;
  }

  // Refuses a place outside a tree numbered depth first.
  void check(std::int64_t id) const {
    if (id - root_ >= sizes_.back()) {
      throw formats::bad_input("node " + std::to_string(id) + " lies outside a tree of " +
                                   std::to_string(sizes_.back()) + " nodes",
                               "positions", "ape_tree.levels sets its depth");
    }
  }

  std::int64_t branches_, root_;
  std::vector<std::int64_t> sizes_;  // empty for breadth first
};

// Steps between nodes, (B or 1, rows, columns). `longest` >= 0: the public code's.
struct TreeSteps {
  Numbering numbering;
  std::int64_t longest = -1;
  std::int64_t greatest = 0;  // node of the text itself

  at::Tensor operator()(const TermRegion& region) const {
    const at::Tensor query = paths(region, region.query_id);  // (B or 1, rows, 1, depth)
    const at::Tensor key = paths(region, region.key_id);
    const at::Tensor of_query = query.ge(0).sum(-1), of_key = key.ge(0).sum(-1);
    at::Tensor together = at::ones({}, query.options().dtype(at::kBool));
    at::Tensor common = at::zeros({}, query.options());
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

 private:
  // Nothing is known of another text than the program's own, so that its ids are read.
  at::Tensor paths(const TermRegion& region, const at::Tensor& ids) const {
    if (ids.is_cpu()) return numbering.paths(ids);
    return region.distances ? numbering.paths_there(ids, greatest)
                            : numbering.paths(ids.cpu()).to(ids.device());
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

  Pieces in_pieces(std::int64_t) const override {
    if (text("steps") == "true" || number("decay") == 1) return {};
    return {Pieces::Kind::refused,
            "the public code's steps are counted by the longest path of the text"};
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const at::Tensor ids = position_ids(state.positions);
    const at::Tensor by_text = ids.dim() == 2 ? ids : ids.unsqueeze(0);
    const std::int64_t greatest = state.positions.measured().greatest;
    const at::Tensor paths =
        ids.is_cpu() ? numbering_.paths(by_text) : numbering_.paths_there(by_text, greatest);
    program.transform(placed(q, paths, state.table), placed(k, paths, state.table));
    if (number("decay") < 1) {
      const std::int64_t longest =
          text("steps") == "public" ? longest_path(paths, state.positions) : -1;
      program.variant = decaying(number("decay"), TreeSteps{numbering_, longest, greatest});
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
  // What is made on a device may have columns that no path reaches.
  std::int64_t longest_path(const at::Tensor& paths, const Positions& positions) const {
    if (paths.is_cpu()) return paths.size(-1);
    Positions here = positions;
    here.device = at::kCPU;
    if (!here.consecutive()) here.ids = here.ids.cpu();
    return numbering_.paths(position_ids(here)).size(-1);
  }

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
