#pragma once
// What is said of a field beside its name: fields() gives it as a third word.
#include <limits>

namespace phasescope::protocol {

struct About {
  const char* help = "";  // of a request's field: what it does, for --help and the page of methods
  // Its heading in tables, its line in the window's forms, where the name in words is not clear.
  const char* title = "";
  const char* unit = "";     // "bits a token"
  const char* choices = "";  // "mean|max": what it, or each word of a list, may be
  double low = -std::numeric_limits<double>::infinity();  // of numbers, both ends allowed
  double high = std::numeric_limits<double>::infinity();
  const char* argument = "";  // it is no option but an argument of the command line: "MODEL"
  bool required = true;       // of an argument
  bool wire_only = false;     // the command line has no option for it
  const char* alias = "";     // another name: that requests may use, or that saved results have
  bool or_null = false;       // of an empty optional of a result: null is written, nothing left out
  int when_true = 0;          // what a number is where a request says true
  bool repeats = false;       // of a list: a word may stand in it twice
  // Other fields of the request: one that must be given where this one is, and one that cannot be.
  // A request that holds to neither is refused on both sides.
  const char* needs = "";
  const char* excludes = "";
  // "task=perplexity": it belongs to requests whose field `task` has that value, or one of several,
  // "task=a|b". Of any other it is refused where it is named at all, whatever its value.
  const char* of = "";
};

}  // namespace phasescope::protocol
