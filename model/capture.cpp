#include "model/capture.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "formats/error.h"
#include "formats/near_names.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

// How a kind's tensors are shaped, which decides what --rows, --cols, --layers do to them.
enum class Extent { tokens, query_tokens, key_tokens, pairs };

struct Kind {
  const char* name;    // as asked for
  const char* prefix;  // "attn" of "attn.3"
  const char* suffix;  // "rotated" of "q.3.rotated"
  Extent extent;
  bool by_layer;  // one a layer (hidden and position have one more)
};

constexpr std::array<Kind, 15> kKinds = {{
    {"logits", "logits", "", Extent::tokens, false},
    {"hidden", "hidden", "", Extent::tokens, false},
    {"streams", "streams", "", Extent::tokens, false},
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

// What a forward pass runs through: the decoder, and in an encoder-decoder the encoder and the
// decoder's attention to it, whose tensors have these prefixes.
struct Part {
  std::string prefix;  // "" in a model of one stack
  std::int64_t layers = 0;
  bool whole = true;  // with hidden states and positions
};

std::vector<Part> parts_of(const ModelConfig& config) {
  if (config.encoder_layers == 0) return {{"", config.layers}};
  return {
      {"dec.", config.layers}, {"enc.", config.encoder_layers}, {"cross.", config.layers, false}};
}

// Those whose tensors kinds are of. Throws Error "bad_usage" where there is no such stack.
std::vector<Part> chosen_parts(const CaptureSpec& spec, const ModelConfig& config) {
  std::vector<Part> parts = parts_of(config);
  if (spec.stack.empty()) return parts;
  std::erase_if(parts, [&](const Part& part) { return part.prefix != spec.stack + "."; });
  if (parts.empty()) {
    throw formats::bad_usage("the model has no stack \"" + spec.stack + "\"", "--stack");
  }
  return parts;
}

std::string tensor_name(const Part& part, const Kind& kind, std::int64_t index) {
  const std::string name = part.prefix + kind.prefix + "." + std::to_string(index);
  return *kind.suffix == 0 ? name : name + "." + kind.suffix;
}

// What comes out of the last layer, of the kinds "hidden" and "streams".
std::string last_layer_name(const Part& part, const char* kind) {
  return part.prefix + kind + ".last_layer_out";
}

bool has_streams(const ModelConfig& config) { return config.streams.count > 1; }

// Angular frequencies in force, by the layers they hold for.
constexpr const char* kFrequencies = "rope.inv_freq";
constexpr const char* kGlobalFrequencies = "rope.full_attention.inv_freq";
constexpr const char* kLocalFrequencies = "rope.sliding_attention.inv_freq";

// What was asked for: whole kinds, and tensors by name.
class Wanted {
 public:
  Wanted(const CaptureSpec& spec, const ModelConfig& config)
      : spec_(spec), chosen_(chosen_parts(spec, config)) {
    for (const std::string& item : spec.what) add(item, config);
    if (spec.what.empty()) throw formats::bad_usage("nothing to capture was named", "--what");
  }

  bool layer(std::int64_t layer) const {
    return !spec_.layers ||
           std::find(spec_.layers->begin(), spec_.layers->end(), layer) != spec_.layers->end();
  }
  bool tensor(const Part& part, const Kind& kind, std::int64_t index) const {
    return (kind_of(part, kind.name) && layer(index)) ||
           named_.contains(tensor_name(part, kind, index));
  }
  bool logits() const { return kinds_.contains("logits"); }
  // hidden and position count states: with --layers L, the one before and the one after layer L.
  bool state(const Part& part, const Kind& kind, std::int64_t index) const {
    return (kind_of(part, kind.name) && (layer(index) || layer(index - 1))) ||
           named_.contains(tensor_name(part, kind, index));
  }
  bool last_layer_out(const Part& part, const char* kind) const {
    return (kind_of(part, kind) && layer(part.layers - 1)) ||
           named_.contains(last_layer_name(part, kind));
  }
  bool attention(const Part& part, std::int64_t index) const {
    return std::any_of(kKinds.begin(), kKinds.end(), [&](const Kind& kind) {
      return kind.by_layer && tensor(part, kind, index);
    });
  }
  // Whether something of a kind that is `such` was asked for.
  template <class Such>
  bool any(const ModelConfig& config, Such such) const {
    return std::ranges::any_of(kKinds, [&](const Kind& kind) {
      return such(kind) && (kinds_.contains(kind.name) || names_one_of(kind, config));
    });
  }
  bool named(const std::string& name) const { return named_.contains(name); }
  bool kind(const std::string& name) const { return kinds_.contains(name); }
  // Whether all that was asked for is of the chosen parts.
  bool of_chosen_alone() const { return named_.empty() && !logits(); }
  const std::vector<Part>& chosen() const { return chosen_; }

 private:
  void add(const std::string& item, const ModelConfig& config) {
    const std::vector<std::string>& kinds = capture_kinds();
    if (std::find(kinds.begin(), kinds.end(), item) != kinds.end()) {
      kinds_.insert(item);
    } else if (is_capture_tensor(item, config)) {
      named_.insert(item);
    } else {
      throw formats::bad_usage(
          "\"" + item + "\" cannot be captured" + formats::near_names(item, kinds), "--what");
    }
  }

  bool names_one_of(const Kind& kind, const ModelConfig& config) const {
    for (const Part& part : parts_of(config)) {
      if (named_.contains(last_layer_name(part, kind.name))) return true;
      for (std::int64_t index = 0; index <= part.layers; ++index) {
        if (named_.contains(tensor_name(part, kind, index))) return true;
      }
    }
    return false;
  }

  // Whether that kind was asked for of this part.
  bool kind_of(const Part& part, const std::string& kind) const {
    return kinds_.contains(kind) && std::ranges::count(chosen_, part.prefix, &Part::prefix) > 0;
  }

  const CaptureSpec& spec_;
  std::vector<Part> chosen_;
  std::set<std::string> kinds_, named_;
};

void check_range(const char* option, const std::optional<Range>& range, std::int64_t size) {
  if (!range || (range->begin >= 0 && range->begin < range->end && range->end <= size)) return;
  throw formats::bad_usage("the range " + std::to_string(range->begin) + ":" +
                               std::to_string(range->end) +
                               " is empty or outside 0:" + std::to_string(size),
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

// What no tensor that was asked for has is not chosen from and dropped.
void check_readers(const CaptureSpec& spec, const Wanted& wanted, const ModelConfig& config) {
  const auto require = [&](bool given, const char* option, const char* of, auto such) {
    if (!given || wanted.any(config, such)) return;
    throw formats::bad_usage("nothing that is captured has what is chosen here", option,
                             std::string("it is of ") + of);
  };
  const auto is_logits = [](const Kind& kind) { return std::string_view(kind.name) == "logits"; };
  require(spec.layers.has_value(), "--layers", "kinds of tensors, but for logits and single ones",
          [&](const Kind& kind) { return !is_logits(kind) && wanted.kind(kind.name); });
  const bool whole = std::ranges::any_of(wanted.chosen(), &Part::whole);
  require(!spec.stack.empty(), "--stack",
          whole ? "kinds of tensors, but for logits and single ones" : "kinds of attention tensors",
          [&](const Kind& kind) {
            return wanted.kind(kind.name) && (whole ? !is_logits(kind) : kind.by_layer);
          });
  require(
      spec.heads.has_value(), "--heads", "attention tensors and position",
      [](const Kind& kind) { return kind.by_layer || std::string_view(kind.name) == "position"; });
  require(spec.rows.has_value(), "--rows", "all but k and v",
          [](const Kind& kind) { return kind.extent != Extent::key_tokens; });
  require(spec.columns.has_value(), "--cols", "attn, scores, content, positional, k and v",
          [](const Kind& kind) {
            return kind.extent == Extent::key_tokens || kind.extent == Extent::pairs;
          });
}

// The layers and tokens that can be chosen: those of the chosen stack; without one every layer that
// a stack has, and tokens that all have.
void check_extents(const CaptureSpec& spec, const Wanted& wanted, const ModelConfig& config,
                   std::int64_t encoder_tokens, std::int64_t decoder_tokens) {
  std::int64_t layers = 0;
  for (const Part& part : wanted.chosen()) layers = std::max(layers, part.layers);
  const std::int64_t shorter = std::min(encoder_tokens, decoder_tokens);
  std::int64_t queries = shorter, keys = shorter;
  if (!spec.stack.empty() && wanted.of_chosen_alone()) {
    queries = spec.stack == "enc" ? encoder_tokens : decoder_tokens;
    keys = spec.stack == "dec" ? decoder_tokens : encoder_tokens;
  }
  check_range("--rows", spec.rows, queries);
  check_range("--cols", spec.columns, keys);
  check_indices("--layers", spec.layers, layers);
  check_indices("--heads", spec.heads, config.heads);
}

// Sizes of what is asked for, before anything runs.
class SizeEstimate {
 public:
  SizeEstimate(const Decoder& decoder, const at::Tensor& ids, std::int64_t decoder_length,
               const CaptureSpec& spec, const Wanted& wanted)
      : decoder_(decoder),
        ids_(ids),
        decoder_length_(decoder_length),
        spec_(spec),
        wanted_(wanted) {}

  std::int64_t bytes(std::int64_t rows, std::int64_t columns, std::int64_t layers) const {
    double total = 0;
    for (const Kind& kind : kKinds) total += count(kind, layers) * elements(kind, rows, columns);
    return static_cast<std::int64_t>(total *
                                     static_cast<double>(at::elementSize(decoder_.dtype())));
  }

  void refuse_if_too_large() const {
    const std::int64_t length = std::max(ids_.size(1), decoder_length_);
    const std::int64_t rows = spec_.rows.value_or(Range{0, length}).size();
    const std::int64_t columns = spec_.columns.value_or(Range{0, length}).size();
    const std::int64_t layers = layer_count();
    const std::int64_t wanted = bytes(rows, columns, layers);
    if (wanted <= spec_.limit_bytes) return;
    throw formats::bad_usage("this capture would take " + std::to_string(wanted >> 20) +
                                 " MB, more than the limit of " +
                                 std::to_string(spec_.limit_bytes >> 20) + " MB",
                             "--what", suggestion(rows, columns, layers));
  }

 private:
  std::int64_t layer_count() const {
    if (spec_.layers) return static_cast<std::int64_t>(spec_.layers->size());
    return std::ranges::max(wanted_.chosen(), {}, &Part::layers).layers;
  }

  double count(const Kind& kind, std::int64_t layers) const {
    if (!wanted_.kind(kind.name)) {
      std::int64_t named = 0;
      for (const Part& part : parts_of(decoder_.config())) {
        for (std::int64_t index = 0; index <= part.layers; ++index) {
          if (wanted_.tensor(part, kind, index)) ++named;
        }
      }
      return static_cast<double>(named);
    }
    if (std::string_view(kind.name) == "logits") return 1;
    return static_cast<double>((kind.by_layer ? layers : layers + 2) *
                               static_cast<std::int64_t>(wanted_.chosen().size()));
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
    if (name == "streams") {
      const std::int64_t numbers = has_streams(config) ? config.streams.count * config.width : 0;
      return batch * queries * static_cast<double>(numbers);
    }
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
  std::int64_t decoder_length_;
  const CaptureSpec& spec_;
  const Wanted& wanted_;
};

// Collects one part's tensors, and for the decoder of an encoder-decoder the others' too.
class Collector : public Observer {
 public:
  Collector(const ModelConfig& config, std::size_t part, std::int64_t batch,
            const CaptureSpec& spec, const Wanted& wanted, HostCopies& copies, Captured& result)
      : parts_(parts_of(config)),
        part_(parts_[part]),
        heads_(config.heads),
        batch_(batch),
        spec_(spec),
        wanted_(wanted),
        copies_(copies),
        result_(result) {
    if (part == 0 && parts_.size() > 1) {
      encoder_ = std::make_unique<Collector>(config, 1, batch, spec, wanted, copies, result);
    }
  }

  Observer* encoder() override { return encoder_.get(); }

  void on_hidden(std::int64_t index, const at::Tensor& hidden) override {
    keep_stream("hidden", index, hidden, 1);
  }
  void on_streams(std::int64_t index, const at::Tensor& streams) override {
    keep_stream("streams", index, streams, 2);
  }

  void on_final_norm(const at::Tensor& hidden) override {
    if (wanted_.state(part_, kind("hidden"), part_.layers)) {
      keep(tensor_name(part_, kind("hidden"), part_.layers), rows(hidden, 1));
    }
  }

  void on_position(std::int64_t index, const PositionState& state) override {
    if (!wanted_.state(part_, kind("position"), index)) return;
    const at::Tensor& z = state.z;
    const at::Tensor whole = z.expand({batch_, heads_, z.size(2), z.size(3), z.size(4)});
    keep(tensor_name(part_, kind("position"), index), rows(chosen_heads(whole), 2));
  }

  bool wants_attention(std::int64_t layer) override { return wanted_.attention(part_, layer); }
  bool wants_cross_attention(std::int64_t layer) override {
    return wanted_.attention(parts_.back(), layer);
  }

  void on_attention(const std::shared_ptr<const LayerAttention>& attention) override {
    keep_attention(part_, *attention);
  }
  void on_cross_attention(const std::shared_ptr<const LayerAttention>& attention) override {
    keep_attention(parts_.back(), *attention);
  }

 private:
  void keep_stream(const char* name, std::int64_t index, const at::Tensor& x, std::int64_t tokens) {
    if (index == part_.layers) {
      if (wanted_.last_layer_out(part_, name)) keep(last_layer_name(part_, name), rows(x, tokens));
    } else if (wanted_.state(part_, kind(name), index)) {
      keep(tensor_name(part_, kind(name), index), rows(x, tokens));
    }
  }

  static const Kind& kind(std::string_view prefix, std::string_view suffix = {}) {
    return *std::find_if(kKinds.begin(), kKinds.end(),
                         [&](const Kind& k) { return k.prefix == prefix && k.suffix == suffix; });
  }

  void keep_attention(const Part& part, const LayerAttention& a) {
    const auto put = [&](std::string_view prefix, std::string_view suffix, const auto& make) {
      const Kind& which = kind(prefix, suffix);
      if (wanted_.tensor(part, which, a.layer())) {
        keep(tensor_name(part, which, a.layer()), make());
      }
    };
    put("q", "", [&] { return rows(chosen_heads(a.q()), 2); });
    put("q", "rotated", [&] { return rows(chosen_heads(a.q_rotated()), 2); });
    put("k", "", [&] { return columns(a.k()); });
    put("k", "rotated", [&] { return columns(a.k_rotated()); });
    put("v", "", [&] { return columns(a.v()); });
    put("lse", "", [&] { return rows(chosen_heads(a.lse()), 2); });
    put("entropy", "", [&] { return rows(chosen_heads(a.entropy()), 2); });
    const Region region{{0, a.heads()},
                        spec_.rows.value_or(Range{0, a.length()}),
                        spec_.columns.value_or(Range{0, a.keys()})};
    put("attn", "", [&] { return chosen_heads(a.weights(region)); });
    // Parts that add up bit for bit are those of plain operations. Where these run the other passes
    // too, scores and content are taken from them. The kernel's scores have other last bits, so
    // beside those the parts are computed once more.
    ScoreParts parts;
    if (wanted_.tensor(part, kind("positional"), a.layer())) parts = a.scores(region);
    const bool taken = parts.positional.defined() && !a.is_fused();
    put("scores", "", [&] { return chosen_heads(taken ? parts.score : a.score(region)); });
    put("content", "", [&] { return chosen_heads(taken ? parts.content : a.content(region)); });
    put("positional", "", [&] { return chosen_heads(parts.positional); });
  }

  at::Tensor rows(const at::Tensor& x, std::int64_t dim) const {
    return spec_.rows ? x.slice(dim, spec_.rows->begin, spec_.rows->end) : x;
  }
  at::Tensor columns(const at::Tensor& x) const {
    return spec_.columns ? x.slice(2, spec_.columns->begin, spec_.columns->end) : x;
  }

  at::Tensor chosen_heads(const at::Tensor& x) const {
    return spec_.heads ? x.index_select(1, at::tensor(*spec_.heads, x.options().dtype(at::kLong)))
                       : x;
  }

  void keep(const std::string& name, const at::Tensor& tensor) {
    result_.tensors[name] = copies_.begin(tensor).contiguous();
  }

  std::vector<Part> parts_;
  const Part& part_;
  std::int64_t heads_, batch_;
  const CaptureSpec& spec_;
  const Wanted& wanted_;
  HostCopies& copies_;  // waited for when all layers have run
  Captured& result_;
  std::unique_ptr<Collector> encoder_;
};

// The frequencies that were asked for, for texts of this length.
void keep_frequencies(const Decoder& decoder, std::int64_t length, const ForwardOptions& options,
                      const Wanted& wanted, Captured& result) {
  StartContext context;
  context.positions.length = length, context.positions.device = decoder.device();
  context.dtype = decoder.dtype();
  context.angle_dtype =
      options.angle_dtype.value_or(at::promote_types(decoder.dtype(), at::kFloat));
  context.shared = &decoder.weights().encoding;
  const auto keep = [&](const char* name, const Encoding& encoding) {
    if (!wanted.named(name)) return;
    const at::Tensor frequencies = encoding.frequencies(context);
    if (frequencies.defined()) result.tensors[name] = on_host(frequencies).contiguous();
  };
  const ModelConfig& config = decoder.config();
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool local = config.local_encoding && config.is_local(layer);
    keep(local ? kLocalFrequencies : kGlobalFrequencies, decoder.encoding_of(layer));
  }
  if (!config.local_encoding) keep(kFrequencies, decoder.encoding());
}

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
  if (name == "logits" || name == kFrequencies || name == kGlobalFrequencies ||
      name == kLocalFrequencies) {
    return true;
  }
  for (const Part& part : parts_of(config)) {
    if (part.whole && name == last_layer_name(part, "hidden")) return true;
    if (has_streams(config) && name == last_layer_name(part, "streams")) return true;
    for (const Kind& kind : kKinds) {
      if (std::string_view(kind.name) == "streams" && !has_streams(config)) continue;
      if (std::string_view(kind.name) == "logits" || (!kind.by_layer && !part.whole)) continue;
      const std::int64_t last = kind.by_layer ? part.layers - 1 : part.layers;
      for (std::int64_t index = 0; index <= last; ++index) {
        if (name == tensor_name(part, kind, index)) return true;
      }
    }
  }
  return false;
}

Captured capture(const Decoder& decoder, const at::Tensor& ids, const CaptureSpec& spec,
                 const ForwardOptions& options) {
  const at::NoGradGuard no_grad;
  decoder.check_ids(ids);
  const ModelConfig& config = decoder.config();
  const std::int64_t decoder_length = config.encoder_layers > 0 && options.decoder_ids.defined()
                                          ? options.decoder_ids.size(-1)
                                          : ids.size(1);
  const Wanted wanted(spec, config);
  check_extents(spec, wanted, config, ids.size(1), decoder_length);
  check_readers(spec, wanted, config);
  SizeEstimate(decoder, ids, decoder_length, spec, wanted).refuse_if_too_large();
  Captured result;
  HostCopies copies;
  Collector collector(config, 0, ids.size(0), spec, wanted, copies, result);
  AllRan kernels;
  ForwardOptions forward = options;
  forward.kernels = &kernels;
  const at::Tensor hidden = decoder.hidden(ids, forward, &collector);
  result.ran = std::move(kernels);
  if (wanted.logits() && config.head.present) {
    const Range rows = spec.rows.value_or(Range{0, decoder_length});
    result.tensors["logits"] =
        copies.begin(decoder.logits(hidden.slice(1, rows.begin, rows.end), options)).contiguous();
  } else if (wanted.logits()) {
    result.notes.push_back("the model has no head, so there are no logits");
  }
  copies.wait();
  keep_frequencies(decoder, decoder_length, options, wanted, result);
  const bool states = wanted.kind("hidden") || wanted.kind("streams") || wanted.kind("position");
  if (spec.stack == "cross" && states) {
    result.notes.push_back(
        "hidden states and positions are of enc and dec, and none are of cross attention");
  }
  if (wanted.kind("position") && !decoder.encoding().has_state()) {
    result.notes.push_back("the encoding " + decoder.encoding().info().key +
                           " has no position state, so there is no position.L");
  }
  return result;
}

}  // namespace phasescope::model
