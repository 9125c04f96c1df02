#include "model/rope_plan.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "model/encoding.h"

namespace phasescope::model {
namespace {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// The encodings of a model's layers, made once.
class LayerEncodings {
 public:
  explicit LayerEncodings(const ModelConfig& config)
      : config_(config),
        most_(make_encoding(config)),
        local_(make_local_encoding(config)),
        groups_(make_group_encodings(config)) {}

  const Encoding& of(std::int64_t layer) const {
    const std::int64_t group = config_.encoding_group_of(layer);
    if (group >= 0) return *groups_[static_cast<std::size_t>(group)];
    return local_ && config_.is_local(layer) ? *local_ : *most_;
  }

 private:
  const ModelConfig& config_;
  std::unique_ptr<Encoding> most_, local_;
  std::vector<std::unique_ptr<Encoding>> groups_;
};

std::string sees(const ModelConfig& config, std::int64_t layer) {
  const AttentionConfig& attention = config.attention;
  if (names_layer(config.linear.layers, layer)) return "a state, no pairs";
  if (!config.is_local(layer)) return "all";
  if (attention.chunk > 0) return "its run of " + std::to_string(attention.chunk) + " tokens";
  return attention.window > 0 ? std::to_string(attention.window) + " tokens" : "all";
}

std::string temperature(const ModelConfig& config, std::int64_t layer) {
  const AttentionConfig& a = config.attention;
  const bool here = a.temperature_layers.empty() || names_layer(a.temperature_layers, layer);
  if (a.temperature == 0 || !here) return {};
  const std::string place =
      a.temperature_from == 0 ? "i" : "(i + " + std::to_string(a.temperature_from) + ")";
  const std::string ratio = place + " / " + short_number(a.temperature_length);
  return "1 + " + short_number(a.temperature) +
         (a.temperature_smooth ? " ln(max(1, " + ratio + "))" : " ln(1 + floor(" + ratio + "))");
}

// The length of the first token's turn, which a scaling may stretch. Stored tables and angles have
// no scaling.
double magnitude_of(const Encoding& encoding) {
  const Json& options = encoding.options();
  if (encoding.info().key != "rope" || options.at("table_rows") != 0 ||
      options.at("stored_angles") == true) {
    return 1;
  }
  StartContext context;
  context.positions.length = 1;
  context.dtype = context.angle_dtype = at::kDouble;
  const at::Tensor z = encoding.start(context).z.flatten(0, 2);  // (1, 2, planes)
  return z.select(-1, 0).norm().item<double>();
}

std::vector<double> frequencies_of(const Encoding& encoding, std::int64_t length) {
  StartContext context;
  context.positions.length = length;
  context.dtype = context.angle_dtype = at::kDouble;
  const at::Tensor frequencies = encoding.frequencies(context);
  if (!frequencies.defined()) return {};
  const at::Tensor list = frequencies.to(at::kDouble).contiguous();
  return {list.const_data_ptr<double>(), list.const_data_ptr<double>() + list.numel()};
}

std::string channels_of(const std::vector<double>& frequencies, std::int64_t head_dim) {
  const auto paired = static_cast<std::int64_t>(2 * frequencies.size());
  const std::int64_t still = 2 * std::ranges::count(frequencies, 0.0);
  const std::string all = std::to_string(head_dim), some = std::to_string(paired - still);
  if (paired == head_dim) return still == 0 ? "all " + all : some + " of " + all;
  const std::string first = "first " + std::to_string(paired) + " of " + all;
  return still == 0 ? first : some + " of the " + first;
}

// Which position each plane turns by, where tokens have several.
std::string axes_of(const Encoding& encoding, std::size_t planes) {
  const Json sections = encoding.options().value("sections", Json::array());
  if (sections.empty()) return {};
  const bool interleaved = encoding.options().at("section_order") == "interleaved";
  std::string text;
  std::size_t block = 0, in_block = 0;
  for (std::size_t plane = 0; plane < planes; ++plane) {
    std::size_t axis = plane % 3;
    if (interleaved) {
      if (axis > 0 && plane >= 3 * sections.at(axis).get<std::size_t>()) axis = 0;
    } else {
      while (in_block == sections.at(block).get<std::size_t>()) ++block, in_block = 0;
      axis = block;
      ++in_block;
    }
    text += (text.empty() ? "" : " ") + std::to_string(axis);
  }
  return text;
}

// The largest relative difference over the planes; none where one of them has no frequencies, and
// without end where their numbers differ.
std::optional<double> difference(const std::vector<double>& stored,
                                 const std::vector<double>& applied) {
  if (stored.empty() || applied.empty()) return std::nullopt;
  if (stored.size() != applied.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t n = 0; n < stored.size(); ++n) {
    const double off = applied[n] == 0 ? std::abs(stored[n]) : std::abs(stored[n] / applied[n] - 1);
    largest = std::max(largest, off);
  }
  return largest;
}

RopePlanRow row_of(const ModelConfig& config, const Encoding& encoding, std::int64_t layer,
                   std::int64_t length) {
  RopePlanRow row;
  row.sees = sees(config, layer);
  row.encoding = "linear";
  if (names_layer(config.linear.layers, layer)) return row;
  row.encoding = encoding.info().key;
  row.temperature = temperature(config, layer);
  if (config.attention.qk_norm != "none") row.norm = "before the turn";
  row.frequencies = frequencies_of(encoding, length);
  if (row.frequencies.empty()) return row;
  if (config.attention.qk_norm_after) row.norm = "after the turn";
  if (encoding.options().contains("layout")) {
    row.encoding += ", " + encoding.options().at("layout").get<std::string>();
  }
  row.channels = channels_of(row.frequencies, config.shape_of(layer).head_dim);
  row.magnitude = magnitude_of(encoding);
  row.axes = axes_of(encoding, row.frequencies.size());
  return row;
}

bool same_plan(const RopePlanRow& a, const RopePlanRow& b) {
  return a.sees == b.sees && a.encoding == b.encoding && a.channels == b.channels &&
         a.frequencies == b.frequencies && a.magnitude == b.magnitude && a.axes == b.axes &&
         a.norm == b.norm && a.temperature == b.temperature &&
         a.stored_difference == b.stored_difference && a.library_difference == b.library_difference;
}

// What a family's library would apply, layer by layer.
class LibraryFrequencies {
 public:
  LibraryFrequencies(const ModelConfig* config, std::int64_t length)
      : config_(config), length_(length) {
    if (config != nullptr) encodings_.emplace(*config);
  }

  // How far what is applied in a layer is from the library's; nothing where there is no library or
  // the layer turns nothing.
  std::optional<double> difference_from(const std::vector<double>& applied, std::int64_t layer) {
    if (config_ == nullptr || applied.empty() || layer >= config_->layers) return std::nullopt;
    const Encoding& encoding = encodings_->of(layer);
    if (&encoding != last_) list_ = frequencies_of(encoding, length_), last_ = &encoding;
    if (list_.empty()) return std::numeric_limits<double>::infinity();
    return difference(list_, applied);
  }

 private:
  const ModelConfig* config_;
  std::int64_t length_;
  std::optional<LayerEncodings> encodings_;
  const Encoding* last_ = nullptr;  // whose frequencies `list_` has
  std::vector<double> list_;
};

}  // namespace

std::vector<RopePlanRow> rope_plan(const ModelConfig& config, std::int64_t length,
                                   const StoredFrequencies& stored, const ModelConfig* library) {
  const at::NoGradGuard no_grad;
  const LayerEncodings encodings(config);
  LibraryFrequencies of_library(library, length);
  std::vector<RopePlanRow> plan;
  bool turns = false;
  const Encoding* last = nullptr;  // of the row before, whose frequencies need no second reading
  RopePlanRow before;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const Encoding& encoding = encodings.of(layer);
    const bool again = &encoding == last && before.sees == sees(config, layer) &&
                       before.temperature == temperature(config, layer);
    RopePlanRow row = again ? before : row_of(config, encoding, layer, length);
    row.layers.clear();
    const auto own = stored.contains(layer) ? stored.find(layer) : stored.find(-1);
    row.stored_difference =
        own == stored.end() ? std::nullopt : difference(own->second, row.frequencies);
    row.library_difference = of_library.difference_from(row.frequencies, layer);
    turns = turns || !row.frequencies.empty();
    last = &encoding, before = row;
    auto same = std::find_if(plan.begin(), plan.end(),
                             [&](const RopePlanRow& other) { return same_plan(other, row); });
    if (same == plan.end()) same = plan.insert(plan.end(), std::move(row));
    same->layers.push_back(layer);
  }
  return turns ? plan : std::vector<RopePlanRow>{};
}

std::vector<std::string> frequency_warnings(const std::vector<RopePlanRow>& plan) {
  // Files store them in 16 bits too, which keep eight bits of a number: 0.4 %.
  constexpr double kRounding = 0.005;
  std::vector<std::string> list;
  for (const RopePlanRow& row : plan) {
    if (!row.stored_difference || *row.stored_difference <= kRounding) continue;
    const std::string which =
        "the frequencies that the file stores for " + words_of_layers(row.layers);
    list.push_back(std::isinf(*row.stored_difference)
                       ? which + " are another number than the planes that turn"
                       : which + " differ from those applied by up to " +
                             short_number(100 * *row.stored_difference) +
                             " %: see whether its configuration says the rope it was trained with");
  }
  return list;
}

}  // namespace phasescope::model
