#include "model/attention/moved_scores.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/attention/plain_attention.h"
#include "model/attention/repairs.h"
#include "model/attention/turned.h"
#include "model/encodings/rotation.h"
#include "model/host_memory.h"
#include "model/layers.h"

namespace phasescope::model {
namespace {

// The position ids of tokens by index, (P).
at::Tensor places_of(const Positions& positions, const at::Tensor& tokens) {
  if (positions.consecutive()) return tokens + positions.shift;
  return (positions.ids.dim() == 2 ? positions.ids[0] : positions.ids).index_select(0, tokens);
}

// Rows of x (1, heads, N, d) as texts of their own: (P, heads, 1, d).
at::Tensor tokens_of(const at::Tensor& x, const at::Tensor& places) {
  return x.select(0, 0).index_select(1, places).transpose(0, 1).unsqueeze(2);
}

// Two tokens a text, both with the same q or k: the query is read at the first, the key at the
// second.
at::Tensor twice(const at::Tensor& x) { return x.expand({-1, -1, 2, -1}); }

// z (P, heads, 1, 2, planes) turned by angles (P, planes) times `sign`.
at::Tensor turned_by(const at::Tensor& z, const at::Tensor& angles) {
  const at::Tensor cosine = angles.cos().to(z.scalar_type()).unsqueeze(1).unsqueeze(1);
  const at::Tensor sine = angles.sin().to(z.scalar_type()).unsqueeze(1).unsqueeze(1);
  const at::Tensor c = z.select(-2, 0), s = z.select(-2, 1);
  return at::stack({c * cosine - s * sine, s * cosine + c * sine}, -2);
}

// The states of both tokens of each pair, what the content did to them kept: the key's is turned by
// the distance it has less the one it is to have.
PositionState states_of_pairs(const LayerInput& input, const MovedPairs& pairs) {
  StartContext context = input.context;
  context.angle_dtype = at::kDouble;
  const at::Tensor angles = input.encoding->frequencies(context).to(at::kDouble);
  const at::Tensor z = input.state.z[0];  // (H or 1, N, 2, planes)
  const auto of = [&](const at::Tensor& places) {
    return z.index_select(1, places).transpose(0, 1).unsqueeze(2);
  };
  const Positions& positions = input.context.positions;
  const at::Tensor own = places_of(positions, pairs.row) - places_of(positions, pairs.column);
  const at::Tensor turns = (own - pairs.distance).to(at::kDouble).unsqueeze(1) * angles;
  PositionState state;
  state.positions.length = 2, state.positions.device = z.device();
  state.z = at::cat({of(pairs.row), turned_by(of(pairs.column), turns)}, 2);
  return state;
}

// The largest |distance| within.
std::int64_t reach_of(const DistanceRange& within) {
  return std::max(-within.least, within.greatest);
}

// What placed_pairs() places queries and keys within. The host measures ids that lie with it, and
// has tables no longer than they need.
std::optional<PositionExtent> extent_of_placed(const Positions& own, const MovedPairs& pairs) {
  if (pairs.row.is_cpu() || !pairs.within) return {};
  const PositionExtent given = own.measured();
  const auto [least, greatest] = *pairs.within;
  const std::int64_t query = std::max(given.greatest, greatest);
  return PositionExtent{std::min<std::int64_t>(given.least, 0), std::max(query, query - least),
                        reach_of(*pairs.within)};
}

PositionState placed_pairs(const LayerInput& input, const MovedPairs& pairs) {
  StartContext context = input.context;
  context.angle_dtype = at::kDouble;
  const Positions& own = input.context.positions;
  const at::Tensor query = at::maximum(places_of(own, pairs.row), pairs.distance);
  context.positions = {.length = own.length,
                       .ids = at::stack({query, query - pairs.distance}, 1),
                       .device = pairs.row.device(),
                       .extent = extent_of_placed(own, pairs)};
  PositionState state = input.encoding->start(context);
  input.encoding->before_layer(input.layer, state);
  return state;
}

// What a device's term may take for the ends of the distances that it is asked for.
void tell_distances(const MovedPairs& moved, AttentionProgram& program) {
  TermProgram* term = program.term();
  if (term == nullptr || moved.row.is_cpu() || !moved.within) return;
  term->score = [score = term->score, within = moved.within](TermRegion region) {
    region.distances = within;
    return score(region);
  };
}

// Of the encoding with its heads' factors, and nothing else that a reading does.
at::Tensor scores_of_some(const LayerInput& input, const AttentionProgram& program,
                          const MovedPairs& some) {
  const at::Tensor& row = some.row;
  at::Tensor q = tokens_of(program.q_plain, row);
  const at::Tensor k = tokens_of(program.k_plain, some.column);
  if (input.log_scale > 0) {
    const at::Tensor factors = (row + 1).to(at::kDouble).log() / std::log(input.log_scale);
    q = q * factors.to(q.scalar_type()).view({-1, 1, 1, 1});
  }
  const bool own_states = program.is<TapeProgram>();
  const PositionState state = own_states ? states_of_pairs(input, some) : placed_pairs(input, some);
  AttentionProgram pairs = input.encoding->program(*input.parameters, twice(q), twice(k), state);
  // Of the position that the query has, wherever the pair is read.
  const at::Tensor place = places_of(input.context.positions, row).unsqueeze(1).expand({-1, 2});
  change_turned(*input.config, input.layer, place, input.context.dtype, pairs);
  scale_bias(input, pairs);
  pairs.scale = program.scale, pairs.gain = program.gain, pairs.soft_cap = program.soft_cap;
  pairs.causal = false;
  tell_distances(some, pairs);
  const at::Tensor scores = plain_scores(pairs, {0, q.size(1)}, {0, 1}, {1, 2});
  return scores.flatten(1).t();  // (heads, P)
}

at::Tensor own_moved_scores(const LayerInput& input, const AttentionProgram& program,
                            const MovedPairs& pairs) {
  constexpr std::int64_t kBudget = std::int64_t{1} << 22;  // numbers of q
  const std::int64_t size = program.q.size(1) * program.q.size(3) * 2;
  const std::int64_t step = std::max<std::int64_t>(1, kBudget / size);
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < pairs.row.size(0); begin += step) {
    const auto some = [&](const at::Tensor& x) { return x.slice(0, begin, begin + step); };
    parts.push_back(scores_of_some(
        input, program, {some(pairs.row), some(pairs.column), some(pairs.distance), pairs.within}));
  }
  if (!parts.empty()) return at::cat(parts, 1);
  return at::empty({program.q.size(1), 0},
                   program.q.options().dtype(table_dtype(program.q.scalar_type())));
}

// Whether a pair's score is its content and an entry of a table.
bool adds_a_table(const AttentionProgram& program) {
  const auto* table = program.as<TableProgram>();
  return table != nullptr && !table->multiplies && !program.transformed &&
         table->first_distance == 0 && program.soft_cap == 0 && program.gain == 1.0;
}

// Whether a reading hides far keys of the layer.
bool has_windows(const LayerInput& input) {
  return input.repairs != nullptr &&
         std::ranges::any_of(input.repairs->windows, [&input](const Repairs::Limit& limit) {
           return limit.layer == input.layer;
         });
}

// What the exchanged entries add, in scores (1, H, rows, columns) of these pairs.
at::Tensor exchanged_entries(const at::Tensor& values, const MovedPairs& pairs) {
  const at::Tensor own = pairs.row - pairs.column;
  return values.index_select(1, pairs.distance.abs()) - values.index_select(1, own.abs());
}

}  // namespace

std::string no_other_distance(const ModelConfig& config, const Encoding& encoding) {
  static const std::map<std::string, std::string> why = {
      {"sinusoidal", "positions enter the embedding"},
      {"sinusoidal_2d", "positions enter the embedding"},
      {"learned", "positions enter the embedding"},
      {"ape_grid", "positions are no line"},
      {"ape_tree", "positions are no line"},
      {"cope", "the distance is counted from the content"},
      {"stick_breaking", "its pieces are counted from the content"},
      {"tape_circuit", "its states are counted from the tokens"},
      {"imported", "its queries, keys or weights came with their positions"},
  };
  const auto found = why.find(encoding.info().key);
  if (found != why.end()) return found->second;
  if (encoding.info().reads_hidden) return "what it adds is made of both tokens' hidden states";
  const Json& options = encoding.options();
  const auto is = [&](const char* key, const Json& value) {
    return options.contains(key) && options.at(key) == value;
  };
  const bool drawn =
      config.positions.map.starts_with("random") && config.positions.draw == "always";
  if (drawn || is("draw", "always")) return "distances are drawn";
  if (is("form", "conv")) return "its correction reads the pairs beside a pair";
  if (encoding.info().key == "tape" && (!is("tensor_form", "LR22") || is("equivariance", false))) {
    return "its state is no phase of each plane";
  }
  return {};
}

namespace {

// The pairs with distances past a limit, -1 for none, read at it.
MovedPairs within_limit(MovedPairs pairs, std::int64_t limit) {
  if (limit < 0) return pairs;
  pairs.distance = pairs.distance.clamp(-limit, limit);
  if (pairs.within) {
    const auto [least, greatest] = *pairs.within;
    pairs.within = {std::clamp(least, -limit, limit), std::clamp(greatest, -limit, limit)};
  }
  return pairs;
}

// |distance| of some pairs. A device takes the bound, where one is known: it is not asked.
BoundedDistances bounded(const at::Tensor& distance, std::optional<std::int64_t> bound) {
  const at::Tensor sizes = distance.abs();
  if (bound && !sizes.is_cpu()) return {sizes, *bound};
  return {sizes, sizes.numel() == 0 ? 0 : sizes.max().item<std::int64_t>()};
}

}  // namespace

at::Tensor moved_scores(const LayerInput& input, const AttentionProgram& program,
                        const MovedPairs& pairs) {
  if (input.repairs == nullptr) return own_moved_scores(input, program, pairs);
  const std::vector<std::int64_t> clamps =
      limits_of_layer(input.repairs->clamps, input.layer, program.q.size(1));
  std::map<std::int64_t, at::Tensor> of_limit;  // heads of one limit are scored once
  std::vector<at::Tensor> heads;
  for (std::size_t head = 0; head < clamps.size(); ++head) {
    const std::int64_t limit = clamps[head];
    at::Tensor& all = of_limit[limit];
    if (!all.defined()) all = own_moved_scores(input, program, within_limit(pairs, limit));
    heads.push_back(all[static_cast<std::int64_t>(head)]);
  }
  const at::Tensor scores =
      heads.empty() ? own_moved_scores(input, program, pairs) : at::stack(heads);
  if (!input.repairs->table.defined() && !has_windows(input)) return scores;
  const Positions& positions = input.context.positions;
  const at::Tensor own = places_of(positions, pairs.row) - places_of(positions, pairs.column);
  const auto reach = pairs.within ? std::optional(reach_of(*pairs.within)) : std::nullopt;
  return with_biases(input, scores, bounded(pairs.distance, reach),
                     bounded(own, positions.largest_distance()));
}

namespace {

using PairScores = at::Tensor (*)(const LayerInput&, const AttentionProgram&,
                                  const MovedPairs& pairs);
// A block of one text's scores, which lie on a device.
struct TextBlock {
  std::int64_t text = 0;
  ScoreCorner corner;
  std::int64_t rows = 0, columns = 0;
  at::Device device = at::kCPU;
};
// The pairs of a block, on its device; none may be undefined.
using PairsOfBlock = std::function<MovedPairs(const TextBlock& block)>;

// Those of some pairs that lie in the block, by their columns. In one that has every key of its
// rows all do, and their device is asked for nothing.
MovedPairs in_block(MovedPairs some, const TextBlock& block) {
  const std::int64_t begin = block.corner.column, end = begin + block.columns;
  if (begin == 0 && end >= block.corner.row + block.rows) return some;
  const at::Tensor kept = ((some.column >= begin) & (some.column < end)).nonzero().squeeze(1);
  for (at::Tensor* places : {&some.row, &some.column, &some.distance}) {
    *places = places->index_select(0, kept);
  }
  return some;
}

// Whether a table may hold what a reading's windows hide, which goes by place and not by distance.
bool hides_in_table(PairScores scores_at, const LayerInput& input) {
  return scores_at == moved_scores && has_windows(input);
}

// One text of those that are read at once; what all of them share stays.
at::Tensor of_text(const at::Tensor& x, std::int64_t text) {
  return x.defined() && x.size(0) > 1 ? x.slice(0, text, text + 1) : x;
}
LayerInput of_text(LayerInput input, std::int64_t text) {
  Positions& positions = input.context.positions;
  for (at::Tensor* ids : {&positions.ids, &positions.kept}) {
    if (ids->defined() && ids->dim() == 2) *ids = of_text(*ids, text);
  }
  input.state.z = of_text(input.state.z, text);
  return input;
}
AttentionProgram of_text(AttentionProgram program, std::int64_t text) {
  for (at::Tensor* x : {&program.q, &program.k, &program.q_plain, &program.k_plain}) {
    *x = of_text(*x, text);
  }
  return program;
}

// Whether pairs may be read at the distance that they have, and keep their bits then.
enum class Moved { all, some };

// Reads pairs of some heads at other distances; `scores_at` says what their scores are there.
void move_pairs_by(PairScores scores_at, const LayerInput& input, Moved how,
                   const PairsOfBlock& pairs, const std::vector<std::int64_t>& heads,
                   AttentionProgram& program) {
  if (program.is<PlainProgram>() && !program.transformed) return;
  const AttentionProgram given = program;
  const bool table =
      adds_a_table(given) && given.positions.consecutive() && !hides_in_table(scores_at, input);
  program.edit = [=](const at::Tensor& scores, const ScoreCorner& corner) {
    const at::Tensor before = given.edit ? given.edit(scores, corner) : scores;
    at::Tensor out;
    for (std::int64_t text = 0; text < scores.size(0); ++text) {
      const MovedPairs some =
          pairs({text, corner, scores.size(2), scores.size(3), scores.device()});
      if (some.row.size(0) == 0) continue;
      const at::Tensor moved = table ? exchanged_entries(given.as<TableProgram>()->values, some)
                                     : scores_at(of_text(input, text), of_text(given, text), some);
      if (!out.defined()) out = before.clone();
      const at::Tensor row = some.row - corner.row, column = some.column - corner.column;
      at::Tensor stays;
      if (how == Moved::some) stays = some.row - some.column == some.distance;
      for (std::int64_t h = 0; h < scores.size(1); ++h) {
        const std::int64_t head = corner.head + h;
        const bool wanted = heads.empty() || std::ranges::find(heads, head) != heads.end();
        if (!wanted) continue;
        at::Tensor values = moved[head].to(out.scalar_type());
        if (stays.defined()) {
          values = table ? values.masked_fill(stays, 0.0)
                         : at::where(stays, before[text][h].index({row, column}), values);
        }
        out[text][h].index_put_({row, column}, values, table);
      }
    }
    return out.defined() ? out : before;
  };
}

}  // namespace

void move_pairs(const LayerInput& input, const PairsOfRows& pairs,
                const std::vector<std::int64_t>& heads, AttentionProgram& program) {
  const PairsOfBlock of_every_text = [pairs](const TextBlock& block) {
    return in_block(pairs(block.corner.row, block.rows), block);
  };
  move_pairs_by(moved_scores, input, Moved::some, of_every_text, heads, program);
}

namespace {

// Whether change_turned() may give the score another q and k than the encoding made.
bool stands_between(const ModelConfig& config) {
  return config.attention.temperature != 0 || config.attention.qk_norm_after;
}

// Pairs of one text by their places, of which nothing else has changed the scores.
bool goes_by_distance(const AttentionProgram& program) {
  return program.positions.consecutive() && program.causal && program.query_offset == 0 &&
         !program.edit && !program.tokens.defined();
}

// The entries of a table at its heads' limits in place of all farther ones.
bool clamp_in_table(const std::vector<std::int64_t>& limits, AttentionProgram& program) {
  auto* table = program.as<TableProgram>();
  if (table == nullptr || program.transformed || table->first_distance != 0) return false;
  const std::int64_t length = table->values.size(1);
  std::vector<at::Tensor> rows;
  for (std::size_t h = 0; h < limits.size(); ++h) {
    at::Tensor row = table->values[static_cast<std::int64_t>(h)];
    const std::int64_t most = limits[h] < 0 ? length - 1 : std::min(limits[h], length - 1);
    rows.push_back(at::cat({row.slice(0, 0, most + 1), row[most].expand({length - 1 - most})}));
  }
  table->values = at::stack(rows);
  return true;
}

// What an encoding makes of q and k of a layer that all stand at one place, but for the first
// token: it stays at 0, from where xPos counts its decay. No query of it is ever far from a key.
AttentionProgram at_one_place(const LayerInput& input, const at::Tensor& q, const at::Tensor& k,
                              std::int64_t place) {
  StartContext context = input.context;
  context.angle_dtype = at::kDouble;
  const Positions& positions = input.context.positions;
  at::Tensor ids = at::full({positions.length}, place, positions.options(at::kLong));
  ids.slice(0, 0, 1).zero_();
  context.positions = {.length = positions.length,
                       .ids = ids,
                       .device = positions.device,
                       .extent = PositionExtent{0, place, place}};
  PositionState state = input.encoding->start(context);
  input.encoding->before_layer(input.layer, state);
  return input.encoding->program(*input.parameters, q, k, state);
}

// A second set of q and k, turned by each head's limit and by nothing.
bool clamp_by_far_keys(const LayerInput& input, const std::vector<std::int64_t>& limits,
                       AttentionProgram& program) {
  if (!program.is<PlainProgram>() || !input.encoding->shift_invariant()) return false;
  at::Tensor q = program.q_plain;
  const at::Tensor& k = program.k_plain;
  if (input.log_scale > 0) {
    const at::Tensor rows = at::arange(1, q.size(2) + 1, q.options().dtype(at::kDouble));
    q = q * (rows.log() / std::log(input.log_scale)).to(q.scalar_type()).unsqueeze(1);
  }
  // These may not be its q and k then, or, where queries grow, have another rounding: they are
  // compared.
  if (stands_between(*input.config) || input.log_scale > 0) {
    const AttentionProgram own = input.encoding->program(*input.parameters, q, k, input.state);
    if (!own.q.equal(program.q) || !own.k.equal(program.k)) return false;
  }
  std::map<std::int64_t, at::Tensor> turned;
  std::vector<at::Tensor> heads;
  ClampProgram clamp;
  clamp.k = at_one_place(input, q, k, 0).k;
  const std::int64_t reach = program.positions.length;
  for (std::size_t h = 0; h < limits.size(); ++h) {
    const auto head = static_cast<std::int64_t>(h);
    clamp.limits.push_back(limits[h] < 0 ? reach : limits[h]);
    if (clamp.limits[h] >= reach) {
      heads.push_back(program.q.select(1, head));  // which nothing reads
      continue;
    }
    at::Tensor& far = turned[limits[h]];
    if (!far.defined()) far = at_one_place(input, q, k, limits[h]).q;
    heads.push_back(far.select(1, head));
  }
  clamp.q = at::stack(heads, 1);
  program.variant = std::move(clamp);
  return true;
}

// What far pairs are read at.
DistanceRange ends_of(std::int64_t limit, bool both) { return {both ? -limit : limit, limit}; }

// Far pairs of consecutive positions, which are triangles of a block: made on its device, and none
// of their numbers is asked for. `both`: of keys after the query too.
MovedPairs far_triangles(const TextBlock& block, std::int64_t limit, bool both) {
  const ScoreCorner& corner = block.corner;
  const std::int64_t diagonal = corner.row - corner.column;  // where a column is the row's token
  const auto whole = at::TensorOptions(at::kLong).device(block.device);
  at::Tensor places = at::tril_indices(block.rows, block.columns, diagonal - limit - 1, whole);
  at::Tensor distance = at::full({places.size(1)}, limit, whole);
  if (both) {
    const at::Tensor after =
        at::triu_indices(block.rows, block.columns, diagonal + limit + 1, whole);
    places = at::cat({places, after}, 1);
    distance = at::cat({distance, at::full({after.size(1)}, -limit, whole)});
  }
  return {places[0] + corner.row, places[1] + corner.column, distance, ends_of(limit, both)};
}

// How far the tokens of a block lie apart by given ids, (N) or (B, N), with 0 where no pair is far:
// (rows, columns).
at::Tensor far_distances(const at::Tensor& ids, const TextBlock& block, std::int64_t limit,
                         bool both) {
  const ScoreCorner& corner = block.corner;
  const at::Tensor own = ids.dim() == 2 ? ids[ids.size(0) > 1 ? block.text : 0] : ids;
  const at::Tensor distance = own.narrow(0, corner.row, block.rows).unsqueeze(1) -
                              own.narrow(0, corner.column, block.columns).unsqueeze(0);
  if (both) return distance.masked_fill(distance.abs() <= limit, 0);
  return distance.masked_fill(distance <= limit, 0).tril(corner.row - corner.column);
}

// Far pairs by given ids. The host, which has these too, says how many there are: a device would be
// asked.
MovedPairs far_pairs(const Positions& positions, const at::Tensor& ids_on_host,
                     const TextBlock& block, std::int64_t limit, bool both) {
  const auto apart = [&](const at::Tensor& ids) { return far_distances(ids, block, limit, both); };
  const at::Tensor distance = apart(positions.ids);
  const auto count = at::count_nonzero(apart(ids_on_host)).item<std::int64_t>();
  const at::Tensor far = distance.nonzero_static(count);
  const at::Tensor row = far.select(1, 0), column = far.select(1, 1);
  return {row + block.corner.row, column + block.corner.column,
          distance.index({row, column}).clamp(-limit, limit), ends_of(limit, both)};
}

// By plain operations, the heads of one limit.
void clamp_plainly(PairScores scores_at, const LayerInput& input, std::int64_t limit,
                   const std::vector<std::int64_t>& heads, AttentionProgram& program) {
  // Who sees both ways reads keys behind it as far away as those before it.
  const bool both = !program.causal;
  const Positions& positions = input.context.positions;
  const at::Tensor here = positions.ids_on_host();
  const PairsOfBlock far = [=](const TextBlock& block) {
    return here.defined() ? far_pairs(positions, here, block, limit, both)
                          : far_triangles(block, limit, both);
  };
  move_pairs_by(scores_at, input, Moved::all, far, heads, program);
}

void clamp_by(PairScores scores_at, const LayerInput& input,
              const std::vector<std::int64_t>& limits, AttentionProgram& program) {
  if (program.is<PlainProgram>() && !program.transformed) return;
  const std::int64_t farthest = program.positions.largest_distance();
  if (std::ranges::none_of(limits, [=](auto n) { return n >= 0 && n < farthest; })) return;
  if (goes_by_distance(program) &&
      ((!hides_in_table(scores_at, input) && clamp_in_table(limits, program)) ||
       clamp_by_far_keys(input, limits, program))) {
    return;
  }
  std::map<std::int64_t, std::vector<std::int64_t>> heads_of;
  for (std::size_t h = 0; h < limits.size(); ++h) {
    if (limits[h] >= 0) heads_of[limits[h]].push_back(static_cast<std::int64_t>(h));
  }
  for (const auto& [limit, heads] : heads_of) {
    clamp_plainly(scores_at, input, limit, heads, program);
  }
}

}  // namespace

void clamp_distances(const LayerInput& input, const std::vector<std::int64_t>& limits,
                     AttentionProgram& program) {
  clamp_by(moved_scores, input, limits, program);
}

void clamp_own_distances(const LayerInput& input, const std::vector<std::int64_t>& limits,
                         AttentionProgram& program) {
  clamp_by(own_moved_scores, input, limits, program);
}

bool all_programs(const Decoder& decoder, std::int64_t tokens, const ProgramTest& holds) {
  const at::NoGradGuard no_gradients;
  const ModelConfig& config = decoder.config();
  if (stands_between(config)) return false;
  static const Parameters none;
  const Weights& weights = decoder.weights();
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (heads_of_layer(config, layer) == 0) continue;
    const Encoding& encoding = decoder.encoding_of(layer);
    const bool of_group = config.encoding_group_of(layer) >= 0;
    const bool local = !of_group && &encoding != &decoder.encoding();
    LayerInput input{.layer = layer, .encoding = &encoding};
    input.parameters = &weights.layers[static_cast<std::size_t>(layer)].encoding;
    input.log_scale = config.attention.log_scale;
    input.context.positions = {.length = tokens, .ids = {}, .device = decoder.device()};
    input.context.dtype = decoder.dtype();
    input.context.angle_dtype = at::promote_types(decoder.dtype(), at::kFloat);
    input.context.shared = of_group ? &none : local ? &weights.local_encoding : &weights.encoding;
    input.state = encoding.start(input.context);
    encoding.before_layer(layer, input.state);
    const LayerShape shape = config.shape_of(layer);
    const auto zeros = [&](std::int64_t heads) {
      return at::zeros({1, heads, tokens, shape.head_dim},
                       at::TensorOptions(decoder.dtype()).device(decoder.device()));
    };
    AttentionProgram program =
        encoding.program(*input.parameters, zeros(shape.heads), zeros(shape.kv_heads), input.state);
    input.repairs = &decoder.repairs_of(layer);
    input.config = &config;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      if (sink_cap(input, head) < 1) return false;
    }
    repair(input, program);
    if (!holds(input, program)) return false;
  }
  return true;
}

bool clamps_stay_fused(const Decoder& decoder, std::int64_t tokens) {
  return all_programs(decoder, tokens, [](const LayerInput& input, AttentionProgram& program) {
    const auto heads = static_cast<std::size_t>(program.q.size(1));
    clamp_distances(input, std::vector<std::int64_t>(heads), program);
    return !program.edit;
  });
}

}  // namespace phasescope::model
