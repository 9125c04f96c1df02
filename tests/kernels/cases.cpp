#include "tests/kernels/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/half_types.h"

namespace phasescope::kernels::testing {

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::vector<float> normal(std::int64_t count, float deviation = 1) {
    std::normal_distribution<float> draw(0, deviation);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = draw(engine_);
    return values;
  }

 private:
  std::mt19937 engine_;
};

namespace {

InputTensor interleaved(const std::vector<float>& data, std::int64_t heads, std::int64_t rows,
                        std::int64_t dim) {
  return {data.data(), rows * heads * dim, dim, heads * dim};
}

/// InputTensor or OutputTensor.
template <typename Tensor>
Tensor contiguous(std::vector<float>& data, std::int64_t heads, std::int64_t rows,
                  std::int64_t dim) {
  return {data.data(), heads * rows * dim, rows * dim, dim};
}

std::int64_t values_of(const AttentionShape& s) { return s.value_dim ? s.value_dim : s.head_dim; }

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

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds{Kind::plain,
                                       Kind::table,
                                       Kind::table_signed,
                                       Kind::table_multiplied,
                                       Kind::tapa,
                                       Kind::tapa_linear,
                                       Kind::tape,
                                       Kind::fire,
                                       Kind::cape,
                                       Kind::cape_concat,
                                       Kind::cape_add_residual,
                                       Kind::cape_content,
                                       Kind::cape_fire,
                                       Kind::cape_fire_concat,
                                       Kind::cape_fire_add_residual,
                                       Kind::forgetting,
                                       Kind::tokens,
                                       Kind::table_tokens,
                                       Kind::query_table,
                                       Kind::clamp};
  return kinds;
}

std::string kind_name(Kind kind) {
  static const char* const names[] = {"plain",
                                      "table",
                                      "table_signed",
                                      "table_multiplied",
                                      "tapa",
                                      "tapa_linear",
                                      "tape",
                                      "fire",
                                      "cape",
                                      "cape_concat",
                                      "cape_add_residual",
                                      "cape_content",
                                      "cape_fire",
                                      "cape_fire_concat",
                                      "cape_fire_add_residual",
                                      "forgetting",
                                      "tokens",
                                      "table_tokens",
                                      "query_table",
                                      "clamp"};
  return names[static_cast<int>(kind)];
}

bool is_cape(Kind kind) { return kind >= Kind::cape && kind <= Kind::cape_fire_add_residual; }
bool has_phase(Kind kind) { return kind == Kind::tapa || kind == Kind::tapa_linear; }
bool is_on_fire(Kind kind) {
  return kind == Kind::fire || (kind >= Kind::cape_fire && kind <= Kind::cape_fire_add_residual);
}
bool has_tokens(Kind kind) { return kind >= Kind::forgetting && kind <= Kind::table_tokens; }

std::string problem_name(const Problem& p) {
  const AttentionShape& s = p.shape;
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  return kind_name(p.kind) + " B" + number(s.batch) + " H" + number(s.heads) + "/" +
         number(s.kv_heads) + " N" + number(s.queries) + "x" + number(s.keys) + " d" +
         number(s.head_dim) + (s.causal ? " causal" : " full") + " offset" +
         number(s.query_offset) + " magnitude" + std::to_string(p.magnitude) +
         (p.infinite_table ? " -inf" : "") + " window" + number(s.window) + " cap" +
         std::to_string(p.soft_cap) + " padding" + number(static_cast<int>(p.padding)) +
         " documents" + number(static_cast<int>(p.documents)) + " sinks" +
         number(static_cast<int>(p.sinks)) + " gates" + number(static_cast<int>(p.gates)) +
         (p.storage == Storage::bfloat16  ? " bfloat16"
          : p.storage == Storage::float16 ? " float16"
                                          : "");
}

void round_to(Storage storage, std::vector<float>& values) {
  if (storage == Storage::float32) return;
  for (float& value : values) value = half_type(storage).round(value);
}

std::vector<Problem> paired_problems(Kind kind) {
  std::vector<Problem> problems;
  const auto add = [&](std::int64_t group, std::int64_t size, std::int64_t dim, bool causal) {
    Problem problem{kind};
    problem.shape = {1, group, 1, size, size, dim};
    problem.shape.causal = causal;
    problems.push_back(problem);
  };
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    for (std::size_t j = 0; j < std::size(kDims); ++j) {
      // Large in all three costs most of the time and adds no pair.
      const bool large = kSizes[i] > 100 && kDims[j] >= 80;
      add(kGroups[(i + j) % (large ? 2 : 3)], kSizes[i], kDims[j], (i + j / 2) % 2 == 0);
    }
  }
  add(1, kLongSize, 16, true);
  add(1, kLongSize, 64, false);
  return problems;
}

std::vector<Problem> window_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  const auto add = [&](const AttentionShape& shape) {
    problems.push_back({.kind = kind, .shape = shape});
  };
  AttentionShape shape = sizes.window;
  for (const std::int64_t window : sizes.windows) {
    shape.window = window;
    for (const bool causal : {true, false}) {
      shape.causal = causal;
      add(shape);
    }
  }
  add(sizes.late);
  shape = sizes.late;
  shape.query_offset = -20;  // the first queries see no key
  add(shape);
  return problems;
}

std::vector<Problem> padding_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const Padding padding : {Padding::left, Padding::right, Padding::holes}) {
    for (const bool causal : {true, false}) {
      for (const std::int64_t window : {std::int64_t{0}, sizes.padding_window}) {
        problems.push_back({.kind = kind, .shape = sizes.padding, .padding = padding});
        problems.back().shape.causal = causal;
        problems.back().shape.window = window;
      }
    }
  }
  return problems;
}

std::vector<Problem> document_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const Documents documents : {Documents::packed, Documents::in_turn, Documents::mixed}) {
    Problem problem{.kind = kind, .shape = sizes.documents, .documents = documents};
    for (const bool causal : {true, false}) {
      problem.shape.causal = causal;
      problems.push_back(problem);
    }
    problem.shape.window = sizes.documents_window;
    problem.padding = Padding::holes;
    problems.push_back(problem);
  }
  // Rows that see no key: a query before the first key has a document of its own.
  Problem problem{.kind = kind, .shape = sizes.late, .documents = Documents::in_turn};
  for (const std::int64_t offset : {sizes.late.query_offset, std::int64_t{-20}}) {
    problem.shape.query_offset = offset;
    problems.push_back(problem);
  }
  return problems;
}

std::vector<Problem> soft_cap_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const float cap : {50.0f, 1.5f, 0.1f}) {
    problems.push_back({.kind = kind, .shape = sizes.cap, .soft_cap = cap});
  }
  problems.push_back(
      {.kind = kind, .shape = sizes.cap_and_masks, .soft_cap = 0.1f, .padding = Padding::holes});
  return problems;
}

std::vector<Problem> sink_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const Sinks sinks : {Sinks::even, Sinks::large, Sinks::off}) {
    problems.push_back({.kind = kind, .shape = sizes.cap, .sinks = sinks});
  }
  problems.push_back({.kind = kind, .shape = sizes.late, .sinks = Sinks::even});
  problems.back().shape.query_offset = -20;  // the first queries see no key
  problems.push_back({.kind = kind,
                      .shape = sizes.padding,
                      .padding = Padding::left,
                      .documents = Documents::packed,
                      .sinks = Sinks::large});
  problems.push_back({.kind = kind,
                      .shape = sizes.cap_and_masks,
                      .soft_cap = 1.5f,
                      .padding = Padding::holes,
                      .sinks = Sinks::even});
  problems.back().shape.causal = false;
  return problems;
}

std::vector<Problem> gate_problems(Kind kind, const MaskSizes& sizes) {
  std::vector<Problem> problems;
  for (const Gates gates : {Gates::by_channel, Gates::by_row}) {
    problems.push_back({.kind = kind, .shape = sizes.cap, .gates = gates});
    problems.push_back({.kind = kind, .shape = sizes.late, .sinks = Sinks::even, .gates = gates});
    problems.back().shape.query_offset = -20;  // the first queries see no key
    problems.push_back({.kind = kind,
                        .shape = sizes.cap_and_masks,
                        .soft_cap = 1.5f,
                        .padding = Padding::holes,
                        .gates = gates});
  }
  return problems;
}

std::int64_t Case::score_distances() const {
  const AttentionShape& s = inputs.shape;
  return std::max<std::int64_t>(1, s.keys / 2 + std::abs(s.query_offset));
}

Case::Case(const Problem& problem) : storage_(problem.storage) {
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
  out.resize(d_out.size());
  lse.resize(static_cast<std::size_t>(s.batch * s.heads * s.queries));
  outputs.out = contiguous<OutputTensor>(out, s.heads, s.queries, dim);
  outputs.lse = lse.data();
  make_gradients();
  store_as(problem.storage);
}

void Case::make_documents(const Problem& problem) {
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
void Case::make_sinks(const Problem& problem) {
  Random random(problem.seed + 1000);
  sinks = random.normal(inputs.shape.heads);
  for (float& sink : sinks) {
    if (problem.sinks == Sinks::large) sink += 5;
    if (problem.sinks == Sinks::off) sink = -std::numeric_limits<float>::infinity();
  }
  d_sinks.resize(sinks.size());
  inputs.sinks = sinks.data();
  gradients.sinks = d_sinks.data();
}

/// Likewise.
void Case::make_gates(const Problem& problem) {
  const AttentionShape& s = inputs.shape;
  Random random(problem.seed + 3000);
  const std::int64_t dim = problem.gates == Gates::by_row ? 1 : values_of(s);
  gate = random.normal(s.batch * s.heads * s.queries * dim);
  for (std::size_t n = 0; n < gate.size(); n += 7) gate[n] = 0;
  inputs.gate = interleaved(gate, s.heads, s.queries, dim);
  inputs.gate_dim = dim;
  d_gate.resize(gate.size());
  gradients.gate = contiguous<OutputTensor>(d_gate, s.heads, s.queries, dim);
  ungated.resize(static_cast<std::size_t>(s.batch * s.heads * s.queries * values_of(s)));
  outputs.ungated = contiguous<OutputTensor>(ungated, s.heads, s.queries, values_of(s));
}

/// The first head's limit is 0, the second's a third of the keys, the third's none, and so on.
ClampVariant Case::make_clamp(const Problem& problem, Random& random) {
  const AttentionShape& s = inputs.shape;
  far_q = random.normal(s.batch * s.heads * s.queries * s.head_dim, problem.magnitude);
  far_k = random.normal(s.batch * s.kv_heads * s.keys * s.head_dim);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    limits.push_back(h % 3 == 0 ? 0 : h % 3 == 1 ? s.keys / 3 : std::int64_t{1} << 40);
  }
  return {interleaved(far_q, s.heads, s.queries, s.head_dim),
          interleaved(far_k, s.kv_heads, s.keys, s.head_dim), limits.data()};
}

/// Forgetting's sums begin at 3e5, where float32 holds 1/32: their differences have to be exact.
/// Factors of either sign, some of them 0.
void Case::make_tokens(const Problem& problem) {
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
  d_query_bias.resize(query_bias.size());
  d_key_bias.resize(key_bias.size());
  d_query_factor.resize(query_factor.size());
  const auto given = [](auto& values) { return values.empty() ? nullptr : values.data(); };
  inputs.tokens = {given(query_bias), given(key_bias), given(query_factor)};
  gradients.tokens = {given(d_query_bias), given(d_key_bias), given(d_query_factor)};
}

void Case::make_variant(const Problem& problem, Random& random) {
  const AttentionShape& s = problem.shape;
  const std::int64_t length = s.queries + s.keys + std::abs(s.query_offset) + 3;
  const float none = -std::numeric_limits<float>::infinity();
  if (problem.kind == Kind::table || problem.kind == Kind::table_signed ||
      problem.kind == Kind::table_multiplied || problem.kind == Kind::table_tokens) {
    const bool with_sign = problem.kind == Kind::table_signed;
    const std::int64_t size = with_sign ? 2 * length : length;
    table = random.normal(s.heads * size);
    for (std::size_t n = 0; problem.infinite_table && n < table.size(); n += 3) table[n] = none;
    const bool multiplies = problem.kind == Kind::table_multiplied;
    if (multiplies && size > 5) table[5] = 0;
    inputs.variant = TableVariant{table.data(), size, size, with_sign ? -length : 0, multiplies};
  } else if (problem.kind == Kind::tapa || problem.kind == Kind::tapa_linear) {
    // alpha 0.5 and 2 pi folded in: phases of hundreds of radians.
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
    inputs.variant = tapa;
  } else if (problem.kind == Kind::tape) {
    // As wide as the head, as models have it, and half of that.
    const std::int64_t dim =
        s.keys % 2 == 1 ? s.head_dim : std::max<std::int64_t>(1, s.head_dim / 2);
    state = random.normal(s.batch * s.kv_heads * s.keys * dim);
    inputs.variant = TapeVariant{interleaved(state, s.kv_heads, s.keys, dim), dim};
  } else if (problem.kind == Kind::query_table) {
    const std::int64_t own = s.keys / 2 + 1;
    table = random.normal(s.batch * s.heads * s.queries * own);
    inputs.variant = QueryTableVariant{table.data(), own};
  } else if (problem.kind == Kind::clamp) {
    inputs.variant = make_clamp(problem, random);
  } else if (problem.kind == Kind::fire) {
    inputs.variant = make_fire(problem, random);
  } else if (is_cape(problem.kind)) {
    inputs.variant = make_cape(problem, random);
  }
  if (problem.kind == Kind::tape) {
    const std::int64_t dim = std::get<TapeVariant>(inputs.variant).state_dim;
    d_out_state = random.normal(s.batch * s.heads * s.queries * dim);
    out_state.resize(d_out_state.size());
    outputs.out_state = contiguous<OutputTensor>(out_state, s.heads, s.queries, dim);
  }
}

CapeVariant Case::make_cape(const Problem& problem, Random& random) {
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
    const std::int64_t length = s.queries + s.keys + std::abs(s.query_offset) + 3;
    table = random.normal(s.heads * length);
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

/// c = 0.5, and a threshold of a third of the keys (a place at least: without one, the first row's
/// factor is a million).
FireVariant Case::make_fire(const Problem& problem, Random& random) {
  const AttentionShape& s = problem.shape;
  const std::int64_t length = s.queries + s.keys + std::abs(s.query_offset) + 3;
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

FireGradients Case::make_fire_gradients(const FireVariant& fire) {
  d_table.resize(table.size());
  d_factor.resize(factor.size());
  d_slope.resize(slope.size());
  d_intercept.resize(intercept.size());
  return {d_table.data(), d_factor.data(), d_slope.data(), d_intercept.data(), fire.head_stride};
}

CapeGradients Case::make_cape_gradients(const CapeVariant& cape) {
  d_w1.resize(w1.size());
  d_b1.resize(b1.size());
  d_w2.resize(w2.size());
  d_b2.resize(b2.size());
  CapeGradients result{.w1 = d_w1.data(), .b1 = d_b1.data(), .w2 = d_w2.data(), .b2 = d_b2.data()};
  if (cape.fire) {
    result.fire = make_fire_gradients(*cape.fire);
  } else {
    d_table.resize(table.size());
    result.values = cape.values ? d_table.data() : nullptr;
    result.head_stride = cape.length;
  }
  return result;
}

void Case::make_gradients() {
  const AttentionShape& s = inputs.shape;
  const std::int64_t dim = values_of(s);
  saved.out = contiguous<InputTensor>(gate.empty() ? out : ungated, s.heads, s.queries, dim);
  saved.d_out = contiguous<InputTensor>(d_out, s.heads, s.queries, dim);
  saved.lse = lse.data();
  dq.resize(q.size());
  dk.resize(k.size());
  dv.resize(v.size());
  gradients.dq = contiguous<OutputTensor>(dq, s.heads, s.queries, s.head_dim);
  gradients.dk = contiguous<OutputTensor>(dk, s.kv_heads, s.keys, s.head_dim);
  gradients.dv = contiguous<OutputTensor>(dv, s.kv_heads, s.keys, dim);
  score_gradients.resize(static_cast<std::size_t>(s.batch * s.heads * score_distances()));
  gradients.scores = {score_gradients.data(), score_distances()};
  if (const auto* t = std::get_if<TableVariant>(&inputs.variant)) {
    d_table.resize(table.size());
    gradients.variant = TableGradients{d_table.data(), t->length};
  } else if (std::holds_alternative<QueryTableVariant>(inputs.variant)) {
    d_table.resize(table.size());
    gradients.variant = QueryTableGradients{d_table.data()};
  } else if (std::holds_alternative<ClampVariant>(inputs.variant)) {
    d_far_q.resize(far_q.size());
    d_far_k.resize(far_k.size());
    gradients.variant =
        ClampGradients{contiguous<OutputTensor>(d_far_q, s.heads, s.queries, s.head_dim),
                       contiguous<OutputTensor>(d_far_k, s.kv_heads, s.keys, s.head_dim)};
  } else if (const auto* tape = std::get_if<TapeVariant>(&inputs.variant)) {
    d_state.resize(state.size());
    const std::int64_t width = tape->state_dim;
    saved.out_state = contiguous<InputTensor>(out_state, s.heads, s.queries, width);
    gradients.variant =
        TapeGradients{contiguous<InputTensor>(d_out_state, s.heads, s.queries, width),
                      contiguous<OutputTensor>(d_state, s.kv_heads, s.keys, width)};
  } else if (const auto* fire = std::get_if<FireVariant>(&inputs.variant)) {
    gradients.variant = make_fire_gradients(*fire);
  } else if (const auto* cape = std::get_if<CapeVariant>(&inputs.variant)) {
    gradients.variant = make_cape_gradients(*cape);
  }
}

void Case::store_as(Storage storage) {
  if (storage == Storage::float32) return;
  const auto put = [&](std::vector<float>& values, bool is_result, auto&... tensors) {
    narrow_.push_back({&values, std::vector<std::uint16_t>(values.size()), is_result});
    ((tensors.data = narrow_.back().bits.data(), tensors.storage = storage), ...);
  };
  put(q, false, inputs.q);
  put(k, false, inputs.k);
  put(v, false, inputs.v);
  put(d_out, false, saved.d_out);
  if (gate.empty()) {
    put(out, true, outputs.out, saved.out);
  } else {
    put(out, true, outputs.out);
    put(ungated, true, outputs.ungated, saved.out);
    put(gate, false, inputs.gate);
    put(d_gate, true, gradients.gate);
  }
  put(dq, true, gradients.dq);
  put(dk, true, gradients.dk);
  put(dv, true, gradients.dv);
  if (auto* tape = std::get_if<TapeVariant>(&inputs.variant)) {
    auto& wanted = std::get<TapeGradients>(gradients.variant);
    put(state, false, tape->state);
    put(d_out_state, false, wanted.d_out_state);
    put(out_state, true, outputs.out_state, saved.out_state);
    put(d_state, true, wanted.d_state);
  }
  if (auto* clamp = std::get_if<ClampVariant>(&inputs.variant)) {
    auto& wanted = std::get<ClampGradients>(gradients.variant);
    put(far_q, false, clamp->q);
    put(far_k, false, clamp->k);
    put(d_far_q, true, wanted.dq);
    put(d_far_k, true, wanted.dk);
  }
  write_narrow();
}

void Case::write_narrow() {
  for (Narrow& one : narrow_) {
    round_to(storage_, *one.values);
    for (std::size_t n = 0; n < one.bits.size(); ++n) {
      one.bits[n] = half_type(storage_).to((*one.values)[n]);
    }
  }
}

void Case::read_narrow() {
  for (const Narrow& one : narrow_) {
    if (!one.is_result) continue;
    for (std::size_t n = 0; n < one.bits.size(); ++n) {
      (*one.values)[n] = half_type(storage_).from(one.bits[n]);
    }
  }
}

void Case::forward() {
  write_narrow();
  attention_forward(inputs, outputs);
  read_narrow();
}

void Case::backward() {
  write_narrow();
  attention_backward(inputs, saved, gradients);
  read_narrow();
}

}  // namespace phasescope::kernels::testing
