#include "model/attention/repairs.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <regex>
#include <utility>

#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "model/attention/moved_scores.h"
#include "model/attention/plain_attention.h"
#include "model/attention/row_blocks.h"
#include "model/checkpoints/tensor_io.h"
#include "model/encodings/rotation.h"
#include "model/host_memory.h"
#include "model/layers.h"

namespace phasescope::model {
namespace {

std::string text_of(const Json& options, const char* key) {
  const auto found = options.find(key);
  return found == options.end() ? std::string() : found->get<std::string>();
}

// A head and what an option says of it.
struct OfHead {
  std::int64_t layer = 0, head = 0;
  std::string value;
};

// "L0H1:256 L2:64 all:512"; `value` is the form of what stands behind the colon.
std::vector<OfHead> heads_of(const Json& options, const char* key, const ModelConfig& model,
                             const std::string& value, const char* example) {
  const std::string text = text_of(options, key);
  const std::string one = "(all|L[0-9]{1,9}(?:H[0-9]{1,9})?):(" + value + ")";
  if (!std::regex_match(text, std::regex("( *" + one + ")* *"))) {
    throw formats::bad_input("'" + text + "' is no list of heads and what is done to them", key,
                             std::string("write it as ") + example);
  }
  std::vector<OfHead> list;
  const std::regex form(one);
  for (std::sregex_iterator it(text.begin(), text.end(), form), end; it != end; ++it) {
    HeadsNamed named;
    try {
      named = heads_named((*it)[1], model.layers, model.heads);
    } catch (const formats::Error& error) {
      throw formats::bad_input(error.message(), key);
    }
    const std::size_t before = list.size();
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      if (named.layer >= 0 && named.layer != layer) continue;
      const std::int64_t heads = heads_of_layer(model, layer);
      for (std::int64_t head = 0; head < heads; ++head) {
        if (named.head < 0 || named.head == head) list.push_back({layer, head, (*it)[2]});
      }
    }
    if (list.size() == before) {
      throw formats::bad_input("no layer of this model has a head " + std::string((*it)[1]), key);
    }
  }
  return list;
}

std::vector<Repairs::Limit> limits_of(const Json& options, const char* key,
                                      const ModelConfig& model) {
  std::vector<Repairs::Limit> limits;
  for (const OfHead& one : heads_of(options, key, model, "[0-9]{1,12}", "L0H1:256 L2:64 all:512")) {
    limits.push_back({one.layer, one.head, std::stoll(one.value)});
  }
  return limits;
}

constexpr const char* kDecimal = "[0-9]{1,9}(?:\\.[0-9]{1,17})?(?:e-?[0-9]{1,2})?";

std::vector<Repairs::Factor> factors_of(const Json& options, const char* key,
                                        const ModelConfig& model, const std::string& form,
                                        const char* example) {
  std::vector<Repairs::Factor> factors;
  for (const OfHead& one : heads_of(options, key, model, form, example)) {
    factors.push_back({one.layer, one.head, std::stod(one.value)});
  }
  return factors;
}

Repairs::How how_named(const std::string& word) {
  return word == "zero"   ? Repairs::How::zero
         : word == "mean" ? Repairs::How::mean
                          : Repairs::How::resample;
}

void read_means(const std::string& path, const ModelConfig& model, Repairs& repairs) {
  const auto file = formats::SafetensorsFile::open(path);
  const formats::TensorEntry* mean = file.find("mean");
  if (mean == nullptr) {
    throw formats::bad_input("a file of heads' mean outputs has the tensor mean", path);
  }
  repairs.means = read_tensor(file, *mean).to(at::kDouble);
  const std::vector<std::int64_t> shape{model.layers, model.heads, model.head_dim};
  if (repairs.means.sizes() != at::IntArrayRef(shape)) {
    throw formats::bad_input("the mean outputs of this model's heads must have the shape (" +
                                 std::to_string(model.layers) + ", " + std::to_string(model.heads) +
                                 ", " + std::to_string(model.head_dim) + ")",
                             path);
  }
}

void read_ablations(const Json& options, const ModelConfig& model, Repairs& repairs) {
  for (const OfHead& one : heads_of(options, "head_ablations", model, "zero|mean|resample",
                                    "L0H1:zero L2:mean all:resample")) {
    repairs.ablations.push_back({one.layer, one.head, how_named(one.value)});
  }
  const std::string file = text_of(options, "ablation_means");
  if (!file.empty()) read_means(file, model, repairs);
  const auto seed = options.find("ablation_seed");
  if (seed != options.end()) {
    repairs.seed = static_cast<std::uint64_t>(seed->get<std::int64_t>());
  }
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
  const auto* table = program.as<TableProgram>();
  const bool adds = table != nullptr && !table->multiplies && table->first_distance == 0;
  return (program.is<PlainProgram>() || adds) && program.soft_cap == 0 && program.gain == 1.0 &&
         program.positions.consecutive() && !program.edit;
}

// A bias of 0, and -inf from a head's limit on; undefined where none is of this layer.
at::Tensor windows_of(const std::vector<Repairs::Limit>& limits, std::int64_t layer,
                      std::int64_t heads, std::int64_t length, at::Device device) {
  at::Tensor bias;
  for (const Repairs::Limit& limit : limits) {
    if (limit.layer != layer || limit.distance >= length) continue;
    if (!bias.defined()) {
      bias = at::zeros({heads, length}, at::TensorOptions(at::kDouble).device(device));
    }
    bias[limit.head].slice(0, limit.distance).fill_(-std::numeric_limits<double>::infinity());
  }
  return bias;
}

}  // namespace

const std::vector<OptionInfo>& repair_options() {
  static const std::vector<OptionInfo> options = {
      {"bias_table", "", "file of a bias by layer, head and distance that is added to the score"},
      {"head_windows", "", "heads that see keys nearer than a distance alone: L0H1:256 L2:64"},
      {"head_clamps", "", "heads that read farther keys as if they stood there: L0H1:255 all:511"},
      {"head_bias_scales", "",
       "heads whose bias (ALiBi's slope, T5's table) is multiplied: all:0.5 L0H1:2"},
      {"head_sink_caps", "", "heads whose weight on key 0 is bounded: L0H1:0.1 L2:0.3"},
      {"head_ablations", "",
       "heads whose output is replaced, by zero, mean or resample: L3H1:zero L2:resample"},
      {"ablation_means", "", "file of the mean outputs that head_ablations puts in place"},
      {"ablation_seed", 0, "of the rows that head_ablations draws by resample"},
  };
  return options;
}

Repairs read_repairs(const Json& options, const ModelConfig& model) {
  Repairs repairs;
  const std::string table = text_of(options, "bias_table");
  if (!table.empty()) read_table(table, model, repairs);
  repairs.windows = limits_of(options, "head_windows", model);
  for (const Repairs::Limit& limit : repairs.windows) {
    if (limit.distance == 0) {
      throw formats::bad_input("a head sees itself at least: windows are 1 or more",
                               "head_windows");
    }
  }
  repairs.clamps = limits_of(options, "head_clamps", model);
  repairs.bias_scales = factors_of(options, "head_bias_scales", model, std::string("-?") + kDecimal,
                                   "all:0.5 L0H1:2");
  repairs.sink_caps = factors_of(options, "head_sink_caps", model, kDecimal, "L0H1:0.1 L2:0.3");
  for (const Repairs::Factor& cap : repairs.sink_caps) {
    if (cap.value > 1) {
      throw formats::bad_input("the weight on key 0 is bounded by a number from 0 to 1",
                               "head_sink_caps");
    }
  }
  read_ablations(options, model, repairs);
  return repairs;
}

HeadsNamed heads_named(const std::string& words, std::int64_t layers, std::int64_t heads) {
  static const std::regex form("all|L([0-9]{1,9})(?:H([0-9]{1,9}))?");
  std::smatch parts;
  if (!std::regex_match(words, parts, form)) {
    throw formats::bad_usage("'" + words + "' names no heads", "head",
                             "write L3H1, L3 for a layer's, or all");
  }
  HeadsNamed named;
  if (parts[1].matched) named.layer = std::stoll(parts[1]);
  if (parts[2].matched) named.head = std::stoll(parts[2]);
  if (named.layer < layers && named.head < heads) return named;
  throw formats::bad_usage(std::string("there is no ") + (parts[2].matched ? "head " : "layer ") +
                               words + " in a model of " + std::to_string(layers) + " layers of " +
                               std::to_string(heads) + " heads",
                           "head");
}

const std::vector<std::string>& intervention_options() {
  static const std::vector<std::string> names = {
      "head_bias_scales", "head_sink_caps", "head_ablations", "ablation_means", "ablation_seed"};
  return names;
}

at::Tensor by_distance(const at::Tensor& table, const std::vector<std::int64_t>& edges,
                       std::int64_t length) {
  at::Tensor bucket = at::zeros({length}, table.options().dtype(at::kLong));
  for (std::size_t n = 1; n < edges.size(); ++n) {
    if (edges[n] < length) bucket.slice(0, edges[n]).add_(1);
  }
  return table.index_select(-1, bucket);
}

void add_by_distance(AttentionProgram& program, const at::Tensor& given) {
  const at::Tensor bias = given.to(program.q.device());
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
  const at::Tensor entries =
      bias.to(table_dtype(program.q.scalar_type()))
          .index_select(1, at::arange(length, bias.options().dtype(at::kLong)).clamp_max(last));
  const auto* table = program.as<TableProgram>();
  program.variant = TableProgram{
      (table != nullptr ? table->values.slice(1, 0, length) + entries : entries).contiguous()};
}

namespace {

// (H): a layer's factors, `otherwise` where none is said.
at::Tensor layer_factors(const std::vector<Repairs::Factor>& factors, std::int64_t layer,
                         std::int64_t heads, double otherwise, at::Device device) {
  at::Tensor values;
  for (const Repairs::Factor& one : factors) {
    if (one.layer != layer) continue;
    if (!values.defined()) {
      values = at::full({heads}, otherwise, at::TensorOptions(at::kDouble).device(device));
    }
    values[one.head] = one.value;
  }
  return values;
}

}  // namespace

void scale_bias(const LayerInput& input, AttentionProgram& program) {
  if (input.repairs == nullptr) return;
  const at::Tensor factors = layer_factors(input.repairs->bias_scales, input.layer,
                                           program.q.size(1), 1, program.q.device());
  if (!factors.defined()) return;
  bool adds = program.is<TermProgram>();
  for_each_added(program, [&adds](const TensorInfo&, at::Tensor&) { adds = true; });
  if (!adds) {
    throw formats::Error("not_applicable",
                         input.encoding->info().key +
                             " adds no bias of its own to the score that could be multiplied",
                         "head_bias_scales");
  }
  const auto times = [&factors](const TensorInfo& info, at::Tensor& x) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
    sizes[static_cast<std::size_t>(info.head_dim)] = -1;
    x = x * factors.to(x.scalar_type()).view(sizes);
  };
  for_each_added(program, times);
  for_each_added_of_tokens(program, times);
  TermProgram* term = program.term();
  if (term == nullptr) return;
  term->score = [score = term->score, factors](const TermRegion& region) {
    const at::Tensor& content = region.content;
    const at::Tensor here = factors.slice(0, region.first_head, region.first_head + content.size(1))
                                .to(content.scalar_type())
                                .view({1, -1, 1, 1});
    return content + here * (score(region) - content);
  };
}

namespace {

// The logarithm of the sum over all keys but the first one and the sink, (B, H, N).
at::Tensor lse_of_others(const AttentionProgram& program, Backend backend) {
  AttentionProgram others = program;
  const at::Tensor& k = program.k;
  others.key_mask = program.key_mask.defined()
                        ? program.key_mask.clone()
                        : at::ones({k.size(0), k.size(2)}, k.options().dtype(at::kBool));
  others.key_mask.select(1, 0).fill_(false);
  others.loses_rows.reset();
  const Backend runs = backend == Backend::fused ? Backend::fused : Backend::plain;
  const at::Tensor lse =
      attention(others, program.k_plain, {.backend = runs, .want_lse = true}).lse;
  if (!program.sinks.defined()) return lse;
  return at::logaddexp(lse, program.sinks.to(lse.scalar_type()).view({1, -1, 1}));
}

// Whether a gradient of the scores is wanted.
bool is_differentiated(const AttentionProgram& program) {
  return at::GradMode::is_enabled() &&
         plain_scores(program, {0, 1}, {0, 1}, {0, 1}).requires_grad();
}

// The same by plain operations, which have gradients.
at::Tensor plain_lse_of_others(const AttentionProgram& program) {
  const RowFunction of_rows = [program](std::int64_t begin, std::int64_t end) {
    const at::Tensor scores =
        plain_scores(program, {0, program.q.size(1)}, {begin, end}, {1, program.k.size(2)})
            .to(at::kDouble);
    // A row of nothing but -inf would have no gradient, and make that of its neighbours none.
    const at::Tensor none = scores.isneginf().all(-1);
    return std::vector<at::Tensor>{
        at::logsumexp(scores.masked_fill(none.unsqueeze(-1), 0.0), -1)
            .masked_fill(none, -std::numeric_limits<double>::infinity())};
  };
  const at::Tensor lse = in_row_blocks(of_rows, program.q.size(2), plain_block_rows(program))[0];
  if (!program.sinks.defined()) return lse;
  return at::logaddexp(lse, program.sinks.to(at::kDouble).view({1, -1, 1}));
}

// What the scores of key 0 are lowered by, (B, H, N): to ln(c / (1 - c)) + the log-sum-exp of the
// others where they lie above, which leaves the others' proportions as they are. A row that sees
// key 0 alone keeps it.
at::Tensor lowered_by(const at::Tensor& caps, const at::Tensor& others,
                      const AttentionProgram& program) {
  const at::Tensor first =
      plain_scores(program, {0, program.q.size(1)}, {0, program.q.size(2)}, {0, 1})
          .select(3, 0)
          .to(at::kDouble);
  const at::Tensor unknown = (others.isfinite() & first.isfinite()).logical_not();
  // A difference of infinities would spoil the gradients of all.
  const auto of_known = [&unknown](const at::Tensor& x) { return x.masked_fill(unknown, 0.0); };
  const at::Tensor bound = (caps / (1 - caps)).log().view({1, -1, 1}) + of_known(others);
  return of_known((bound - of_known(first)).clamp_max(0));
}

// Row i of a text takes the row that is drawn for it among 0..i, (N) int64.
at::Tensor drawn_rows(std::int64_t rows, std::uint64_t seed, std::int64_t layer,
                      std::int64_t head) {
  const std::uint64_t stream = (seed * 1000003 + static_cast<std::uint64_t>(layer)) * 1000003 +
                               static_cast<std::uint64_t>(head);
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(stream);
  const at::Tensor counts = at::arange(1, rows + 1, at::kDouble);
  const at::Tensor drawn = (at::rand({rows}, generator, at::kDouble) * counts).floor();
  return at::minimum(drawn, counts - 1).to(at::kLong);
}

}  // namespace

std::vector<std::int64_t> limits_of_layer(const std::vector<Repairs::Limit>& limits,
                                          std::int64_t layer, std::int64_t heads) {
  std::vector<std::int64_t> of_heads;
  for (const Repairs::Limit& limit : limits) {
    if (limit.layer != layer) continue;
    of_heads.resize(static_cast<std::size_t>(heads), -1);
    of_heads[static_cast<std::size_t>(limit.head)] = limit.distance;
  }
  return of_heads;
}

void repair(const LayerInput& input, AttentionProgram& program) {
  if (input.repairs == nullptr) return;
  const Repairs& repairs = *input.repairs;
  const std::int64_t heads = program.q.size(1);
  const std::int64_t length = program.positions.largest_distance() + 1;
  const at::Device device = program.q.device();
  scale_bias(input, program);
  const std::vector<std::int64_t> clamps = limits_of_layer(repairs.clamps, input.layer, heads);
  if (!clamps.empty()) clamp_own_distances(input, clamps, program);
  if (repairs.table.defined()) {
    const at::Tensor own = kept_on(repairs.table, device)[input.layer].narrow(0, 0, heads);
    add_by_distance(program, by_distance(own, repairs.edges, length));
  }
  const at::Tensor windows = windows_of(repairs.windows, input.layer, heads, length, device);
  if (windows.defined()) add_by_distance(program, windows);
}

at::Tensor with_biases(const LayerInput& input, const at::Tensor& scores,
                       const BoundedDistances& read, const BoundedDistances& own) {
  if (input.repairs == nullptr || read.values.numel() == 0) return scores;
  const Repairs& repairs = *input.repairs;
  at::Tensor out = scores;
  if (repairs.table.defined()) {
    const at::Tensor table =
        kept_on(repairs.table, scores.device())[input.layer].narrow(0, 0, scores.size(0));
    const at::Tensor entries = by_distance(table, repairs.edges, read.most + 1);
    out = out + entries.index_select(1, read.values).to(scores.scalar_type());
  }
  const at::Tensor windows =
      windows_of(repairs.windows, input.layer, scores.size(0), own.most + 1, scores.device());
  if (windows.defined()) {
    out = out + windows.index_select(1, own.values).to(scores.scalar_type());
  }
  return out;
}

void cap_sinks(const LayerInput& input, Backend backend, AttentionProgram& program) {
  if (input.repairs == nullptr) return;
  const at::Tensor caps = layer_factors(input.repairs->sink_caps, input.layer, program.q.size(1), 1,
                                        program.q.device());
  if (!caps.defined()) return;
  const at::Tensor others = is_differentiated(program)
                                ? plain_lse_of_others(program)
                                : lse_of_others(program, backend).to(at::kDouble);
  then(program, [lowered = lowered_by(caps, others, program)](const at::Tensor& scores,
                                                              const ScoreCorner& corner) {
    if (corner.column > 0) return scores;
    const at::Tensor here = lowered.slice(1, corner.head, corner.head + scores.size(1))
                                .slice(2, corner.row, corner.row + scores.size(2));
    const at::Tensor first = scores.slice(3, 0, 1) + here.to(scores.scalar_type()).unsqueeze(3);
    return at::cat({first, scores.slice(3, 1)}, 3);
  });
}

double sink_cap(const LayerInput& input, std::int64_t head) {
  double cap = 1;
  if (input.repairs == nullptr) return cap;
  for (const Repairs::Factor& one : input.repairs->sink_caps) {
    if (one.layer == input.layer && one.head == head) cap = one.value;
  }
  return cap;
}

at::Tensor resampled_rows(const Repairs& repairs, std::int64_t layer, std::int64_t tokens) {
  std::vector<at::Tensor> rows;
  for (const Repairs::Ablation& one : repairs.ablations) {
    if (one.layer != layer || one.how != Repairs::How::resample) continue;
    rows.push_back(drawn_rows(tokens, repairs.seed, layer, one.head));
  }
  return rows.empty() ? at::empty({0, tokens}, at::kLong) : at::stack(rows);
}

at::Tensor ablated(const Repairs& repairs, std::int64_t layer, const at::Tensor& out,
                   const at::Tensor& rows) {
  at::Tensor drawn = rows;
  std::int64_t next = 0;  // of them
  std::vector<at::Tensor> heads;
  for (const Repairs::Ablation& one : repairs.ablations) {
    if (one.layer != layer) continue;
    if (heads.empty()) heads = out.unbind(1);
    at::Tensor& head = heads[static_cast<std::size_t>(one.head)];  // (B, N, d)
    if (one.how == Repairs::How::zero) {
      head = at::zeros_like(head);
    } else if (one.how == Repairs::How::mean) {
      if (!repairs.means.defined()) {  // settings come one by one, so that it is not asked before
        throw formats::bad_input("a head's mean output is read from a file, and none is named",
                                 "ablation_means",
                                 "phasescope ablate --how mean --out FILE.safetensors writes one");
      }
      const at::Tensor means = kept_on(repairs.means, head.device());
      head = means[layer][one.head].to(head.options()).expand_as(head);
    } else {
      if (!drawn.defined()) {
        drawn = resampled_rows(repairs, layer, head.size(1)).to(head.device());
      }
      head = head.index_select(1, drawn[next++]);
    }
  }
  return heads.empty() ? out : at::stack(heads, 1);
}

}  // namespace phasescope::model
