#pragma once
// What the pointer is at, in words that all views share: each lights up what it knows of it.
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace phasescope::widgets {

// What the numbers of an axis are, where other views know them too.
enum class Coordinate { none, model, layer, head, query, key, token, distance, position };

// Each is there where the pointer says so. Places are counted from 0 in tokens.
struct Hover {
  std::optional<std::int64_t> model;  // the session's i-th
  std::optional<std::int64_t> layer, head;
  std::optional<std::int64_t> query, key;  // of a pair
  std::optional<std::int64_t> token;       // of the text, whatever it is used as
  std::optional<std::int64_t> distance;    // query - key
  std::optional<std::int64_t> position;    // in a sequence of whichever text

  bool empty() const { return *this == Hover{}; }
  bool operator==(const Hover&) const = default;

  // What is known of a coordinate: a pair has a distance, and a token, the query that stands there
  // and its position in the sequence are one place.
  std::optional<std::int64_t> at(Coordinate which) const {
    const auto first = [](std::initializer_list<std::optional<std::int64_t>> list) {
      for (const auto& one : list) {
        if (one) return one;
      }
      return std::optional<std::int64_t>();
    };
    switch (which) {
      case Coordinate::none:
        return {};
      case Coordinate::model:
        return model;
      case Coordinate::layer:
        return layer;
      case Coordinate::head:
        return head;
      case Coordinate::query:
        return first({query, token, position});
      case Coordinate::key:
        return key;
      case Coordinate::token:
        return first({token, query, position});
      case Coordinate::distance:
        if (!distance && query && key) return *query - *key;
        return distance;
      case Coordinate::position:
        return first({position, token, query});
    }
    return {};
  }

  void set(Coordinate which, std::int64_t value) {
    std::optional<std::int64_t>* const places[] = {nullptr, &model, &layer,    &head,    &query,
                                                   &key,    &token, &distance, &position};
    if (auto* place = places[static_cast<int>(which)]) *place = value;
  }
};

}  // namespace phasescope::widgets
