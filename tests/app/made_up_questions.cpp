// Answers to the questions about positions, and to cost and ablate.
#include <cmath>

#include "protocol/messages/ablate.h"
#include "protocol/messages/acuity.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/cost.h"
#include "protocol/messages/demand.h"
#include "protocol/messages/pair.h"
#include "protocol/messages/profile.h"
#include "protocol/messages/xray.h"
#include "tests/app/made_up_replies.h"

namespace phasescope::app {
namespace {

using namespace protocol;

Interval interval(double mean) { return {mean, mean - 0.1, mean + 0.1, 14, "jackknife t"}; }

Reply demand(const nlohmann::json& params, const MadeUpShape& shape) {
  DemandResult result;
  result.model = model_of(params), result.formula = "D = -dL / db(lambda)";
  result.edges = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
  result.trained = shape.tokens, result.loss = interval(2);
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int head = 0; head < shape.heads; ++head) {
      DemandRow row{layer, head, {}};
      for (std::size_t n = 0; n < result.edges.size(); ++n) {
        row.demand.push_back(interval(std::sin(double(n) + head + tint(result.model))));
      }
      result.rows.push_back(std::move(row));
    }
  }
  result.texts = {"a text", "another"};
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

Reply addressing(const nlohmann::json& params, const MadeUpShape& shape) {
  AddressingResult result;
  result.model = model_of(params), result.of = "score", result.formula = "s = r + t + c + e";
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int head = 0; head < shape.heads; ++head) {
      AddressingRow row{layer, head};
      const double distance = 0.1 + 0.15 * head, key = 0.2 + 0.1 * layer * tint(result.model);
      row.distance_first = interval(distance), row.key_last = interval(key);
      row.interaction = interval(1 - distance - key), row.distance_last = interval(distance - 0.05);
      row.key_first = interval(key + 0.05), row.trend = interval(0.05), row.query = interval(0.1);
      result.rows.push_back(std::move(row));
    }
  }
  result.texts = {"a text"};
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

Reply acuity(const nlohmann::json& params, const MadeUpShape& shape) {
  AcuityResult result;
  result.model = model_of(params), result.formula = "keys at each other's distances";
  result.trained = shape.tokens, result.seeds = {1, 2, 3};
  for (std::int64_t low = 1; low < 128; low *= 2) {
    AcuityBand band{low, 2 * low + 1};
    band.change = interval(0.5 / double(low));
    band.change_seen = interval(0.6 / double(low) + tint(result.model));
    result.bands.push_back(std::move(band));
  }
  result.texts = {"a text"};
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

Reply xray(const nlohmann::json& params, const MadeUpShape& shape) {
  XrayResult result;
  result.model = model_of(params), result.formula = "change of the loss past the trained length";
  result.treatment = "window", result.verdict = "the loss rises", result.trained = shape.tokens;
  result.limit = shape.tokens, result.plain = interval(4), result.all = interval(2);
  result.returned = interval(2);
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int head = 0; head < shape.heads; ++head) {
      result.rows.push_back({layer, head, interval(0.1 * head), interval(0.1 * layer), {}});
    }
  }
  for (std::int64_t begin = 0; begin < 2 * shape.tokens; begin += 32) {
    result.positions.push_back({begin, 2 + 0.01 * double(begin) + tint(result.model), 2, {}});
  }
  result.texts = {"a text"};
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

Reply pair(const nlohmann::json& params, const MadeUpShape& shape) {
  PairResult result;
  result.model = model_of(params), result.formula = "s(lambda)";
  const std::string head = params.value("head", std::string("L0H0"));
  const auto mark = head.find('H');
  result.layer = std::stoll(head.substr(1, mark - 1)),
  result.head = std::stoll(head.substr(mark + 1));
  result.query = params.value("query", std::int64_t{10}),
  result.key = params.value("key", std::int64_t{9});
  result.true_distance = result.query - result.key, result.trained = shape.tokens;
  result.phasors = {{1, 0.5}, {0.5, -0.25}, {0.25, 0}};
  result.score = 1.75, result.weight = 0.3;
  result.curve.emplace();
  for (std::int64_t distance = 0; distance < 400; distance += 4) {
    result.curve->push_back({distance, std::cos(double(distance) / 20),
                             0.5 + 0.4 * std::cos(double(distance) / 20 + tint(result.model))});
  }
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

Reply profile(const nlohmann::json& params, const MadeUpShape& shape) {
  ProfileResult result;
  result.model = model_of(params), result.formula = "P and S", result.window = shape.tokens;
  result.samples = 256;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int head = 0; head < shape.heads; ++head) {
      ProfileRow row{layer, head};
      row.positional = interval(0.1 * layer + 0.02 * head), row.semantic = interval(0.2 * head);
      row.positional_row = row.positional, row.semantic_share = row.semantic;
      result.rows.push_back(std::move(row));
    }
  }
  result.texts = {"a text"};
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

Reply cost(const nlohmann::json& params, const MadeUpShape&) {
  CostResult result;
  result.model = model_of(params), result.length = params.value("length", std::int64_t{1024});
  const auto tokens = double(result.length);
  result.parts = {
      {"embedding", 0, 5e4}, {"attention", 1e3 * tokens, 6e5}, {"mlp", 4e3 * tokens, 1e6}};
  result.macs = 5e3 * tokens, result.flops = 1e4 * tokens, result.parameters = 1.65e6;
  result.memory_bytes = 8e6;
  result.published = result.executed = {result.flops, result.macs, 1.65e6, 1.57};
  result.conventions = {"made up"};
  return {to_json_form(result), {}};
}

Reply ablate(const nlohmann::json& params, const MadeUpShape& shape) {
  AblateResult result;
  result.model = model_of(params), result.formula = "loss with the change - loss without";
  result.layers = shape.layers, result.heads = shape.heads, result.loss = interval(1.4);
  AblateRow row;
  for (const auto& setting : params.value("set", nlohmann::json::array())) {
    row.change += (row.change.empty() ? "" : ", ") + setting.get<std::string>();
  }
  row.reading = result.model + " (" + row.change + ")";
  row.loss = interval(1.6), row.loss_change = interval(0.2);
  row.logits_divergence = interval(0.1), row.guesses_changed = interval(0.05);
  for (std::int64_t begin = 1; begin < shape.tokens; begin += 32) {
    row.positions.push_back({begin, begin + 32, interval(0.2 + 0.001 * double(begin))});
  }
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int head = 0; head < shape.heads; ++head) {
      row.maps.push_back({layer, head, interval(0.02 * layer)});
    }
  }
  result.rows = {std::move(row)};
  result.texts = {"a text"};
  result.provenance = made_up(shape);
  return {to_json_form(result), {}};
}

}  // namespace

const ReplyMakers& made_up_questions() {
  static const ReplyMakers kMakers{
      {"demand", demand}, {"addressing", addressing}, {"acuity", acuity}, {"xray", xray},
      {"pair", pair},     {"profile", profile},       {"cost", cost},     {"ablate", ablate}};
  return kMakers;
}

}  // namespace phasescope::app
