#pragma once
// What is true of the constructed models, and whether it is found.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Every claim about constructed models, or those that a folder's proof.json makes of the model
// beside it, against what is measured: a ProveResult.
struct ProveRequest {
  static constexpr const char* method = "prove";
  static constexpr const char* verb = "prove";
  std::vector<std::string> names;
  Running running;
  std::int64_t seed = 0;
  std::string make = {};
  template <class V>
  void fields(V& v) {
    v("names", names,
      About{.help = "constructed models, or folders that --make wrote (default: all models)",
            .argument = "NAME",
            .required = false});
    running.fields(v);
    v("seed", seed, About{.help = "seed of the texts", .low = 0});
    v("make", make, About{.help = "also write the models, each a folder, into this one"});
  }
};

// One number that is known: of a head, or where `head` is -1 of the whole model.
struct Claim {
  std::string model, metric, input;
  std::int64_t layer = 0, head = 0;
  double value = 0, measured = 0, tolerance = 0;
  bool holds = false;
  template <class V>
  void fields(V& v) {
    v("model", model), v("metric", metric), v("input", input);
    v("layer", layer), v("head", head);
    v("value", value), v("measured", measured), v("tolerance", tolerance);
    v("holds", holds);
  }
};

struct ProveResult {
  std::vector<Claim> claims;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("claims", claims), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
