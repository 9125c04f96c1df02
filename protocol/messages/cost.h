#pragma once
// Operations, parameters and memory.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"

namespace phasescope::protocol {

// FLOPs, multiply-accumulates, parameters, memory: a CostResult.
struct CostRequest {
  static constexpr const char* method = "cost";
  static constexpr const char* verb = "cost";
  std::string model;
  Assignments set;
  std::int64_t length = 1024;
  template <class V>
  void fields(V& v) {
    v("model", model,
      About{.help = "model, or a config.json or run configuration: no weights are read",
            .argument = "MODEL"});
    v("length", length,
      About{.help = "tokens of one forward pass", .unit = "tokens", .low = 1, .high = kMostTokens});
    v("set", set, kSetAbout);
  }
};

// parameters_mi: the same in units of 2^20, as the paper prints them.
struct Count {
  double flops = 0, macs = 0, parameters = 0, parameters_mi = 0;
  template <class V>
  void fields(V& v) {
    v("flops", flops, About{.title = "FLOPs"}), v("macs", macs, About{.title = "MACs"});
    v("parameters", parameters),
        v("parameters_mi", parameters_mi, About{.title = "parameters", .unit = "2^20"});
  }
};

struct CostPart {
  std::string name;
  double macs = 0, parameters = 0;
  template <class V>
  void fields(V& v) {
    v("name", name, About{.title = "part"}), v("macs", macs, About{.title = "MACs"});
    v("parameters", parameters);
  }
};

// flops, macs, parameters are those of `executed`. `published` follows the conventions of TAPE's
// Table 3 (full N x N, head not tied), `executed` counts what the kernels do (causal, half width).
struct CostResult {
  std::string model, encoding;
  std::int64_t layers = 0, width = 0;
  std::int64_t length = 0;
  double flops = 0, macs = 0, parameters = 0, memory_bytes = 0;
  std::vector<CostPart> parts;
  Count published, executed;
  std::vector<std::string> conventions;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("layers", layers), v("width", width);
    v("length", length, About{.unit = "tokens"});
    v("flops", flops, About{.title = "FLOPs"}), v("macs", macs, About{.title = "MACs"});
    v("parameters", parameters),
        v("memory_bytes", memory_bytes, About{.title = "memory", .unit = "bytes"});
    v("parts", parts);
    v("published", published), v("executed", executed), v("conventions", conventions);
  }
};

}  // namespace phasescope::protocol
