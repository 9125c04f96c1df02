#pragma once
// The attention map of a head.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// The keys a query gives most weight to, largest first, of equal scores the lower key first; fewer
// than asked for where it sees fewer.
struct TopKeys {
  int64_t query = 0;
  std::vector<int64_t> keys;
  std::vector<double> weights;
  template <class V>
  void fields(V& v) {
    v("query", query), v("keys", keys), v("weights", weights);
  }
};

// Tensor `map` (h, w), f64 where the model was computed in it and f32 otherwise: rows are queries
// from the top, columns keys from the left, -inf where the mask hides every pair of a cell (a NaN
// cell holds a NaN). Tensors `row_profile` (h) and `column_profile` (w): means over the unmasked
// pairs of each row and column of cells.
struct MapResult {
  std::string model;
  std::string stack;            // as in HeadsResult
  int64_t layer = 0, head = 0;  // head -1: the mean of all heads of the layer
  int64_t tokens = 0;           // queries
  int64_t keys = 0;             // as many but in cross attention
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  int64_t height = 0, width = 0;
  std::string of = "weight";  // weight, score, content, positional
  std::string pool = "mean";  // mean, max
  double low = 0, high = 0;   // of the cells
  std::vector<TopKeys> top;   // of each query shown, among all keys; on request
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("stack", stack), v("layer", layer), v("head", head);
    v("tokens", tokens), v("keys", keys);
    v("row_begin", row_begin), v("row_end", row_end), v("column_begin", column_begin);
    v("column_end", column_end), v("height", height), v("width", width), v("of", of);
    v("pool", pool), v("low", low), v("high", high), v("top", top), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
