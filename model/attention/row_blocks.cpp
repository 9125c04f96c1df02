#include "model/attention/row_blocks.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace phasescope::model {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

// What a block has made so far, joined. One tensor for all rows, made with the first block: what is
// kept between two blocks would hold freed memory apart, as each is larger than the one before.
void put_rows(const std::vector<at::Tensor>& block, std::int64_t begin, std::int64_t rows,
              std::vector<at::Tensor>& joined) {
  joined.resize(block.size());
  for (std::size_t n = 0; n < block.size(); ++n) {
    if (!block[n].defined()) continue;
    if (!joined[n].defined()) {
      std::vector<std::int64_t> shape = block[n].sizes().vec();
      shape[2] = rows;
      joined[n] = at::empty(shape, block[n].options());
    }
    joined[n].narrow(2, begin, block[n].size(2)).copy_(block[n]);
  }
}

// Calls each(edge) for the edges of a graph, once a node, and follows those that it says.
template <class Each>
void walk(const variable_list& from, const Each& each) {
  std::vector<std::shared_ptr<Node>> left;
  std::unordered_set<Node*> seen;
  const auto go = [&](const std::shared_ptr<Node>& node) {
    if (node && seen.insert(node.get()).second) left.push_back(node);
  };
  for (const at::Tensor& tensor : from) {
    if (tensor.defined()) go(tensor.grad_fn());
  }
  while (!left.empty()) {
    const std::shared_ptr<Node> node = left.back();
    left.pop_back();
    for (Edge& edge : node->next_edges()) {
      if (edge.is_valid() && each(edge)) go(edge.function);
    }
  }
}

bool is_leaf(const Edge& edge) {
  return dynamic_cast<torch::autograd::AccumulateGrad*>(edge.function.get()) != nullptr;
}

// Where the graph of what a block makes leaves it: edges to leaves, and to what was computed
// before. They are told apart by the numbers that nodes get in the order in which they are made.
class Border {
 public:
  Border() : first_(at::sequence_number::peek()) {}

  void add(const variable_list& made) {
    walk(made, [this](const Edge& edge) {
      if (!is_leaf(edge) && edge.function->sequence_nr() >= first_) return true;
      if (known_.insert({edge.function.get(), edge.input_nr}).second) edges_.push_back(edge);
      return false;
    });
  }

  torch::autograd::edge_list take() { return std::move(edges_); }

 private:
  std::uint64_t first_;
  std::set<std::pair<Node*, std::uint32_t>> known_;
  torch::autograd::edge_list edges_;
};

// Takes the gradient that would go on over an edge.
class Gathered final : public Node {
 public:
  explicit Gathered(const Edge& edge) {
    const torch::autograd::InputMetadata& like = edge.function->input_metadata(edge.input_nr);
    add_input_metadata(like.options(), like.shape_as_dim_vector(), like.is_tensor_subclass(),
                       like.is_nested_tensor(), like.grad_dtype());
  }
  variable_list apply(variable_list&& incoming) override {
    at::Tensor& one = incoming[0];
    if (one.defined()) sum_ = sum_.defined() ? sum_ + one : std::move(one);
    return {};
  }
  at::Tensor take() { return std::move(sum_); }

 private:
  at::Tensor sum_;
};

// The gradients of all rows, block by block. The graph of a block ends where Border found, so that
// what was computed before gets its gradients once, after the last block.
class RowBlocks final : public Node {
 public:
  RowBlocks(RowFunction compute, std::int64_t rows, std::int64_t step,
            torch::autograd::edge_list&& inputs)
      : Node(std::move(inputs)), compute_(std::move(compute)), rows_(rows), step_(step) {
    for (const Edge& edge : next_edges()) {
      std::shared_ptr<Gathered> end(new Gathered(edge), torch::autograd::deleteNode);
      ends_.emplace(std::pair(edge.function.get(), edge.input_nr), end);
      in_order_.push_back(std::move(end));
    }
  }

  variable_list apply(variable_list&& incoming) override {
    TORCH_CHECK(compute_, torch::autograd::ERR_BACKWARD_TWICE);
    for (std::int64_t begin = 0; begin < rows_; begin += step_) {
      run_block(begin, std::min(rows_, begin + step_), incoming);
    }
    variable_list gradients;
    for (const auto& end : in_order_) gradients.push_back(end->take());
    return gradients;
  }

  void release_variables() override { compute_ = nullptr; }

 private:
  void run_block(std::int64_t begin, std::int64_t end, const variable_list& incoming) {
    const at::AutoGradMode gradients(true);
    variable_list roots, weights;
    const variable_list made = compute_(begin, end);
    for (std::size_t n = 0; n < made.size(); ++n) {
      if (!incoming[n].defined() || !made[n].defined() || !made[n].requires_grad()) continue;
      roots.push_back(made[n]), weights.push_back(incoming[n].slice(2, begin, end));
    }
    if (roots.empty()) return;
    walk(roots, [this](Edge& edge) {
      const auto found = ends_.find({edge.function.get(), edge.input_nr});
      if (found == ends_.end()) {
        TORCH_CHECK(!is_leaf(edge), "a block of rows reads what it has not read before");
        return true;
      }
      edge = Edge(found->second, 0);
      return false;
    });
    torch::autograd::backward(roots, weights);
  }

  RowFunction compute_;
  std::int64_t rows_, step_;
  std::map<std::pair<Node*, std::uint32_t>, std::shared_ptr<Gathered>> ends_;
  std::vector<std::shared_ptr<Gathered>> in_order_;
};

}  // namespace

std::vector<at::Tensor> in_row_blocks(const RowFunction& compute, std::int64_t rows,
                                      std::int64_t step) {
  if (step >= rows) return compute(0, rows);
  std::vector<at::Tensor> joined;
  Border border;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::vector<at::Tensor> block = compute(begin, std::min(rows, begin + step));
    if (at::GradMode::is_enabled()) border.add(block);
    const at::NoGradGuard no_gradients;
    put_rows(block, begin, rows, joined);
  }
  torch::autograd::edge_list inputs = border.take();
  if (inputs.empty()) return joined;
  const std::shared_ptr<Node> node(new RowBlocks(compute, rows, step, std::move(inputs)),
                                   torch::autograd::deleteNode);
  for (const at::Tensor& tensor : joined) {
    torch::autograd::set_history(tensor, node);
  }
  return joined;
}

}  // namespace phasescope::model
