#pragma once
// What ran attention, as data and in words.
#include <compare>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace phasescope::protocol {

// One implementation that ran attention or a pass over its scores.
struct Ran {
  std::string implementation;  // "fused cpu avx3", "plain", "cuda-unverified"
  std::string device = "cpu";  // that it computed on: "cpu", "cuda"
  // Why what was asked for could not run and this ran in its place; empty where it ran as asked.
  std::string reason;
  std::string dtype;                 // of the tensors that it was given: "f32"
  std::optional<std::string> model;  // whose they are, where the models of an answer differ
  auto operator<=>(const Ran&) const = default;
  // "fused cpu avx3", "plain (a given mask has no fused form)"
  std::string text() const {
    return reason.empty() ? implementation : implementation + " (" + reason + ")";
  }
  // Ran in place of a faster one. Float64 has no other form, and who computes in it knows.
  bool fell_back() const { return !reason.empty() && dtype != "f64"; }
  template <class V>
  void fields(V& v) {
    v("implementation", implementation), v("device", device), v("reason", reason);
    v("dtype", dtype), v("model", model);
  }
};

// Each once.
using AllRan = std::set<Ran>;
inline std::vector<Ran> listed(const AllRan& all) { return {all.begin(), all.end()}; }

enum class DtypesInWords { left_out, said };
// "fused cpu avx3, plain (why)", each once; "fused cpu avx3 (f32), plain (why) (f64)" with dtypes;
// "A: fused cpu avx3; B: plain (why)" where models are named; "none" for none.
std::string words_of(const std::vector<Ran>& all, DtypesInWords dtypes = DtypesInWords::left_out);

}  // namespace phasescope::protocol
