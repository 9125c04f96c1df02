#pragma once
// What makes a result repeatable, and a number with its interval.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/ran.h"

namespace phasescope::protocol {

// What makes a result repeatable; part of every result and of every exported file's sidecar.
struct Provenance {
  std::string command;                    // the command line that makes it again
  std::vector<std::string> models;        // names as asked for
  std::vector<std::string> model_hashes;  // SHA-256 of the weights files
  std::string text_hash;                  // SHA-256 of the token ids
  std::string version;                    // of the program
  std::string device = "cpu";             // with "attention on cuda" where the CUDA kernels ran
  // What ran attention and the passes over its scores, and its words_of(). Weights and scores of
  // chosen pairs and regions are plain tensor operations always.
  std::vector<Ran> ran;
  std::string kernel;
  std::string dtype = "f32";
  std::int64_t seed = 0;
  std::string note;  // e.g. "text cut to 256 of 914 tokens"
  template <class V>
  void fields(V& v) {
    v("command", command), v("models", models), v("model_hashes", model_hashes);
    v("text_hash", text_hash), v("version", version), v("device", device), v("kernel", kernel);
    v("ran", ran), v("dtype", dtype), v("seed", seed), v("note", note);
  }
  // With the words that follow from it; `device` is known by then.
  void set_ran(std::vector<Ran> all, DtypesInWords dtypes = DtypesInWords::left_out) {
    ran = std::move(all);
    kernel = words_of(ran, dtypes);
    for (const Ran& one : ran) {
      if (device.starts_with(one.device)) continue;
      device += ", attention on " + one.device;
      break;
    }
  }
};

// The provenances of a result: its own, one of each model, or those of its models' parts; none
// where it has none.
template <class Result>
std::vector<Provenance> provenances(const Result& result) {
  if constexpr (requires { result.provenance.command; }) {
    return {result.provenance};
  } else if constexpr (requires { result.provenance; }) {
    return result.provenance;
  } else if constexpr (requires { result.models.front().provenance; }) {
    std::vector<Provenance> all;
    for (const auto& model : result.models) all.push_back(model.provenance);
    return all;
  } else {
    return {};
  }
}

// One end of an interval; none, and null in JSON, where there is no interval or where it is open.
struct IntervalEnd : std::optional<double> {
  using std::optional<double>::optional;
  friend bool operator==(const IntervalEnd& a, const IntervalEnd& b) {
    return a.has_value() == b.has_value() && (!a || *a == *b);
  }
};

namespace detail {

template <>
struct Form<IntervalEnd> {
  static json write(const IntervalEnd& end) { return end ? write_double(*end) : json(nullptr); }
  // Files of before had "nan" where there was no interval.
  static void read(const json& j, IntervalEnd& end) {
    const double x = j.is_null() ? std::nan("") : read_double(j);
    end = std::isnan(x) ? IntervalEnd() : IntervalEnd(x);
  }
  static void put(json& out, const char* name, const IntervalEnd& end) { out[name] = write(end); }
};

}  // namespace detail

// A number measured on n units and its 95 % interval. The units (texts unless said) are independent
// of each other; `method` names the rule that made the interval (docs/equations.md, "Intervals"),
// "none" where there is none.
struct Interval {
  double mean = 0;
  IntervalEnd low, high;
  std::int64_t n = 0;
  std::string method = "none", unit = "texts";
  bool known() const { return low.has_value() || high.has_value(); }
  template <class V>
  void fields(V& v) {
    v("value", mean, About{.alias = "mean"}), v("low", low), v("high", high), v("n", n);
    v("method", method), v("unit", unit);
  }
};

// The number of an interval's JSON, which what was saved before calls "mean"; null for JSON of
// anything else.
inline const json* value_of_interval(const json& cell) {
  if (!cell.is_object() || !cell.contains("low") || !cell.contains("high")) return nullptr;
  for (const char* name : {"value", "mean"}) {
    if (const auto found = cell.find(name); found != cell.end()) return &*found;
  }
  return nullptr;
}

// What made the interval, and of how many units: "bootstrap-t, n = 64 texts", "8 blocks of one
// text", "none (one text)".
inline std::string words_of(const Interval& interval) {
  if (interval.unit == "blocks") return interval.method;
  const std::string units = std::to_string(interval.n) + " " + interval.unit;
  if (interval.known()) return interval.method + ", n = " + units;
  const std::string one = "one " + interval.unit.substr(0, interval.unit.size() - 1);
  return interval.method + " (" + (interval.n == 1 ? one : units) + ")";
}

}  // namespace phasescope::protocol
