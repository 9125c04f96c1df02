#pragma once
// Sheets of claims: what a paper states, the command whose desk form measures it, and what decides.
// A sheet is a file of assets/claims, named after the paper's arXiv number:
//
//   {"paper": "TAPA 2509.12635", "title": ..., "claims": [{
//     "item": "Table 2, 16k",                      where the paper says it
//     "claim": "past the trained length ...",      in words
//     "unit": "perplexity",
//     "published": [{"name": "tapa", "value": 17.96}, {"name": "rope", "value": 5878.17}],
//     "limits": "7B, 8k tokens and PG19 there",    how far the two can be compared
//     "desk": ["eval", "perplexity", "tapa_norm", "rope", "--lengths", "512"],
//     "measured": [{"name": "tapa", "list": "/rows", "where": {"model": "tapa_norm"}}, ...],
//     "differences": {"list": "/differences", "where": {"length": 512}},
//     "premise": {"list": "/rows", "where": {"length": 6}, "at_least": 0.9, "words": ...},
//     "predicate": {"order": ["tapa", "rope"]}}]}
//
// A claim that has no desk form says why in "limits" and has no "desk".
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/reproduce.h"

namespace phasescope::app {

// Where a number stands in the JSON of a command's result: in the one row of a list all of whose
// fields in `where` have these values. `list` and, where it begins with "/", `field` are JSON
// pointers. A field that is an interval, or one beside which "low", "high" and "n" stand, has that
// interval; all others are exact. `scale` brings it into the paper's unit.
struct Place {
  std::string name;
  std::string list = "/rows";
  nlohmann::json where = nlohmann::json::object();
  std::string field = "value";
  double scale = 1;
  template <class V>
  void fields(V& v) {
    v("name", name), v("list", list), v("where", where), v("field", field), v("scale", scale);
  }
};

// What must hold before anything is decided: the best value among the rows reaches `at_least`.
struct Premise {
  std::string list = "/rows";
  nlohmann::json where = nlohmann::json::object();
  std::string field = "value";
  double at_least = 0;
  std::string words;  // what is said where it does not
  template <class V>
  void fields(V& v) {
    v("list", list), v("where", where), v("field", field), v("at_least", at_least);
    v("words", words);
  }
};

// One of:
//   order   the measured numbers of these names rise from each to the next
//   sign    "positive" or "negative": that of the number `of`; "zero": it is within +- `within`
//   ratio   the first of two numbers over the second, or one number that is a ratio already, lies
//           from `from` to `to`
//   holds   the check of this name holds
struct Predicate {
  std::vector<std::string> order, ratio;
  std::string sign, of, holds;
  double within = 0, from = 0, to = std::numeric_limits<double>::infinity();
  template <class V>
  void fields(V& v) {
    v("order", order), v("ratio", ratio), v("sign", sign), v("of", of), v("holds", holds);
    v("within", within), v("from", from), v("to", to);
  }
};

struct Claim {
  std::string item, claim, unit, limits;
  std::vector<protocol::PublishedNumber> published;
  std::vector<std::string> desk;  // words of a command line, without the program
  std::vector<Place> measured;
  std::optional<Place> differences;  // rows with "model" and "against": their loss above it
  std::optional<Premise> premise;
  Predicate predicate;
  template <class V>
  void fields(V& v) {
    v("item", item), v("claim", claim), v("unit", unit), v("limits", limits);
    v("published", published), v("desk", desk), v("measured", measured);
    v("differences", differences), v("premise", premise), v("predicate", predicate);
  }
};

struct ClaimSheet {
  std::string paper, title;
  std::vector<Claim> claims;
  template <class V>
  void fields(V& v) {
    v("paper", paper), v("title", title), v("claims", claims);
  }
};

// Throws Error "bad_input" for what is no sheet: unknown keys, a claim without a predicate, names
// that the predicate has and the measured numbers have not.
ClaimSheet claim_sheet(const nlohmann::json& sheet, const std::string& where);
ClaimSheet claim_sheet_of_file(const std::filesystem::path& file);

// The sheets of a folder, those whose paper has `word` in its name (all of an empty word). Throws
// Error "bad_usage" that names the papers where there is none.
std::vector<ClaimSheet> claim_sheets(const std::filesystem::path& folder, const std::string& word);

}  // namespace phasescope::app
