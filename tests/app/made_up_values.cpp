#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "protocol/messages/capture.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/eval_tasks.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/provenance.h"
#include "protocol/messages/query.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"
#include "protocol/messages/worker.h"
#include "tests/app/made_up_replies.h"
#include "tests/app/made_up_worker.h"

namespace phasescope::app {
namespace {

using namespace protocol;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

double weight_at(double query, double key, double reach) {
  return std::exp(-(query - key) / reach) * (1 - std::exp(-1 / reach)) * 3;
}

ModelSummary summary(const std::string& name, const MadeUpShape& shape) {
  ModelSummary model;
  model.name = name, model.title = "made-up model", model.encoding = "rope";
  model.bundled = true, model.layers = shape.layers, model.heads = shape.heads;
  model.width = 192, model.context = shape.tokens, model.parameters = 1'900'000;
  if (shape.stacks && name != shape.one_stack) model.encoder_layers = shape.layers;
  if (name == shape.shallow) model.layers = 1;
  if (name == "tapa_norm") model.note = "departs from the paper: q_P and k_P are RMS-normed";
  return model;
}

Reply models_list(const nlohmann::json&, const MadeUpShape& shape) {
  ModelsResult result;
  for (const char* name : {"none", "rope", "alibi", "cape_kerple", "tape", "tapa", "tapa_norm"}) {
    result.models.push_back(summary(name, shape));
  }
  return {to_json_form(result), {}};
}

Reply model_info(const nlohmann::json& params, const MadeUpShape& shape) {
  LoadReport report;
  report.model = summary(model_of(params), shape);
  report.encoding = "rope", report.encoding_why = "rope_theta in config.json";
  report.encoding_source = "Su et al. 2021, Eq. 34";
  report.dtypes = {{"bf16", 38}};
  report.encoding_options = {{"base", 10000.0}, {"scaling", "none"}};
  report.encoding_numbers = {{"base", "of the angles", 10000.0, false, 0.0, {}}};
  report.head_dim = 48, report.weight_bytes = 3'800'000;
  report.tokenizer = shape.tokenizer ? "bytes" : "";
  report.dtype = "f32", report.length = shape.tokens, report.memory_bytes = 9'000'000;
  RopePlanRow all{.layers = "0, 2-3", .sees = "all", .encoding = "rope, half"};
  RopePlanRow near{.layers = "1", .sees = "43 tokens", .encoding = "rope, half"};
  for (int plane = 0; plane < 24; ++plane) {
    all.frequencies.push_back(std::pow(10000.0, -plane / 24.0));
    near.frequencies.push_back(std::pow(100.0, -plane / 24.0));
  }
  report.rope_plan = {std::move(all), std::move(near)};
  return {to_json_form(report), {}};
}

Reply text_read(const nlohmann::json& params, const MadeUpShape& shape) {
  TextResult result;
  result.model = model_of(params);
  const std::string words =
      params.value("input", nlohmann::json::object()).value("text", std::string("made-up text "));
  for (int i = 0; i < shape.tokens && !words.empty(); ++i) {
    TokenReading token;
    const int place = result.model == shape.other_tokens ? i + 1 : i;
    const char c = words[static_cast<std::size_t>(place) % words.size()];
    token.id = static_cast<unsigned char>(c);
    token.text = c == ' ' ? "\u00b7" : c == '\n' ? "\u21b5" : std::string(1, c);
    if (i > 0 && shape.losses) token.loss = 3 + 2.5 * std::sin(i * 0.7 + tint(result.model) * 6);
    if (shape.losses) {
      token.guesses = {{token.id, token.text, 0.5}, {101, "e", 0.2}, {116, "t", 0.1}};
    }
    result.tokens.push_back(std::move(token));
  }
  result.loss = shape.losses ? 1.42 : std::nan("");
  result.bits_per_byte = shape.losses ? 2.05 : std::nan("");
  result.provenance = made_up(shape);
  if (!shape.losses) result.provenance.note = result.model + " has no loss of the next token";
  return {to_json_form(result), {}};
}

Reply heads(const nlohmann::json& params, const MadeUpShape& shape) {
  HeadsResult result;
  result.model = model_of(params);
  if (shape.stacks) result.stack = params.value("stack", "");
  if (shape.stacks && result.stack.empty()) result.stack = "dec";
  result.layers = shape.layers, result.heads = shape.heads;
  result.metrics = {{"entropy", "entropy", "-sum_k A ln A", "row 0 left out"},
                    {"sink", "sink", "mean_q A[q, 0]", ""},
                    {"mean_distance", "mean distance", "sum A (q - k) / sum A", ""}};
  const int side = shape.thumbnail;
  std::vector<float> cells;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int head = 0; head < shape.heads; ++head) {
      const double reach = 1 + 3.0 * head + layer + 8 * tint(result.model);
      HeadRow row;
      row.layer = layer, row.head = head;
      for (const auto& [key, value] :
           {std::pair{"entropy", std::log(reach)}, std::pair{"sink", 0.1 / reach},
            std::pair{"mean_distance", reach}}) {
        if (shape.losses || std::string(key) != "mean_distance") {
          row.values[key] = {value, {}, {}, 1};
        }
      }
      result.rows.push_back(std::move(row));
      for (int q = 0; q < side; ++q) {
        for (int k = 0; k < side; ++k) {
          cells.push_back(k > q ? kMasked
                                : static_cast<float>(std::min(1.0, weight_at(q, k, reach))));
        }
      }
    }
  }
  result.provenance = made_up(shape);
  Reply reply{to_json_form(result), {}};
  std::vector<std::int64_t> edges{shape.layers, shape.heads, side, side};
  if (shape.flat_thumbnails) edges = {static_cast<std::int64_t>(cells.size())};
  reply.tensors.push_back(TensorRef::own<float>("thumbnails", edges, std::move(cells)));
  const std::int64_t all = shape.layers * shape.heads;
  std::vector<double> divergences;
  for (std::int64_t n = 0; n < all * all; ++n) divergences.push_back(n % (all + 1) == 0 ? 0 : 0.3);
  reply.tensors.push_back(
      TensorRef::own<double>("js_divergence", {all, all}, std::move(divergences)));
  return reply;
}

Reply query(const nlohmann::json& params, const MadeUpShape& shape) {
  QueryResult result;
  result.model = model_of(params);
  result.layers = shape.layers, result.heads = shape.heads;
  result.tokens = result.keys = result.width = shape.tokens;
  const auto asked = params.value("query", std::int64_t{-1});
  result.query = asked < 0 ? shape.tokens - 1 : asked;
  std::vector<float> cells;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const double reach =
          1 + 3.0 * static_cast<double>(head) + static_cast<double>(layer) + 8 * tint(result.model);
      QueryHead& row = result.rows.emplace_back(QueryHead{layer, head, {}, {}, {}});
      for (std::int64_t n = 0; n < std::min<std::int64_t>(3, result.query + 1); ++n) {
        row.keys.push_back(result.query - n);
        row.weights.push_back(0.6 / (reach + static_cast<double>(n)));
      }
      if (shape.sink) row.sink = 0.25;
      for (std::int64_t k = 0; k < shape.tokens; ++k) {
        cells.push_back(k > result.query ? kMasked
                                         : static_cast<float>(std::min(
                                               1.0, weight_at(static_cast<double>(result.query),
                                                              static_cast<double>(k), reach))));
      }
    }
  }
  result.provenance = made_up(shape);
  Reply reply{to_json_form(result), {}};
  reply.tensors.push_back(TensorRef::own<float>(
      "weights", {result.layers, result.heads, result.width}, std::move(cells)));
  return reply;
}

Reply map(const nlohmann::json& params, const MadeUpShape& shape) {
  MapResult result;
  result.model = model_of(params);
  const auto heads = params.value("head", std::vector<std::string>{"L0H0"});
  if (heads.size() > 1) result.heads = heads;
  std::string head = heads.size() > 1 ? heads[0].substr(0, heads[0].find('H')) : heads[0];
  if (const auto dot = head.find('.'); dot != std::string::npos) {
    result.stack = head.substr(0, dot), head.erase(0, dot + 1);
  }
  const auto mark = head.find('H');
  result.layer = std::stoll(head.substr(1, mark - 1));
  result.head = mark == std::string::npos ? -1 : std::stoll(head.substr(mark + 1));
  result.tokens = shape.tokens;
  result.row_end = result.column_end = shape.tokens;
  if (params.contains("rows")) {
    result.row_begin = params["rows"][0], result.row_end = params["rows"][1];
  }
  if (params.contains("cols")) {
    result.column_begin = params["cols"][0], result.column_end = params["cols"][1];
  }
  result.of = params.value("of", std::string("weight"));
  result.pool = params.value("pool", std::string("max"));
  const auto size = params.value("size", nlohmann::json({256, 256}));
  const std::int64_t asked = shape.map ? shape.map : size[0].get<std::int64_t>();
  result.height = std::min<std::int64_t>(asked, result.row_end - result.row_begin);
  result.width = std::min<std::int64_t>(asked, result.column_end - result.column_begin);
  const double reach = 4 + 6.0 * static_cast<double>(result.head + 1) + 20 * tint(result.model);
  std::vector<float> cells, by_row, by_column;
  for (std::int64_t r = 0; r < result.height; ++r) {
    for (std::int64_t c = 0; c < result.width; ++c) {
      const double q = static_cast<double>(result.row_begin +
                                           r * (result.row_end - result.row_begin) / result.height);
      const double k = static_cast<double>(
          result.column_begin + c * (result.column_end - result.column_begin) / result.width);
      const double value = result.of == "weight" ? std::min(1.0, weight_at(q, k, reach))
                                                 : 4 * std::cos((q - k) / reach);
      cells.push_back(k > q ? kMasked : static_cast<float>(value));
    }
  }
  for (std::int64_t r = 0; r < result.height; ++r) {
    by_row.push_back(static_cast<float>(1.0 / (1.0 + static_cast<double>(r))));
  }
  for (std::int64_t c = 0; c < result.width; ++c) {
    by_column.push_back(static_cast<float>(0.02 + 0.01 * std::sin(0.05 * static_cast<double>(c))));
  }
  result.low = 0, result.high = 1;
  const auto top = params.value("top", std::int64_t{0});
  for (std::int64_t q = result.row_begin; q < result.row_end && top > 0; ++q) {
    TopKeys& keys = result.top.emplace_back(TopKeys{q, {}, {}});
    for (std::int64_t n = 0; n < std::min(top, q + 1); ++n) {
      keys.keys.push_back(n == 1 && q > 2 ? 0 : q - n);
      keys.weights.push_back(0.6 / static_cast<double>(n + 1));
    }
  }
  const bool sink = shape.sink && result.of == "weight";
  if (sink) result.learned_sink = 0.25;
  result.provenance = made_up(shape);
  result.provenance.text_hash = result.model == shape.other_tokens ? "others" : "tokens";
  Reply reply{to_json_form(result), {}};
  reply.tensors.push_back(
      TensorRef::own<float>("map", {result.height, result.width}, std::move(cells)));
  reply.tensors.push_back(TensorRef::own<float>("row_profile", {result.height}, std::move(by_row)));
  reply.tensors.push_back(
      TensorRef::own<float>("column_profile", {result.width}, std::move(by_column)));
  if (sink) {
    std::vector<float> taken(static_cast<std::size_t>(result.height), 0.25F);
    reply.tensors.push_back(
        TensorRef::own<float>("sink_profile", {result.height}, std::move(taken)));
  }
  return reply;
}

// Every folder of the made-up machine has a model and a folder more.
Reply folder(const nlohmann::json& params, const MadeUpShape&) {
  FolderResult result{.path = params.value("path", std::string("/far"))};
  result.entries = {{"deeper", true}, {"model.gguf", false}};
  return {to_json_form(result), {}};
}

Reply patterns(const nlohmann::json& params, const MadeUpShape& shape) {
  PatternsResult result;
  result.model = model_of(params), result.encoding = "rope";
  result.formula = "G_ij = sum_m Re(z_i conj z_j)";
  const int side = 64;
  Reply reply;
  for (int layer = 0; layer <= shape.layers; ++layer) {
    PatternsLayer row;
    row.layer = layer, row.mean_abs_z = 1 - 0.05 * layer, row.sd_abs_z = 0.02 * layer;
    row.drift = 0.1 * layer;
    std::vector<float> grid;
    for (int i = 0; i < side; ++i) {
      for (int j = 0; j < side; ++j) {
        grid.push_back(
            static_cast<float>(24 * std::exp(-std::abs(i - j) / 6.0) * std::cos((i - j) * 0.4)));
      }
    }
    for (int d = 0; d < side; ++d) row.mean_by_distance.push_back(24 * std::exp(-d / 6.0));
    result.layers.push_back(row);
    reply.tensors.push_back(
        TensorRef::own<float>("pe_dot." + std::to_string(layer), {side, side}, std::move(grid)));
  }
  for (int i = 0; i < side; ++i) result.positions.push_back(i * 4), result.distances.push_back(i);
  result.position_count = 4 * side;
  for (int m = 0; m < 24; ++m) result.frequencies.push_back(std::pow(10000.0, -m / 24.0));
  result.provenance = made_up(shape);
  reply.result = to_json_form(result);
  return reply;
}

NearFar near_far(double mean, double sigma) {
  NearFar n;
  n.near_begin = 1, n.near_end = 16, n.far_begin = 240, n.far_end = 256;
  n.texts = 64, n.pairs = 40000, n.mean = mean, n.sigma = sigma, n.skewness = 0.1;
  n.share_positive = 0.5 + 0.5 * std::erf(mean / sigma / std::sqrt(2.0));
  const std::string method = "bootstrap-t of the ratio";
  n.intervals = {
      {mean, mean - 0.2, mean + 0.2, 64, method},
      {sigma, sigma - 0.1, sigma + 0.1, 64, method},
      {0.1, 0.0, 0.2, 64, method},
      {n.share_positive, n.share_positive - 0.02, n.share_positive + 0.02, 64, "Wilson"}};
  for (int i = 0; i <= 60; ++i) n.edges.push_back(-15 + 0.5 * i);
  for (int i = 0; i < 60; ++i) {
    const double z = (n.edges[static_cast<std::size_t>(i)] + 0.25 - mean) / sigma;
    n.counts.push_back(static_cast<std::int64_t>(40000 * 0.5 / sigma * 0.4 * std::exp(-z * z / 2)));
  }
  return n;
}

Reply distance(const nlohmann::json& params, const MadeUpShape& shape) {
  DistanceModel model;
  model.model = model_of(params), model.encoding = "rope", model.bands = "by text";
  const double strength = 1 + 4 * tint(model.model);
  for (int d = 0; d < shape.tokens; d += 2) {
    DistancePoint point;
    point.distance = d, point.count = shape.tokens - d;
    point.score_mean = strength * std::exp(-d / 60.0), point.score_sd = 2;
    point.content_mean = 0.3 * point.score_mean, point.content_sd = 2;
    point.positional_mean = 0.7 * point.score_mean;
    point.weight_mean = 0.2 / (1.0 + d);
    point.score_low = point.score_mean - 0.1, point.score_high = point.score_mean + 0.1;
    point.weight_low = 0.9 * point.weight_mean, point.weight_high = 1.1 * point.weight_mean;
    point.n = 64;
    model.profile.push_back(point);
  }
  model.histogram = near_far(strength, 2.5);
  for (int n = 0; params.value("per_head", false) && n < shape.layers * shape.heads; ++n) {
    DistanceGroup group;
    group.layer = n / shape.heads, group.head = n % shape.heads, group.profile = model.profile;
    group.histogram = near_far(strength - n, 2.5);
    IntrinsicBias bias;
    bias.layer = *group.layer, bias.head = *group.head, bias.mu = 1;
    bias.distances = {1, 100, 1e7}, bias.per_plane = {3, 2, 0}, bias.sqrt_d_gamma = {3, 1, 0};
    model.intrinsic.push_back(std::move(bias));
    model.heads.push_back(std::move(group));
  }
  for (int layer = 0; layer < shape.layers; ++layer) {
    DistanceGroup group;
    group.layer = layer, group.profile = model.profile;
    group.histogram = near_far(strength * (0.2 + 0.4 * layer), 2.5);
    model.layers.push_back(std::move(group));
  }
  model.provenance = made_up(shape);
  return {to_json_form(DistanceResult{{model}}), {}};
}

Reply shift(const nlohmann::json& params, const MadeUpShape& shape) {
  ShiftResult result;
  for (const char* method : {"ids", "tokens"}) {
    for (int by : {1, 3, 16}) {
      for (int layer = 0; layer < shape.layers; ++layer) {
        const bool tokens = std::string(method) == "tokens";
        ShiftRow row;
        row.model = model_of(params), row.method = method, row.by = by, row.layer = layer;
        row.attention_difference = tokens ? 5.0 + by * 0.1 + layer + tint(row.model) : 1e-5 * by;
        row.logits_difference = !shape.losses ? std::nan("") : tokens ? 0.02 : 1e-7;
        result.rows.push_back(row);
      }
    }
  }
  result.formula = "mean over heads and queries of sum_j |a_ij - a'_ij|, in 0.01";
  result.provenance = {made_up(shape)};
  return {to_json_form(result), {}};
}

Reply theory(const nlohmann::json& params, const MadeUpShape& shape) {
  TheoryResult result;
  int place = 0;
  for (const char* id :
       {"tape.shift", "rope.intrinsic_bias", "tapa.histogram", "tape.permutation"}) {
    CheckResult check;
    check.id = id, check.model = model_of(params);
    check.verdict = name_of(static_cast<Verdict>(place++ % 4));
    check.value = 3e-12, check.bound = 1e-10, check.noise = 1e-12, check.samples = 5;
    check.statement = "All quantities are unchanged when the position ids are shifted.";
    check.source = "TAPE, Proposition 4.2";
    check.detail = "largest residual over shifts 1, 3, 16, 1000 and 10^6";
    CheckCurve curve{"residual",
                     "shift",
                     "relative residual",
                     true,
                     true,
                     {1, 10, 100, 1000},
                     {1e-13, 2e-13, 1e-12, 3e-12},
                     {1e-10, 1e-10, 1e-10, 1e-10}};
    for (int c = 0; c < shape.curves; ++c) {
      curve.y_label = "relative residual " + std::to_string(c);
      check.curves.push_back(curve);
    }
    result.checks.push_back(std::move(check));
  }
  result.provenance = {made_up(shape)};
  return {to_json_form(result), {}};
}

Reply capture(const nlohmann::json& params, const MadeUpShape& shape) {
  CaptureResult result;
  result.model = model_of(params);
  result.provenance = made_up(shape);
  Reply reply;
  const std::string layer = std::to_string(params["layers"][0].get<int>());
  const std::string stack = shape.stacks ? params["stack"].get<std::string>() + "." : "";
  const int channels = 8;
  for (const std::string end : {"", ".rotated"}) {
    for (const bool keys : {false, true}) {
      const std::int64_t heads = keys ? shape.heads : 1;
      std::vector<float> values;
      for (std::int64_t n = 0; n < heads * shape.tokens * channels; ++n) {
        values.push_back(static_cast<float>(std::sin(0.1 * static_cast<double>(n))));
      }
      const std::string name = stack + (keys ? "k." : "q.") + layer + end;
      result.names.push_back(name);
      reply.tensors.push_back(
          TensorRef::own<float>(name, {1, heads, shape.tokens, channels}, std::move(values)));
    }
  }
  reply.result = to_json_form(result);
  return reply;
}

// Head n of A is most like head n of B, counted from the end.
Reply compare(const nlohmann::json& params, const MadeUpShape& shape) {
  CompareResult result;
  result.a = params["models"][0];
  result.b = params["models"].size() > 1 ? params["models"][1].get<std::string>()
                                         : result.a + " on " + params.value("other", "");
  if (shape.stacks) result.stack = params.value("stack", "");
  if (shape.stacks && result.stack.empty()) result.stack = "dec";
  result.loss_difference = {0.25, 0.125, 0.375, 8, "jackknife t"};
  if (!shape.losses) result.loss_difference = {std::nan(""), {}, {}, 0, "none"};
  const int all = shape.layers * shape.heads;
  std::vector<double> between(static_cast<std::size_t>(all * all), 0.4);
  for (int n = 0; n < all; ++n) {
    const int layer = n / shape.heads, head = n % shape.heads, other = all - 1 - n;
    result.heads.push_back({layer, head, 0.01 * n, {}, {}, 1, "none"});
    between[static_cast<std::size_t>(n * all + other)] = 0.05;
    if (params.value("match", false)) {
      result.matches.push_back(
          {layer, head, other / shape.heads, other % shape.heads, {0.05, 0.04, 0.06, 8, "t"}});
    }
  }
  for (int begin = 0; shape.losses && begin < 64; begin += 16) {
    result.positions.push_back({begin, begin + 16, {0.2, 0.1, 0.3, 8, "jackknife t"}});
  }
  result.provenance = made_up(shape);
  Reply reply{to_json_form(result), {}};
  if (params.value("match", false)) {
    reply.tensors.push_back(TensorRef::own<double>("js_between", {all, all}, std::move(between)));
  }
  return reply;
}

Reply theory_list(const nlohmann::json&, const MadeUpShape&) {
  std::vector<CheckInfo> checks;
  for (const char* id :
       {"tape.shift", "rope.intrinsic_bias", "tapa.histogram", "tape.permutation"}) {
    checks.push_back({.id = id, .statement = "a statement", .title = id, .needs = "a model"});
  }
  return {{{"checks", to_json_form(checks)}}, {}};
}

// A task of options that are in no request, as of a worker that knows more than the window.
Reply eval_list(const nlohmann::json&, const MadeUpShape&) {
  EvalTasks list;
  list.tasks = {{.key = "perplexity",
                 .title = "Perplexity",
                 .options = {{.key = "lengths", .fallback = nlohmann::json::array()},
                             {.key = "window", .fallback = "disjoint"},
                             {.key = "metric", .fallback = "bits_per_byte"},
                             {.key = "trials", .fallback = 0}}},
                {.key = "later", .title = "A later task", .options = {{.key = "trials"}}}};
  return {to_json_form(list), {}};
}

Reply generate(const nlohmann::json& params, const MadeUpShape& shape) {
  GenerateResult result;
  result.model = model_of(params), result.text = shape.tokenizer ? " and it was so" : "";
  result.ids = {32, 97, 110};
  return {to_json_form(result), {}};
}

Reply eval(const nlohmann::json& params, const MadeUpShape& shape) {
  EvalResult result;
  result.task = params.value("task", std::string("perplexity"));
  result.metric = "perplexity";
  const std::string model = model_of(params);
  const double climb = tint(model) > 0.5 ? 0.0 : 2.0;
  for (std::int64_t length : {256, 512, 1024}) {
    EvalRow row;
    row.model = model, row.metric = result.metric, row.length = length;
    row.n = 16, row.window = "disjoint", row.method = "jackknife t";
    row.value = std::exp(1.42 + climb * (static_cast<double>(length) - 256) / 768);
    row.low = row.value * 0.97, row.high = row.value * 1.03;
    result.rows.push_back(row);
  }
  PositionCurve curve;
  curve.model = model, curve.trained_length = 256, curve.texts = 16;
  curve.metric = "bits_per_token", curve.source = "validation texts";
  for (int p = 16; p < 4 * shape.tokens; p += 32) {
    const double past = std::max(0, p - 256) / 768.0;
    curve.position.push_back(p);
    curve.bits.push_back(2.05 + climb * past + 0.4 * std::exp(-p / 30.0));
    curve.low.push_back(curve.bits.back() - 0.08);
    curve.high.push_back(curve.bits.back() + 0.08);
  }
  result.positions = {curve};
  const auto models = params.value("models", std::vector<std::string>());
  for (std::size_t n = 1; n < models.size(); ++n) {
    result.differences.push_back({.model = models[n],
                                  .against = models[0],
                                  .per = "byte",
                                  .length = 256,
                                  .difference = {0.25, 0.125, 0.375, 16, "jackknife t"}});
  }
  result.provenance = {made_up(shape)};
  return {to_json_form(result), {}};
}

Reply reference_check(const nlohmann::json& params, const MadeUpShape& shape) {
  ReferenceCheckResult result{.model = model_of(params),
                              .reference = params.value("reference", std::string()),
                              .verdict = "differs"};
  result.tensors = {{"logits", 1e-3, 1e-5, false, "f32"}, {"attn", 1e-7, 1e-5, true, "f32"}};
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

}  // namespace

double tint(const std::string& model) {
  double sum = 0;
  for (char c : model) sum += c;
  return std::fmod(sum * 0.137, 1.0);
}

Provenance made_up(const MadeUpShape& shape) {
  Provenance provenance;
  if (!shape.ran.implementation.empty()) provenance.set_ran({shape.ran});
  return provenance;
}

std::string model_of(const nlohmann::json& params) {
  if (params.contains("model")) return params["model"].get<std::string>();
  if (params.contains("models") && !params["models"].empty()) {
    return params["models"][0].get<std::string>();
  }
  return "sample";
}

Reply made_up_reply(const std::string& method, const nlohmann::json& params,
                    const MadeUpShape& shape) {
  static const ReplyMakers kMakers{{"models.list", models_list},
                                   {"model.info", model_info},
                                   {"worker.folder", folder},
                                   {"text.read", text_read},
                                   {"heads", heads},
                                   {"map", map},
                                   {"query", query},
                                   {"patterns", patterns},
                                   {"distance", distance},
                                   {"shift", shift},
                                   {"theory", theory},
                                   {"capture", capture},
                                   {"compare", compare},
                                   {"theory.list", theory_list},
                                   {"check", reference_check},
                                   {"eval", eval},
                                   {"eval.list", eval_list},
                                   {"generate", generate}};
  for (const ReplyMakers* makers : {&kMakers, &made_up_questions(), &made_up_jobs()}) {
    if (const auto found = makers->find(method); found != makers->end()) {
      return found->second(params, shape);
    }
  }
  throw std::out_of_range("nothing is made up for " + method);
}

}  // namespace phasescope::app
