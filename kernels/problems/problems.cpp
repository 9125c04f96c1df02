#include "kernels/problems/problems.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace phasescope::kernels::problems {
namespace {

InputTensor interleaved(const std::vector<float>& data, std::int64_t heads, std::int64_t rows,
                        std::int64_t dim) {
  return {data.data(), rows * heads * dim, dim, heads * dim};
}

/// Entries that hold every distance of a shape.
std::int64_t distances_of(const AttentionShape& s) {
  return s.queries + s.keys + std::abs(s.query_offset) + 3;
}

/// (heads, length); in sloping ones each head's slope is a share of the last one's, 0.1.
std::vector<float> draw_table(const Problem& problem, std::int64_t length, Random& random) {
  const std::int64_t heads = problem.shape.heads;
  if (!problem.sloping_table) return random.normal(heads * length);
  std::vector<float> table;
  for (std::int64_t head = 1; head <= heads; ++head) {
    const float slope = -0.1f * static_cast<float>(head) / static_cast<float>(heads);
    for (std::int64_t n = 0; n < length; ++n) table.push_back(slope * static_cast<float>(n));
  }
  return table;
}

/// The document of each of a text's tokens.
std::vector<std::int32_t> draw_documents(Documents documents, std::int64_t text,
                                         std::int64_t tokens) {
  const std::int64_t lengths[] = {5, 64, 1, 37, 100, 16, 70};
  std::vector<std::int32_t> ids;
  std::int32_t stretch = 0;
  while (static_cast<std::int64_t>(ids.size()) < tokens) {
    const auto n = static_cast<std::int64_t>(ids.size());
    if (documents == Documents::mixed) {
      ids.push_back(static_cast<std::int32_t>((n * n / 3 + n * 7 + text) % 3));
      continue;
    }
    // Numbers of neither order nor sign.
    const std::int32_t document =
        documents == Documents::packed ? (stretch * 7919 + 13) % 1000 - 500 : stretch % 3;
    ids.insert(ids.end(), static_cast<std::size_t>(lengths[(stretch + 2 * text) % 7]), document);
    ++stretch;
  }
  ids.resize(static_cast<std::size_t>(tokens));
  return ids;
}

/// Ascending, in 0 <= u < 1: two that coincide, the others drawn, and of many one at 0, where the
/// bias of a token's own distance has a slope to one side alone.
std::vector<float> draw_knots(std::int64_t count, Random& random) {
  std::vector<float> knots;
  for (const float x : random.normal(count)) knots.push_back(0.5f * std::erfc(x));
  for (float& knot : knots) knot = std::min(knot, 0.999f);
  if (count > 10) knots[0] = 0;
  if (count > 2) knots[1] = knots[2];
  std::sort(knots.begin(), knots.end());
  return knots;
}

}  // namespace

std::int64_t values_of(const AttentionShape& s) { return s.value_dim ? s.value_dim : s.head_dim; }

std::vector<float> Random::normal(std::int64_t count, float deviation) {
  std::normal_distribution<float> draw(0, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = draw(engine_);
  return values;
}

namespace {

struct KindLine {
  const char *name, *score;
};
// In the order of Kind.
constexpr KindLine kKinds[] = {
#define PHASESCOPE_KIND(name, score) {#name, #score},
#include "kernels/problems/kinds.inc"
#undef PHASESCOPE_KIND
};

}  // namespace

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = [] {
    std::vector<Kind> all;
    for (std::size_t n = 0; n < std::size(kKinds); ++n) all.push_back(static_cast<Kind>(n));
    return all;
  }();
  return kinds;
}

std::string kind_name(Kind kind) { return kKinds[static_cast<int>(kind)].name; }
std::string kind_score(Kind kind) { return kKinds[static_cast<int>(kind)].score; }

bool is_on_cuda(Kind kind) {
  const std::optional<ScoreName> score = find_score(kind_score(kind));
  return score && with_pass(*score, &ScoreLine::on_cuda, "forward");
}
std::vector<Kind> kinds_on_cuda() {
  std::vector<Kind> kinds = all_kinds();
  std::erase_if(kinds, [](Kind kind) { return !is_on_cuda(kind); });
  return kinds;
}

bool is_cape(Kind kind) { return kind >= Kind::cape && kind <= Kind::cape_fire_add_residual; }
bool has_phase(Kind kind) { return kind == Kind::tapa || kind == Kind::tapa_linear; }
bool is_on_fire(Kind kind) {
  return kind == Kind::fire || (kind >= Kind::cape_fire && kind <= Kind::cape_fire_add_residual);
}
bool has_tokens(Kind kind) {
  return kind >= Kind::forgetting && kind <= Kind::relative_keys_tokens;
}

RandomInputs::RandomInputs(const Problem& problem) {
  Random random(problem.seed);
  AttentionShape s = problem.shape;
  s.causal = s.causal || is_on_fire(problem.kind);
  inputs.shape = s;
  inputs.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  inputs.soft_cap = problem.soft_cap;
  for (std::int64_t n = 0; n < s.batch * s.keys && problem.padding != Padding::none; ++n) {
    const std::int64_t j = n % s.keys, third = (n / s.keys + 1) * s.keys / 3;
    real.push_back(problem.padding == Padding::left    ? j >= third
                   : problem.padding == Padding::right ? j < s.keys - third
                                                       : j % 5 != 3);
  }
  if (!real.empty()) inputs.key_mask = real.data();
  if (problem.documents != Documents::none) make_documents(problem);
  if (problem.sinks != Sinks::none) make_sinks(problem);
  if (problem.gates != Gates::none) make_gates(problem);
  const std::int64_t dim = values_of(s);
  q = random.normal(s.batch * s.heads * s.queries * s.head_dim, problem.magnitude);
  k = random.normal(s.batch * s.kv_heads * s.keys * s.head_dim);
  v = random.normal(s.batch * s.kv_heads * s.keys * dim);
  d_out = random.normal(s.batch * s.heads * s.queries * dim);
  inputs.q = interleaved(q, s.heads, s.queries, s.head_dim);
  inputs.k = interleaved(k, s.kv_heads, s.keys, s.head_dim);
  inputs.v = interleaved(v, s.kv_heads, s.keys, dim);
  make_variant(problem, random);
  if (has_tokens(problem.kind)) make_tokens(problem);
}

void RandomInputs::make_documents(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::vector<std::int32_t> keys = draw_documents(problem.documents, b, s.keys);
    key_documents.insert(key_documents.end(), keys.begin(), keys.end());
    for (std::int64_t i = 0; i < s.queries; ++i) {
      const std::int64_t place = i + s.query_offset;
      query_documents.push_back(place >= 0 && place < s.keys ? keys[static_cast<std::size_t>(place)]
                                                             : 12345);
    }
  }
  inputs.query_documents = query_documents.data();
  inputs.key_documents = key_documents.data();
}

/// Drawn by themselves, so that the rest of a problem is what it is without them.
void RandomInputs::make_sinks(const Problem& problem) {
  Random random(problem.seed + 1000);
  sinks = random.normal(inputs.shape.heads);
  for (float& sink : sinks) {
    if (problem.sinks == Sinks::large) sink += 5;
    if (problem.sinks == Sinks::off) sink = -std::numeric_limits<float>::infinity();
  }
  inputs.sinks = sinks.data();
}

/// Drawn by themselves, as sinks are.
void RandomInputs::make_gates(const Problem& problem) {
  const AttentionShape& s = inputs.shape;
  Random random(problem.seed + 3000);
  const std::int64_t dim = problem.gates == Gates::by_row ? 1 : values_of(s);
  gate = random.normal(s.batch * s.heads * s.queries * dim);
  for (std::size_t n = 0; n < gate.size(); n += 7) gate[n] = 0;
  inputs.gate = interleaved(gate, s.heads, s.queries, dim);
  inputs.gate_dim = dim;
}

void RandomInputs::make_variant(const Problem& problem, Random& random) {
  const AttentionShape& s = problem.shape;
  switch (problem.kind) {
    case Kind::table:
    case Kind::table_signed:
    case Kind::table_multiplied:
    case Kind::table_tokens:
      inputs.variant = make_table(problem, random);
      return;
    case Kind::tapa:
    case Kind::tapa_linear:
      inputs.variant = make_tapa(problem);
      return;
    case Kind::tape:
      inputs.variant = make_tape(problem, random);
      return;
    case Kind::query_table: {
      const std::int64_t own =
          problem.query_distances > 0 ? problem.query_distances : s.keys / 2 + 1;
      table = random.normal(s.batch * s.heads * s.queries * own);
      inputs.variant = QueryTableVariant{table.data(), own};
      return;
    }
    case Kind::relative_keys:
    case Kind::relative_keys_tokens:
      inputs.variant = make_relative_keys(problem, random);
      return;
    case Kind::clamp:
      inputs.variant = make_clamp(problem, random);
      return;
    case Kind::fire:
      inputs.variant = make_fire(problem, random);
      return;
    default:
      if (is_cape(problem.kind)) inputs.variant = make_cape(problem, random);
  }
}

TableVariant RandomInputs::make_table(const Problem& problem, Random& random) {
  const std::int64_t length = distances_of(problem.shape);
  const bool with_sign = problem.kind == Kind::table_signed;
  const std::int64_t size = with_sign ? 2 * length : length;
  table = draw_table(problem, size, random);
  const float none = -std::numeric_limits<float>::infinity();
  for (std::size_t n = 0; problem.infinite_table && n < table.size(); n += 3) table[n] = none;
  const bool multiplies = problem.kind == Kind::table_multiplied;
  if (multiplies && size > 5) table[5] = 0;
  return {table.data(), size, size, with_sign ? -length : 0, multiplies};
}

/// alpha 0.5 and 2 pi folded in: phases of hundreds of radians.
TapaVariant RandomInputs::make_tapa(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  const std::int64_t length = distances_of(s);
  for (std::int64_t n = 0; n < length; ++n) {
    table.push_back(6.2831853f * std::sqrt(static_cast<float>(n)));
  }
  TapaVariant tapa;
  tapa.content_dim = std::max<std::int64_t>(1, s.head_dim / 2);
  tapa.scale_content = 1 / std::sqrt(static_cast<float>(tapa.content_dim));
  tapa.scale_phase = 0.3f / std::sqrt(static_cast<float>(s.head_dim - tapa.content_dim));
  tapa.phase = problem.kind == Kind::tapa ? TapaPhase::quadratic : TapaPhase::linear;
  tapa.power = table.data();
  tapa.power_length = length;
  return tapa;
}

TapeVariant RandomInputs::make_tape(const Problem& problem, Random& random) {
  const AttentionShape& s = problem.shape;
  const std::int64_t by_keys =
      s.keys % 2 == 1 ? s.head_dim : std::max<std::int64_t>(1, s.head_dim / 2);
  const std::int64_t dim = problem.state_dim > 0 ? problem.state_dim : by_keys;
  state = random.normal(s.batch * s.kv_heads * s.keys * dim);
  d_out_state = random.normal(s.batch * s.heads * s.queries * dim);
  return {interleaved(state, s.kv_heads, s.keys, dim), dim};
}

/// Their scores are as large as those of q and k.
RelativeKeysVariant RandomInputs::make_relative_keys(const Problem& problem, Random& random) {
  const AttentionShape& s = inputs.shape;
  const bool clips = problem.kind == Kind::relative_keys_tokens;
  RelativeKeysVariant relative;
  relative.rank = problem.rank;
  relative.clips = clips;
  relative.first_distance = clips ? -3 : problem.query_distances > 0 ? 0 : -(s.keys / 4);
  relative.length = clips                         ? 9
                    : problem.query_distances > 0 ? problem.query_distances
                                                  : s.keys / 4 + s.keys / 2 + 1;
  relative.head_stride = clips ? 0 : relative.rank * relative.length;
  far_q = random.normal(s.batch * s.heads * s.queries * relative.rank);
  table = random.normal(relative.size(s), 1 / std::sqrt(static_cast<float>(relative.rank)));
  relative.r = interleaved(far_q, s.heads, s.queries, relative.rank);
  relative.keys = table.data();
  return relative;
}

/// The first head's limit is 0, the second's a third of the keys, the third's none, and so on.
ClampVariant RandomInputs::make_clamp(const Problem& problem, Random& random) {
  const AttentionShape& s = inputs.shape;
  far_q = random.normal(s.batch * s.heads * s.queries * s.head_dim, problem.magnitude);
  far_k = random.normal(s.batch * s.kv_heads * s.keys * s.head_dim);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    limits.push_back(h % 3 == 0 ? 0 : h % 3 == 1 ? s.keys / 3 : std::int64_t{1} << 40);
  }
  return {interleaved(far_q, s.heads, s.queries, s.head_dim),
          interleaved(far_k, s.kv_heads, s.keys, s.head_dim), limits.data()};
}

/// c = 0.5, and a threshold of a third of the keys (a place at least: without one, the first row's
/// factor is a million).
FireVariant RandomInputs::make_fire(const Problem& problem, Random& random) {
  const AttentionShape& s = problem.shape;
  const std::int64_t length = distances_of(s);
  const auto log_place = [](std::int64_t place) {
    return std::log(0.5 * static_cast<double>(place) + 1);
  };
  for (std::int64_t n = 0; n < length; ++n) table.push_back(static_cast<float>(log_place(n)));
  for (std::int64_t i = 0; i < s.queries; ++i) {
    const std::int64_t place = std::max({i + s.query_offset, s.keys / 3, std::int64_t{1}});
    const double steep = problem.steep ? 1 + static_cast<double>(i) / 16 : 1;
    factor.push_back(static_cast<float>(1 / (log_place(place) + 1e-6) / steep));
  }
  knots = draw_knots(problem.knots, random);
  // The pieces meet at the knots.
  const std::vector<float> first = random.normal(2 * s.heads);
  const std::vector<float> bends =
      random.normal(s.heads * problem.knots, 3 / std::sqrt(1 + static_cast<float>(problem.knots)));
  for (std::int64_t h = 0; h < s.heads; ++h) {
    double a = static_cast<double>(first[static_cast<std::size_t>(2 * h)]);
    double b = static_cast<double>(first[static_cast<std::size_t>(2 * h + 1)]);
    for (std::int64_t n = 0; n <= problem.knots; ++n) {
      slope.push_back(static_cast<float>(a));
      intercept.push_back(static_cast<float>(b));
      if (n == problem.knots) break;
      const auto bend = static_cast<double>(bends[static_cast<std::size_t>(h * problem.knots + n)]);
      a += bend;
      b -= bend * static_cast<double>(knots[static_cast<std::size_t>(n)]);
    }
  }
  return {.distance = table.data(),
          .length = length,
          .factor = factor.data(),
          .knots = knots.data(),
          .segments = problem.knots + 1,
          .slope = slope.data(),
          .intercept = intercept.data(),
          .head_stride = problem.knots + 1};
}

CapeVariant RandomInputs::make_cape(const Problem& problem, Random& random) {
  const AttentionShape& s = problem.shape;
  const Kind kind = problem.kind;
  CapeVariant cape;
  cape.form = kind == Kind::cape || kind == Kind::cape_fire ? CapeForm::concat_residual
              : kind == Kind::cape_concat || kind == Kind::cape_fire_concat ? CapeForm::concat
              : kind == Kind::cape_content                                  ? CapeForm::content
                                           : CapeForm::add_residual;
  const bool wide = cape.form == CapeForm::concat_residual || cape.form == CapeForm::concat;
  const std::int64_t width = wide ? 2 * s.heads : s.heads;
  cape.hidden = problem.hidden;
  if (is_on_fire(kind)) {
    cape.fire = make_fire(problem, random);
  } else {
    const std::int64_t length = distances_of(s);
    table = draw_table(problem, length, random);
    cape.values = kind == Kind::cape_content ? nullptr : table.data();
    cape.head_stride = cape.length = length;
  }
  w1 = random.normal(cape.hidden * width, 1 / std::sqrt(static_cast<float>(width)));
  b1 = random.normal(cape.hidden);
  w2 = random.normal(s.heads * cape.hidden, 0.3f);
  b2 = random.normal(s.heads);
  cape.w1 = w1.data();
  cape.b1 = b1.data();
  cape.w2 = w2.data();
  cape.b2 = b2.data();
  return cape;
}

/// Forgetting's sums begin at 3e5, where float32 holds 1/32: their differences have to be exact.
/// Factors of either sign, some of them 0.
void RandomInputs::make_tokens(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  Random random(problem.seed + 2000);
  const auto rows = s.batch * s.heads;
  const auto draw = [&](std::int64_t count) {
    const std::vector<float> values = random.normal(count);
    return std::vector<double>(values.begin(), values.end());
  };
  if (problem.kind == Kind::forgetting) {
    const std::int64_t first = std::min<std::int64_t>(0, s.query_offset);
    const std::int64_t last = std::max(s.keys, s.query_offset + s.queries);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = -3e5;
      const std::vector<float> steps = random.normal(last - first, 0.05f);
      for (std::int64_t n = first; n < last; ++n) {
        sum -= std::abs(static_cast<double>(steps[static_cast<std::size_t>(n - first)]));
        if (n >= 0 && n < s.keys) key_bias.push_back(-sum);
        const std::int64_t query = n - s.query_offset;
        if (query >= 0 && query < s.queries) query_bias.push_back(sum);
      }
    }
  } else {
    query_bias = draw(rows * s.queries);
    key_bias = draw(rows * s.keys);
    query_factor = random.normal(rows * s.queries);
    for (std::size_t n = 0; n < query_factor.size(); n += 11) query_factor[n] = 0;
  }
  const auto given = [](auto& values) { return values.empty() ? nullptr : values.data(); };
  inputs.tokens = {given(query_bias), given(key_bias), given(query_factor)};
}

}  // namespace phasescope::kernels::problems
