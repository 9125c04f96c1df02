#include "model/capture.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/error.h"
#include "model/near_names.h"

namespace phasescope::model {
namespace {

// How a kind's tensors are shaped, which decides what --rows, --cols, --layers do to them.
enum class Extent { tokens, query_tokens, key_tokens, pairs };

struct Kind {
  const char* name;    // as asked for
  const char* prefix;  // "attn" of "attn.3"
  const char* suffix;  // "rotated" of "q.3.rotated"
  Extent extent;
  bool by_layer;       // one a layer (hidden and position have one more)
};

constexpr std::array<Kind, 14> kKinds = {{
    {"logits", "logits", "", Extent::tokens, false},
    {"hidden", "hidden", "", Extent::tokens, false},
    {"attn", "attn", "", Extent::pairs, true},
    {"scores", "scores", "", Extent::pairs, true},
    {"content", "content", "", Extent::pairs, true},
    {"positional", "positional", "", Extent::pairs, true},
    {"position", "position", "", Extent::query_tokens, false},
    {"q", "q", "", Extent::query_tokens, true},
    {"k", "k", "", Extent::key_tokens, true},
    {"v", "v", "", Extent::key_tokens, true},
    {"rotated", "q", "rotated", Extent::query_tokens, true},
    {"rotated", "k", "rotated", Extent::key_tokens, true},
    {"lse", "lse", "", Extent::query_tokens, true},
    {"entropy", "entropy", "", Extent::query_tokens, true},
}};

std::string tensor_name(const Kind& kind, std::int64_t index) {
  const std::string name = std::string(kind.prefix) + "." + std::to_string(index);
  return *kind.suffix == 0 ? name : name + "." + kind.suffix;
}

// What was asked for: whole kinds, and tensors by name.
class Wanted {
 public:
  Wanted(const CaptureSpec& spec, const ModelConfig& config) : spec_(spec) {
    for (const std::string& item : spec.what) add(item, config);
    if (spec.what.empty()) throw formats::bad_usage("nothing to capture was named", "--what");
  }

  bool layer(std::int64_t layer) const {
    return !spec_.layers || std::find(spec_.layers->begin(), spec_.layers->end(), layer) !=
                                spec_.layers->end();
  }
  bool tensor(const Kind& kind, std::int64_t index) const {
    return (kinds_.contains(kind.name) && layer(index)) || named_.contains(tensor_name(kind, index));
  }
  bool logits() const { return kinds_.contains("logits"); }
  // hidden and position count states: with --layers L, the one before and the one after layer L.
  bool state(const Kind& kind, std::int64_t index) const {
    return (kinds_.contains(kind.name) && (layer(index) || layer(index - 1))) ||
           named_.contains(tensor_name(kind, index));
  }
  bool last_layer_out(std::int64_t layers) const {
    return (kinds_.contains("hidden") && layer(layers - 1)) ||
           named_.contains("hidden.last_layer_out");
  }
  bool attention(std::int64_t index) const {
    return std::any_of(kKinds.begin(), kKinds.end(), [&](const Kind& kind) {
      return kind.by_layer && tensor(kind, index);
    });
  }
  bool kind(const std::string& name) const { return kinds_.contains(name); }

 private:
  void add(const std::string& item, const ModelConfig& config) {
    const std::vector<std::string>& kinds = capture_kinds();
    if (std::find(kinds.begin(), kinds.end(), item) != kinds.end()) {
      kinds_.insert(item);
    } else if (is_capture_tensor(item, config)) {
      named_.insert(item);
    } else {
      throw formats::bad_usage("\"" + item + "\" cannot be captured" + near_names(item, kinds),
                               "--what");
    }
  }

  const CaptureSpec& spec_;
  std::set<std::string> kinds_, named_;
};

void check_range(const char* option, const std::optional<Range>& range, std::int64_t size) {
  if (!range || (range->begin >= 0 && range->begin < range->end && range->end <= size)) return;
  throw formats::bad_usage("the range " + std::to_string(range->begin) + ":" +
                               std::to_string(range->end) + " is empty or outside 0:" +
                               std::to_string(size),
                           option);
}

void check_indices(const char* option, const std::optional<std::vector<std::int64_t>>& indices,
                   std::int64_t size) {
  if (!indices) return;
  for (const std::int64_t index : *indices) {
    if (index >= 0 && index < size) continue;
    throw formats::bad_usage(std::to_string(index) + " is outside 0.." + std::to_string(size - 1),
                             option);
  }
}

// Sizes of what is asked for, before anything runs.
class SizeEstimate {
 public:
  SizeEstimate(const Decoder& decoder, const at::Tensor& ids, const CaptureSpec& spec,
               const Wanted& wanted)
      : decoder_(decoder), ids_(ids), spec_(spec), wanted_(wanted) {}

  std::int64_t bytes(std::int64_t rows, std::int64_t columns, std::int64_t layers) const {
    double total = 0;
    for (const Kind& kind : kKinds) total += count(kind, layers) * elements(kind, rows, columns);
    return static_cast<std::int64_t>(
        total * static_cast<double>(at::elementSize(decoder_.dtype())));
  }

  void refuse_if_too_large() const {
    const std::int64_t length = ids_.size(1);
    const std::int64_t rows = spec_.rows.value_or(Range{0, length}).size();
    const std::int64_t columns = spec_.columns.value_or(Range{0, length}).size();
    const std::int64_t layers = layer_count();
    const std::int64_t wanted = bytes(rows, columns, layers);
    if (wanted <= spec_.limit_bytes) return;
    throw formats::bad_usage(
        "this capture would take " + std::to_string(wanted >> 20) + " MB, more than the limit of " +
            std::to_string(spec_.limit_bytes >> 20) + " MB",
        "--what", suggestion(rows, columns, layers));
  }

 private:
  std::int64_t layer_count() const {
    return spec_.layers ? static_cast<std::int64_t>(spec_.layers->size())
                        : decoder_.config().layers;
  }

  double count(const Kind& kind, std::int64_t layers) const {
    std::int64_t named = 0;
    for (std::int64_t index = 0; index <= decoder_.config().layers; ++index) {
      if (wanted_.tensor(kind, index) && !wanted_.kind(kind.name)) ++named;
    }
    if (!wanted_.kind(kind.name)) return static_cast<double>(named);
    if (std::string_view(kind.name) == "logits") return 1;
    return static_cast<double>(kind.by_layer ? layers : layers + 2);
  }

  double elements(const Kind& kind, std::int64_t rows, std::int64_t columns) const {
    const ModelConfig& config = decoder_.config();
    const double batch = static_cast<double>(ids_.size(0));
    const double heads = static_cast<double>(
        spec_.heads ? static_cast<std::int64_t>(spec_.heads->size()) : config.heads);
    const std::string_view name = kind.name;
    const double queries = static_cast<double>(rows);
    const double keys = static_cast<double>(columns);
    if (name == "logits") return batch * queries * static_cast<double>(config.vocab_size);
    if (name == "hidden") return batch * queries * static_cast<double>(config.width);
    if (kind.extent == Extent::pairs) return batch * heads * queries * keys;
    if (name == "lse" || name == "entropy") return batch * heads * queries;
    return batch * heads * static_cast<double>(config.head_dim) *
           (kind.extent == Extent::key_tokens ? keys : queries);
  }

  std::string suggestion(std::int64_t rows, std::int64_t columns, std::int64_t layers) const {
    if (layers > 1 && bytes(rows, columns, 1) <= spec_.limit_bytes) {
      std::int64_t fit = 1;
      while (bytes(rows, columns, fit + 1) <= spec_.limit_bytes) ++fit;
      return "--layers with at most " + std::to_string(fit) + " layers would fit";
    }
    std::int64_t fit = rows;
    while (fit > 1 && bytes(fit, columns, 1) > spec_.limit_bytes) fit /= 2;
    std::string text = "--rows 0:" + std::to_string(fit);
    std::int64_t wide = columns;
    while (wide > 1 && bytes(fit, wide, 1) > spec_.limit_bytes) wide /= 2;
    if (wide < columns) text += " --cols 0:" + std::to_string(wide);
    return text + (layers > 1 ? " with one layer in --layers would fit" : " would fit");
  }

  const Decoder& decoder_;
  const at::Tensor& ids_;
  const CaptureSpec& spec_;
  const Wanted& wanted_;
};

class Collector : public Observer {
 public:
  Collector(const Decoder& decoder, const at::Tensor& ids, const CaptureSpec& spec,
            const Wanted& wanted, Captured& result)
      : config_(decoder.config()),
        batch_(ids.size(0)),
        spec_(spec),
        wanted_(wanted),
        rows_(spec.rows.value_or(Range{0, ids.size(1)})),
        columns_(spec.columns.value_or(Range{0, ids.size(1)})),
        result_(result) {}

  void on_hidden(std::int64_t index, const at::Tensor& hidden) override {
    if (index == config_.layers) {
      if (wanted_.last_layer_out(index)) keep("hidden.last_layer_out", tokens(hidden, 1, rows_));
    } else if (wanted_.state(kind("hidden"), index)) {
      keep(tensor_name(kind("hidden"), index), tokens(hidden, 1, rows_));
    }
  }

  void on_final_norm(const at::Tensor& hidden) override {
    if (wanted_.state(kind("hidden"), config_.layers)) {
      keep(tensor_name(kind("hidden"), config_.layers), tokens(hidden, 1, rows_));
    }
  }

  void on_position(std::int64_t index, const PositionState& state) override {
    if (!wanted_.state(kind("position"), index)) return;
    const at::Tensor& z = state.z;
    const at::Tensor whole =
        z.expand({batch_, config_.heads, z.size(2), z.size(3), z.size(4)});
    keep(tensor_name(kind("position"), index), tokens(chosen_heads(whole), 2, rows_));
  }

  bool wants_attention(std::int64_t layer) override { return wanted_.attention(layer); }

  void on_attention(const std::shared_ptr<const LayerAttention>& attention) override {
    const LayerAttention& a = *attention;
    result_.kernel = a.kernel();
    put("q", "", a.layer(), [&] { return tokens(chosen_heads(a.q()), 2, rows_); });
    put("q", "rotated", a.layer(), [&] { return tokens(chosen_heads(a.q_rotated()), 2, rows_); });
    put("k", "", a.layer(), [&] { return tokens(a.k(), 2, columns_); });
    put("k", "rotated", a.layer(), [&] { return tokens(a.k_rotated(), 2, columns_); });
    put("v", "", a.layer(), [&] { return tokens(a.v(), 2, columns_); });
    put("lse", "", a.layer(), [&] { return tokens(chosen_heads(a.lse()), 2, rows_); });
    put("entropy", "", a.layer(), [&] { return tokens(chosen_heads(a.entropy()), 2, rows_); });
    const Region region{{0, a.heads()}, rows_, columns_};
    put("attn", "", a.layer(), [&] { return chosen_heads(a.weights(region)); });
    put_scores(a, region);
  }

 private:
  static const Kind& kind(std::string_view prefix, std::string_view suffix = {}) {
    return *std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) {
      return k.prefix == prefix && k.suffix == suffix;
    });
  }

  template <typename Make>
  void put(std::string_view prefix, std::string_view suffix, std::int64_t layer, Make make) {
    const Kind& which = kind(prefix, suffix);
    if (wanted_.tensor(which, layer)) keep(tensor_name(which, layer), make());
  }

  void put_scores(const LayerAttention& a, const Region& region) {
    const bool any = wanted_.tensor(kind("scores"), a.layer()) ||
                     wanted_.tensor(kind("content"), a.layer()) ||
                     wanted_.tensor(kind("positional"), a.layer());
    if (!any) return;
    const ScoreParts parts = a.scores(region);
    put("scores", "", a.layer(), [&] { return chosen_heads(parts.score); });
    put("content", "", a.layer(), [&] { return chosen_heads(parts.content); });
    put("positional", "", a.layer(), [&] { return chosen_heads(parts.positional); });
  }

  static at::Tensor tokens(const at::Tensor& x, std::int64_t dim, Range range) {
    return x.slice(dim, range.begin, range.end);
  }

  at::Tensor chosen_heads(const at::Tensor& x) const {
    return spec_.heads ? x.index_select(1, at::tensor(*spec_.heads, at::kLong)) : x;
  }

  void keep(const std::string& name, const at::Tensor& tensor) {
    result_.tensors[name] = tensor.contiguous();
  }

  const ModelConfig& config_;
  std::int64_t batch_;
  const CaptureSpec& spec_;
  const Wanted& wanted_;
  Range rows_, columns_;
  Captured& result_;
};

}  // namespace

const std::vector<std::string>& capture_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Kind& kind : kKinds) {
      if (list.empty() || list.back() != kind.name) list.emplace_back(kind.name);
    }
    return list;
  }();
  return names;
}

bool is_capture_tensor(const std::string& name, const ModelConfig& config) {
  if (name == "logits" || name == "hidden.last_layer_out") return true;
  for (const Kind& kind : kKinds) {
    if (std::string_view(kind.name) == "logits") continue;
    const std::int64_t last = kind.by_layer ? config.layers - 1 : config.layers;
    for (std::int64_t index = 0; index <= last; ++index) {
      if (name == tensor_name(kind, index)) return true;
    }
  }
  return false;
}

Captured capture(const Decoder& decoder, const at::Tensor& ids, const CaptureSpec& spec,
                 const ForwardOptions& options) {
  const at::NoGradGuard no_grad;
  decoder.check_ids(ids);
  const std::int64_t length = ids.size(1);
  check_range("--rows", spec.rows, length);
  check_range("--cols", spec.columns, length);
  check_indices("--layers", spec.layers, decoder.config().layers);
  check_indices("--heads", spec.heads, decoder.config().heads);
  const Wanted wanted(spec, decoder.config());
  SizeEstimate(decoder, ids, spec, wanted).refuse_if_too_large();
  Captured result;
  Collector collector(decoder, ids, spec, wanted, result);
  const at::Tensor hidden = decoder.hidden(ids, options, &collector);
  if (wanted.logits()) {
    const Range rows = spec.rows.value_or(Range{0, length});
    result.tensors["logits"] =
        decoder.logits(hidden.slice(1, rows.begin, rows.end), options).contiguous();
  }
  if (wanted.kind("position") && !decoder.encoding().info().has_state) {
    result.notes.push_back("the encoding " + decoder.encoding().info().key +
                           " has no position state, so there is no position.L");
  }
  return result;
}

}  // namespace phasescope::model
