#pragma once
// The attention map of a head.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// The attention map of a head, or the mean of several: a MapResult.
struct MapRequest {
  static constexpr const char* method = "map";
  static constexpr const char* verb = "map";
  std::string model;
  Running running;
  Reading reading;
  std::vector<std::string> head{"L0H0"};
  std::optional<Range> rows, cols;
  Size size{256, 256};
  std::string of = "weight";
  std::string pool = "mean";
  std::int64_t top = 0;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("head", head,
      About{.help = "L3H5, or L3 for the mean of a layer's heads; of an encoder-decoder enc.L3H5, "
                    "dec.L3H5 (what L3H5 means there) or cross.L3H5; several with commas are their "
                    "mean, each head counting once"});
    v("rows", rows, About{.help = "queries a:b"});
    v("cols", cols, About{.help = "keys a:b"});
    v("size", size, About{.help = "cells HxW, at most", .low = 1, .high = 8192});
    v("of", of, About{.help = "what is shown", .choices = "weight|score|content|positional"});
    v("pool", pool, About{.help = "how a cell's pairs are pooled", .choices = "mean|max"});
    v("top", top,
      About{.help = "also the keys of each query's N largest weights, of one head",
            .low = 0,
            .high = 64});
  }
};

// The keys a query gives most weight to, largest first, of equal scores the lower key first; fewer
// than asked for where it sees fewer.
struct TopKeys {
  std::int64_t query = 0;
  std::vector<std::int64_t> keys;
  std::vector<double> weights;
  template <class V>
  void fields(V& v) {
    v("query", query), v("keys", keys), v("weights", weights);
  }
};

// Tensor `map` (h, w), f64 where the model was computed in it and f32 otherwise: rows are queries
// from the top, columns keys from the left, -inf where the mask hides every pair of a cell (a NaN
// cell holds a NaN). Of the mean of several heads a pair that is masked for some of them has weight
// 0 there, and no score at all. Tensors `row_profile` (h) and `column_profile` (w): means over the
// unmasked pairs of each row and column of cells. Of weights of a head with a learned sink a tensor
// `sink_profile` (h) too, means of the weight on it: beside it a row's weights sum to 1.
struct MapResult {
  std::string model;
  std::string stack;                 // as in HeadsResult
  std::int64_t layer = 0, head = 0;  // head -1: the mean of all heads of the layer, or of `heads`
  std::vector<std::string> heads;    // whose mean it is, as they were named, where several were
  std::int64_t tokens = 0;           // queries
  std::int64_t keys = 0;             // as many but in cross attention
  std::int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  std::int64_t height = 0, width = 0;
  std::string of = "weight";  // weight, score, content, positional
  std::string pool = "mean";  // mean, max
  double low = 0, high = 0;   // of the cells
  // Mean weight of the rows shown on the head's learned sink; no number without one.
  double learned_sink = std::numeric_limits<double>::quiet_NaN();
  std::vector<TopKeys> top;  // of each query shown, among all keys; on request
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("stack", stack), v("layer", layer), v("head", head);
    v("heads", heads), v("tokens", tokens), v("keys", keys);
    v("row_begin", row_begin), v("row_end", row_end), v("column_begin", column_begin);
    v("column_end", column_end), v("height", height), v("width", width), v("of", of);
    v("pool", pool), v("low", low), v("high", high), v("learned_sink", learned_sink);
    v("top", top), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
