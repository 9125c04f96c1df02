#include "app/window/bench_models.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/text.h"
#include "protocol/request.h"

namespace phasescope::app {
namespace {

using nlohmann::json;
using protocol::Reply;
using protocol::TensorRef;

constexpr int kLayers = 32, kHeads = 32, kTokens = 4096;
// Those of the worker, so that the table is as wide as it is about real models.
constexpr const char* kMetrics[] = {"entropy",
                                    "entropy_normalised",
                                    "sink",
                                    "previous_token",
                                    "induction",
                                    "duplicate_token",
                                    "mean_distance",
                                    "mean_distance_without_first",
                                    "window_mass_16",
                                    "window_mass_64",
                                    "window_mass_256",
                                    "top1_mass",
                                    "effective_keys"};

// In [0, 1), differs between any two neighbours, and between models.
double scattered(std::size_t number) {
  const double product = static_cast<double>(number) * 0.6180339887498949;
  return product - std::floor(product);
}

std::vector<float> made_cells(std::size_t count, std::size_t seed) {
  std::vector<float> cells(count);
  for (std::size_t i = 0; i < count; ++i) cells[i] = static_cast<float>((i + seed) % 8191) / 8191;
  return cells;
}

// Models differ by the last letter of their name.
std::size_t seed_of(const std::string& model) { return static_cast<unsigned char>(model.back()); }

Reply info_reply(const json& params) {
  protocol::LoadReport report;
  report.model.name = protocol::request_of<protocol::InfoRequest>(params).model;
  report.encoding = "rope", report.tokenizer = "bytes";
  report.model.layers = kLayers, report.model.heads = kHeads, report.model.context = kTokens;
  return {protocol::to_json_form(report), {}};
}

Reply heads_reply(const json& params) {
  const auto request = protocol::request_of<protocol::HeadsRequest>(params);
  protocol::HeadsResult result;
  result.model = request.model, result.layers = kLayers, result.heads = kHeads;
  for (const char* key : kMetrics) {
    result.metrics.push_back({.key = key, .title = key, .formula = "-sum_k A ln A"});
  }
  std::size_t number = seed_of(request.model);
  for (int cell = 0; cell < kLayers * kHeads; ++cell) {
    protocol::HeadRow row{cell / kHeads, cell % kHeads, {}, {}};
    for (const char* key : kMetrics) row.values[key] = {scattered(++number), {}, {}, 1};
    result.rows.push_back(std::move(row));
  }
  const std::int64_t side = request.thumbnails;
  const auto count = static_cast<std::size_t>(kLayers * kHeads * side * side);
  return {protocol::to_json_form(result),
          {TensorRef::own<float>("thumbnails", {kLayers, kHeads, side, side},
                                 made_cells(count, number))}};
}

Reply text_reply(const json& params) {
  protocol::TextResult result;
  result.model = protocol::request_of<protocol::TextRequest>(params).model;
  for (int i = 0; i < kTokens; ++i) {
    const auto number = static_cast<std::size_t>(i) + seed_of(result.model);
    protocol::TokenReading token{.id = i, .text = i % 6 ? "word" : "\xe2\x90\xa3", .begin = i};
    token.end = i + 1, token.loss = 6 * scattered(number);
    for (int guess = 0; guess < 5; ++guess) {
      token.guesses.push_back({guess, "guess", scattered(number) / (guess + 1)});
    }
    result.tokens.push_back(std::move(token));
  }
  return {protocol::to_json_form(result), {}};
}

Reply map_reply(const json& params) {
  const auto request = protocol::request_of<protocol::MapRequest>(params);
  protocol::MapResult result;
  result.model = request.model, result.of = request.of, result.pool = request.pool;
  result.tokens = result.keys = kTokens, result.high = 1;
  // "L3H5", or "L3" for the mean of a layer's heads.
  result.head = -1;
  std::sscanf(request.head.front().c_str(), "L%" SCNd64 "H%" SCNd64, &result.layer, &result.head);
  const protocol::Range rows = request.rows.value_or(protocol::Range{0, kTokens});
  const protocol::Range columns = request.cols.value_or(protocol::Range{0, kTokens});
  result.row_begin = rows.begin, result.row_end = rows.end;
  result.column_begin = columns.begin, result.column_end = columns.end;
  result.height = std::min(rows.end - rows.begin, request.size.height);
  result.width = std::min(columns.end - columns.begin, request.size.width);
  const auto seed =
      static_cast<std::size_t>(result.layer * kHeads + result.head) + seed_of(request.model);
  const auto own = [&](const char* name, std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
    return TensorRef::own<float>(name, std::move(shape), made_cells(count, seed));
  };
  return {protocol::to_json_form(result),
          {own("map", {result.height, result.width}), own("row_profile", {result.height}),
           own("column_profile", {result.width})}};
}

struct Method {
  Reply (*make)(const json& params);
  double seconds;  // that a real worker works on it, about
};

const std::map<std::string, Method>& methods() {
  static const std::map<std::string, Method> all{
      {protocol::InfoRequest::method, {info_reply, 0}},
      {protocol::HeadsRequest::method, {heads_reply, 1.5}},
      {protocol::TextRequest::method, {text_reply, 0.5}},
      {protocol::MapRequest::method, {map_reply, 0.05}}};
  return all;
}

}  // namespace

BenchWorker::BenchWorker() : thread_([this] { work(); }) {}

BenchWorker::~BenchWorker() {
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

protocol::RequestId BenchWorker::submit(const std::string& method, json params,
                                        protocol::Callbacks callbacks, const std::string&) {
  std::lock_guard lock(mutex_);
  requests_.push_back({++last_id_, method, std::move(params), std::move(callbacks)});
  changed_.notify_all();
  return last_id_;
}

void BenchWorker::cancel(protocol::RequestId id) {
  std::lock_guard lock(mutex_);
  if (id == running_) stop_running_ = true;
  for (auto request = requests_.begin(); request != requests_.end(); ++request) {
    if (request->id != id) continue;
    ended_.push_back([callbacks = std::move(request->callbacks)] {
      callbacks.on_error({"cancelled", "cancelled", "", ""});
    });
    requests_.erase(request);
    break;
  }
  changed_.notify_all();
}

// Until the time is over; false where the request is to end before.
bool BenchWorker::rest(std::unique_lock<std::mutex>& lock, double seconds) {
  return !changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                            [this] { return stop_running_ || leaving_; });
}

void BenchWorker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leaving_ || !requests_.empty(); });
    if (leaving_) return;
    const Request request = std::move(requests_.front());
    requests_.pop_front();
    running_ = request.id, stop_running_ = false;
    const auto method = methods().find(request.method);
    if (method == methods().end()) {
      ended_.push_back([callbacks = request.callbacks] {
        callbacks.on_error({"bad_input", "nothing is measured here", "", ""});
      });
    } else if (!rest(lock, method->second.seconds)) {
      ended_.push_back([callbacks = request.callbacks] {
        callbacks.on_error({"cancelled", "cancelled", "", ""});
      });
    } else {
      lock.unlock();
      auto reply = std::make_shared<Reply>(method->second.make(request.params));
      lock.lock();
      ended_.push_back([this, name = request.method, reply, callbacks = request.callbacks] {
        ++answers_[name];
        callbacks.on_result(std::move(*reply));
      });
    }
    running_ = 0;
  }
}

std::size_t BenchWorker::drain() {
  std::deque<std::function<void()>> now;
  {
    std::lock_guard lock(mutex_);
    now.swap(ended_);
  }
  for (const auto& end : now) end();
  return now.size();
}

int BenchWorker::answers(const std::string& method) const {
  const auto found = answers_.find(method);
  return found == answers_.end() ? 0 : found->second;
}

}  // namespace phasescope::app
