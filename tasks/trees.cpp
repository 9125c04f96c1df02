#include "tasks/trees.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/error.h"
#include "tasks/perplexity.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kTreeSos = 0;
constexpr std::uint64_t kBlindSamples = 400;

// "(left node right)" or "node".
std::string infix_of(const Tree& tree) {
  const std::string id = std::to_string(tree.id);
  if (tree.leaf()) return id;
  return "(" + infix_of(tree.children[0]) + " " + id + " " + infix_of(tree.children[1]) + ")";
}

class InfixReader {
 public:
  explicit InfixReader(const std::string& text) : text_(text) {}

  Tree whole() {
    Tree tree = node(0);
    if (at_ != text_.size()) throw wrong();
    return tree;
  }

 private:
  formats::Error wrong() const {
    return formats::bad_input("a tree is not (left node right) or a leaf at character " +
                              std::to_string(at_));
  }
  void expect(char c) {
    if (at_ >= text_.size() || text_[at_] != c) throw wrong();
    ++at_;
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && at_ < begin + 9; ++at_) {
      value = 10 * value + (text_[at_] - '0');
    }
    if (at_ == begin) throw wrong();
    return value;
  }
  Tree node(std::int64_t depth) {
    if (depth > kDeepestTree) throw formats::bad_input("a tree is deeper than 62");
    if (at_ >= text_.size() || text_[at_] != '(') return {number(), {}};
    ++at_;
    Tree tree;
    tree.children.push_back(node(depth + 1));
    expect(' ');
    tree.id = number();
    expect(' ');
    tree.children.push_back(node(depth + 1));
    expect(')');
    return tree;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

struct Nodes {
  Ids ids{kTreeSos}, places{0};
  void add(std::int64_t id, std::int64_t place) { ids.push_back(id), places.push_back(place); }
};

void add_depth_first(const Tree& tree, std::int64_t place, Nodes& nodes) {
  nodes.add(tree.id, place);
  for (std::size_t c = 0; c < tree.children.size(); ++c) {
    add_depth_first(tree.children[c], 2 * place + static_cast<std::int64_t>(c), nodes);
  }
}

Nodes nodes_of(const Tree& tree, TreeOrder order) {
  Nodes nodes;
  if (order == TreeOrder::depth) {
    add_depth_first(tree, 1, nodes);
    return nodes;
  }
  std::vector<std::pair<const Tree*, std::int64_t>> level{{&tree, 1}};
  while (!level.empty()) {
    std::vector<std::pair<const Tree*, std::int64_t>> next;
    for (const auto& [node, place] : level) {
      nodes.add(node->id, place);
      for (std::size_t c = 0; c < node->children.size(); ++c) {
        next.emplace_back(&node->children[c], 2 * place + static_cast<std::int64_t>(c));
      }
    }
    level = std::move(next);
  }
  return nodes;
}

std::int64_t depth_of(const Tree& tree) {
  std::int64_t depth = 0;
  for (const Tree& child : tree.children) depth = std::max(depth, 1 + depth_of(child));
  return depth;
}

Json order_row(const Nodes& nodes) { return {{"decoder", nodes.ids}, {"places", nodes.places}}; }

class TreeTask : public Task {
 public:
  TreeTask(const TreeRule& rule, TreeOrder order) : rule_(rule), order_(order) {
    const bool depth = order == TreeOrder::depth;
    info_.reference = std::string("tree_") + rule.name;
    info_.key = info_.reference + (depth ? "_depth" : "");
    if (!depth) info_.aliases = {info_.reference + "_breadth"};
    info_.title = std::string(rule.title) + (depth ? ", depth-first" : ", breadth-first");
    info_.help = rule.help;
    info_.source = "APE (arXiv 2312.16045) Table 2b; code of konstantinosKokos/ape";
    info_.differs = rule.differs;
    info_.form = Form::encoder_decoder;
    info_.input_symbols = info_.output_symbols = rule.vocabulary;
    info_.padding = kTreeSos;
    info_.length_unit = "levels below the root";
    info_.shortest = rule.least_depth;
    info_.longest = rule.most_depth;
    info_.trained = info_.tested = "N(7, 1)";
    info_.metric = "perplexity";
  }
  const TaskInfo& info() const override { return info_; }

  Sample drawn(const Ids& length, Random& random) const override {
    return sample_of(rule_.draw(length[0], random));
  }

  Sample again(const Json& row) const override {
    const auto infix = row.at("input_infix").get<std::string>();
    return sample_of(InfixReader(infix).whole());
  }

  // Reference files have both orders, and the targets of the first.
  Json row(const Sample& sample) const override {
    const Tree output = rule_.output(InfixReader(infix_in(sample)).whole());
    const Nodes breadth = nodes_of(output, TreeOrder::breadth);
    Json row = sample.drawn;
    row["length"] = sample.length[0];
    row["target_infix"] = infix_of(output);
    row["encoder_input"] = sample.input;
    row["encoder_places"] = sample.input_places;
    row["breadth"] = order_row(breadth);
    row["depth"] = order_row(nodes_of(output, TreeOrder::depth));
    row["target"] = Ids(breadth.ids.begin() + 1, breadth.ids.end());
    row["counts"] = Ids(breadth.ids.size() - 1, 1);
    return row;
  }

  Json metric(const std::vector<Sample>& samples, const Json& given) const override {
    return perplexity_of(samples, given);
  }

  // Which nodes are leaves taken as known.
  Chance chance(const Ids& length) const override {
    double nats = 0, nodes = 0;
    for (std::uint64_t n = 0; n < kBlindSamples; ++n) {
      for (const std::int64_t id : draw(0, length, n).target) {
        nats += std::log(static_cast<double>(id <= rule_.leaf_symbols ? rule_.leaf_symbols
                                                                      : rule_.inner_symbols));
        nodes += 1;
      }
    }
    return {static_cast<double>(rule_.vocabulary), std::exp(nats / nodes),
            "even symbols where leaf or inner node is known from the place"};
  }

  std::string input_symbol(std::int64_t id) const override {
    return id == kTreeSos ? "[SOS]" : std::to_string(id);
  }

 private:
  static std::string infix_in(const Sample& sample) {
    return sample.drawn.at("input_infix").get<std::string>();
  }

  Sample sample_of(const Tree& tree) const {
    const Nodes input = nodes_of(tree, TreeOrder::breadth);
    const Nodes output = nodes_of(rule_.output(tree), order_);
    for (const std::int64_t id : input.ids) {
      if (id < 0 || id >= rule_.vocabulary) {
        throw formats::bad_input("no such symbol: " + std::to_string(id), info_.key);
      }
    }
    Sample sample;
    sample.input = input.ids, sample.input_places = input.places;
    sample.decoder_input.assign(output.ids.begin(), output.ids.end() - 1);
    sample.decoder_places.assign(output.places.begin(), output.places.end() - 1);
    sample.target.assign(output.ids.begin() + 1, output.ids.end());
    sample.counts.assign(sample.target.size(), 1);
    sample.length = {depth_of(tree)};
    sample.drawn = {{"input_infix", infix_of(tree)}};
    return sample;
  }

  TreeRule rule_;
  TreeOrder order_;
  TaskInfo info_;
};

}  // namespace

std::unique_ptr<Task> tree_task(const TreeRule& rule, TreeOrder order) {
  return std::make_unique<TreeTask>(rule, order);
}

Tree plain_tree(std::int64_t depth, Random& random) {
  return drawn_tree(
      depth, random, [](Random& r) { return r.between(1, 10); },
      [](Random& r) { return r.between(11, 20); });
}

}  // namespace phasescope::tasks
