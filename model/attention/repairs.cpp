#include "model/attention/repairs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <regex>
#include <utility>

#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "model/attention/moved_scores.h"
#include "model/checkpoints/tensor_io.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

std::string text_of(const Json& options, const char* key) {
  const auto found = options.find(key);
  return found == options.end() ? std::string() : found->get<std::string>();
}

// "L0H1:256 L2H3:64"
std::vector<Repairs::Limit> limits_of(const std::string& text, const char* key,
                                      const ModelConfig& model) {
  static const std::regex one("L([0-9]{1,9})H([0-9]{1,9}):([0-9]{1,12})");
  static const std::regex all("( *L[0-9]{1,9}H[0-9]{1,9}:[0-9]{1,12})* *");
  if (!std::regex_match(text, all)) {
    throw formats::bad_input("'" + text + "' is no list of heads and distances", key,
                             "write it as L0H1:256 L2H3:64");
  }
  std::vector<Repairs::Limit> limits;
  for (std::sregex_iterator it(text.begin(), text.end(), one), end; it != end; ++it) {
    const Repairs::Limit limit{std::stoll((*it)[1]), std::stoll((*it)[2]), std::stoll((*it)[3])};
    if (limit.layer >= model.layers || limit.head >= model.heads) {
      throw formats::bad_input("there is no head " + (*it)[0].str() + " in a model of " +
                                   std::to_string(model.layers) + " layers of " +
                                   std::to_string(model.heads) + " heads",
                               key);
    }
    limits.push_back(limit);
  }
  return limits;
}

void read_table(const std::string& path, const ModelConfig& model, Repairs& repairs) {
  const auto file = formats::SafetensorsFile::open(path);
  const formats::TensorEntry *table = file.find("table"), *edges = file.find("edges");
  if (table == nullptr || edges == nullptr) {
    throw formats::bad_input("a table of biases has the tensors table and edges", path);
  }
  repairs.table = read_tensor(file, *table).to(at::kDouble);
  const at::Tensor firsts = read_tensor(file, *edges).to(at::kLong).contiguous();
  const std::vector<std::int64_t> shape{model.layers, model.heads, firsts.numel()};
  if (firsts.dim() != 1 || repairs.table.sizes() != at::IntArrayRef(shape)) {
    throw formats::bad_input("the table of biases must have the shape (" +
                                 std::to_string(model.layers) + ", " + std::to_string(model.heads) +
                                 ", number of edges)",
                             path);
  }
  const std::int64_t* first = firsts.const_data_ptr<std::int64_t>();
  repairs.edges.assign(first, first + firsts.numel());
  const auto not_rising = std::ranges::adjacent_find(repairs.edges, std::greater_equal<>());
  if (repairs.edges.empty() || repairs.edges[0] != 0 || not_rising != repairs.edges.end()) {
    throw formats::bad_input("the edges of a table of biases rise from 0", path);
  }
}

// |lambda| of a region of scores (.., rows, columns), (B or 1, rows, columns) int64.
at::Tensor distances_of(const Positions& positions, const at::Tensor& scores,
                        const ScoreCorner& corner) {
  at::Tensor ids = position_ids(positions);
  if (ids.dim() == 1) ids = ids.unsqueeze(0);
  const at::Tensor query = ids.slice(1, corner.row, corner.row + scores.size(2));
  const at::Tensor key = ids.slice(1, corner.column, corner.column + scores.size(3));
  return (query.unsqueeze(2) - key.unsqueeze(1)).abs();
}

// Another change of the softmax's input after those that are there.
void then(AttentionProgram& program, decltype(AttentionProgram::edit) next) {
  if (!program.edit) {
    program.edit = std::move(next);
    return;
  }
  program.edit = [first = program.edit, next = std::move(next)](const at::Tensor& scores,
                                                                const ScoreCorner& corner) {
    return next(first(scores, corner), corner);
  };
}

bool takes_a_table(const AttentionProgram& program) {
  using Kind = AttentionProgram::Kind;
  const bool adds =
      program.kind == Kind::table && !program.table.multiplies && program.table.first_distance == 0;
  return (program.kind == Kind::plain || adds) && program.soft_cap == 0 && program.gain == 1.0 &&
         program.positions.consecutive() && !program.edit;
}

// A bias of 0, and -inf from a head's limit on; undefined where none is of this layer.
at::Tensor windows_of(const std::vector<Repairs::Limit>& limits, std::int64_t layer,
                      std::int64_t heads, std::int64_t length) {
  at::Tensor bias;
  for (const Repairs::Limit& limit : limits) {
    if (limit.layer != layer || limit.distance >= length) continue;
    if (!bias.defined()) bias = at::zeros({heads, length}, at::kDouble);
    bias[limit.head].slice(0, limit.distance).fill_(-std::numeric_limits<double>::infinity());
  }
  return bias;
}

}  // namespace

const std::vector<OptionInfo>& repair_options() {
  static const std::vector<OptionInfo> options = {
      {"bias_table", "", "file of a bias by layer, head and distance that is added to the score"},
      {"head_windows", "", "heads that see keys nearer than a distance alone: L0H1:256 L2H3:64"},
      {"head_clamps", "", "heads that read farther keys as if they stood there: L0H1:255"},
  };
  return options;
}

Repairs read_repairs(const Json& options, const ModelConfig& model) {
  Repairs repairs;
  const std::string table = text_of(options, "bias_table");
  if (!table.empty()) read_table(table, model, repairs);
  repairs.windows = limits_of(text_of(options, "head_windows"), "head_windows", model);
  for (const Repairs::Limit& limit : repairs.windows) {
    if (limit.distance == 0) {
      throw formats::bad_input("a head sees itself at least: windows are 1 or more",
                               "head_windows");
    }
  }
  repairs.clamps = limits_of(text_of(options, "head_clamps"), "head_clamps", model);
  return repairs;
}

at::Tensor by_distance(const at::Tensor& table, const std::vector<std::int64_t>& edges,
                       std::int64_t length) {
  at::Tensor bucket = at::zeros({length}, at::kLong);
  for (std::size_t n = 1; n < edges.size(); ++n) {
    if (edges[n] < length) bucket.slice(0, edges[n]).add_(1);
  }
  return table.index_select(-1, bucket);
}

void add_by_distance(AttentionProgram& program, const at::Tensor& bias) {
  const std::int64_t last = bias.size(1) - 1;
  if (!takes_a_table(program)) {
    then(program, [bias, last, positions = program.positions](const at::Tensor& scores,
                                                              const ScoreCorner& corner) {
      const at::Tensor of_heads =
          bias.slice(0, corner.head, corner.head + scores.size(1)).to(scores.scalar_type());
      const at::Tensor distance = distances_of(positions, scores, corner).clamp_max(last);
      return scores + of_heads.index_select(1, distance.flatten())
                          .unflatten(1, distance.sizes())
                          .transpose(0, 1);
    });
    return;
  }
  const std::int64_t length = std::max<std::int64_t>(1, program.positions.length);
  const at::Tensor entries = bias.to(table_dtype(program.q.scalar_type()))
                                 .index_select(1, at::arange(length, at::kLong).clamp_max(last));
  const bool there = program.kind == AttentionProgram::Kind::table;
  program.table.values =
      (there ? program.table.values.slice(1, 0, length) + entries : entries).contiguous();
  program.kind = AttentionProgram::Kind::table;
}

void repair(const Repairs& repairs, const LayerInput& input, AttentionProgram& program) {
  const std::int64_t heads = program.q.size(1);
  const std::int64_t length = program.positions.largest_distance() + 1;
  for (const Repairs::Limit& clamp : repairs.clamps) {
    if (clamp.layer == input.layer) clamp_distances(input, clamp.distance, {clamp.head}, program);
  }
  if (repairs.table.defined()) {
    add_by_distance(program, by_distance(repairs.table[input.layer], repairs.edges, length));
  }
  const at::Tensor windows = windows_of(repairs.windows, input.layer, heads, length);
  if (windows.defined()) add_by_distance(program, windows);
}

}  // namespace phasescope::model
