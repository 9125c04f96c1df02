#pragma once
// Where one query looks in every head.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// One row of the attention map of every head: a QueryResult.
struct QueryRequest {
  static constexpr const char* method = "query";
  static constexpr const char* verb = "query";
  std::string model;
  Running running;
  Reading reading;
  std::string stack;
  std::optional<std::int64_t> query;
  std::int64_t width = 512;
  std::int64_t top = 5;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("stack", stack, kStackAbout);
    v("query", query,
      About{.help = "the token whose row is shown, counted from 0 (default: the last one)",
            .low = 0});
    v("width", width,
      About{.help = "cells of a row, at most", .title = "Cells of a row", .low = 1, .high = 8192});
    v("top", top,
      About{.help = "keys of the largest weights that are named",
            .title = "Keys named",
            .low = 1,
            .high = 64});
  }
};

// Largest weights first, of equal ones the lower key; fewer keys than asked for where the query
// sees fewer.
struct QueryHead {
  std::int64_t layer = 0, head = 0;
  std::vector<std::int64_t> keys;
  std::vector<double> weights;
  std::optional<double> sink;  // weight on the head's learned sink; left out without one
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head), v("keys", keys), v("weights", weights);
    v("sink", sink);
  }
};

// Tensor `weights` (layers, heads, width), f64 where the model was computed in it and f32
// otherwise: the largest weight of each cell's keys, which are one key a cell where there are as
// many cells as keys; -inf where the mask hides all of them, and of heads that a layer has not.
struct QueryResult {
  std::string model;
  std::string stack;  // as in HeadsResult
  std::int64_t layers = 0, heads = 0;
  std::int64_t tokens = 0, keys = 0;  // queries; keys differ from them in cross attention alone
  std::int64_t query = 0, width = 0;
  std::vector<QueryHead> rows;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("stack", stack), v("layers", layers), v("heads", heads);
    v("tokens", tokens), v("keys", keys), v("query", query), v("width", width);
    v("rows", rows), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
