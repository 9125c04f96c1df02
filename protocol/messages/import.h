#pragma once
// Attention computed elsewhere, as a model.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"

namespace phasescope::protocol {

// Writes tensors of another program as a folder that opens like a model: an ImportResult.
struct ImportRequest {
  static constexpr const char* method = "import";
  static constexpr const char* verb = "import";
  std::vector<std::string> files;
  std::string as = "auto", causal = "auto", out;
  double scale = 0;
  bool renumber = false;
  template <class V>
  void fields(V& v) {
    v("files", files,
      About{.help = ".npy (several: a layer each, by the number in its name) or .safetensors; maps "
                    "(layers, heads, N, N), or q and k (layers, heads, N, d)",
            .argument = "FILE"});
    v("as", as,
      About{.help = "what the files hold (auto: by the tensors' names)",
            .choices = "auto|maps|qk"});
    v("causal", causal,
      About{.help = "whether queries see earlier keys only (auto: as the maps show; q and k are "
                    "taken to be causal)",
            .choices = "auto|yes|no"});
    v("scale", scale, About{.help = "what q.k is multiplied by (0: 1 / sqrt(channels))", .low = 0});
    v("renumber", renumber,
      About{.help = "where layers are missing, number those that are there from 0 on"});
    v("out", out, kFolderAbout);
  }
};

struct ImportResult {
  std::string out, as;
  std::int64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0, tokens = 0;
  bool causal = true;
  std::vector<std::string> notes;
  template <class V>
  void fields(V& v) {
    v("out", out), v("as", as), v("layers", layers), v("heads", heads), v("kv_heads", kv_heads);
    v("head_dim", head_dim), v("tokens", tokens), v("causal", causal), v("notes", notes);
  }
};

}  // namespace phasescope::protocol
