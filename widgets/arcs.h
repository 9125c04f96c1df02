#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace phasescope::widgets {

// A query at the left, a key at the right, and the weight of the arc between them.
struct Arc {
  int query = 0, key = 0;
  float weight = 0;
};

// The tokens of a text twice, one below the other: as queries at the left, as keys at the right,
// joined by arcs whose strength is their weight. Drawn are those of the queries in sight; where the
// pointer is at a key, or one is selected, all that end there, up to kMostToOneKey.
struct ArcsSpec {
  static constexpr int kMostToOneKey = 400;
  const std::vector<Arc>* arcs = nullptr;                               // by rising query
  int tokens = 0;                                                       // lines
  std::function<std::string(std::int64_t place)> query_text, key_text;  // empty where not known
  int query = -1, key = -1;                                             // selected
  int pointed_query = -1, pointed_key = -1;                             // in another view
  int reveal = -1;  // is scrolled to in this frame
};

struct ArcsDrawn {
  int hovered_query = -1, hovered_key = -1;  // one of the two
  int clicked_query = -1, clicked_key = -1;
  int stepped_query = -1, stepped_key = -1;  // beside what is selected, by an arrow key
};

// The arcs of one query; nothing of one that has none.
std::vector<Arc> arcs_of(const std::vector<Arc>& arcs, int query);

ArcsDrawn draw_arcs(const ArcsSpec& spec);

}  // namespace phasescope::widgets
