#include "model/checkpoints/check.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "formats/tensors/safetensors.h"
#include "formats/tokenizer.h"
#include "model/capture.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/constructed.h"
#include "model/checkpoints/tensor_io.h"
#include "model/forward_inputs.h"

namespace phasescope::model {
namespace {

constexpr double kFloat64Tolerance = 1e-10;
constexpr double kFloat32Floor = 1e-5;
constexpr const char* kRule =
    "float64: 1e-10; otherwise max(1e-5, 3 x the reference's own float32 error), relative to the "
    "tensor's largest magnitude, from the float64 tensor; where the file has none, from the "
    "float32 "
    "one, which is off by that error itself: it is added; weights (w.NAME): a unit of the dtype "
    "computed in, float32's at least";

// One tensor to compare: "n33.logits_f64" is {"n33.", "logits", true}.
struct Target {
  const formats::TensorEntry* entry;
  std::string prefix, name;
  bool float64 = false;
};

// The inputs of one prefix, and what is compared there.
struct Group {
  const formats::TensorEntry* ids = nullptr;
  std::vector<Target> targets;
};

// What read_forward_inputs reads, positions.3 (what a layer drew) among it.
bool is_input(const std::string& name) {
  static const std::set<std::string> inputs = {
      "input_ids",         "attention_mask", "position_ids", "token_type_ids",
      "decoder_input_ids", "grid_positions", "document_ids"};
  return inputs.contains(name) || name.starts_with("positions.");
}

std::string without_ending(const std::string& name, bool& float64) {
  float64 = name.ends_with("_f64");
  return float64 ? name.substr(0, name.size() - 4) : name;
}

// Largest difference over the reference's largest magnitude; equal infinities do not count, NaN
// anywhere is NaN.
double relative_error(const at::Tensor& ours, const at::Tensor& reference) {
  const at::Tensor a = ours.to(at::kDouble);
  const at::Tensor b = reference.to(at::kDouble);
  const at::Tensor difference = at::where(a == b, 0.0, (a - b).abs());
  const at::Tensor finite = at::where(b.isinf(), 0.0, b.abs());
  const double scale = finite.max().item<double>();
  return difference.max().item<double>() / (scale > 0 ? scale : 1.0);
}

// What a number of this dtype may be off by for the rounding of its last place, relative to it.
double unit_of(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? 0x1p-8 : dtype == at::kHalf ? 0x1p-11 : 0x1p-23;
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

OpenModelOptions opening(const CheckOptions& options, at::ScalarType dtype) {
  return {.dtype = dtype, .overrides = options.overrides, .cancelled = options.forward.cancelled};
}

// What about.json beside a reference says of it; an empty object where there is none. Other people
// may keep a file of that name, of any form.
Json account_beside(const std::filesystem::path& reference) {
  const std::filesystem::path path = reference.parent_path() / "about.json";
  if (!formats::is_file(path)) return Json::object();
  try {
    Json about = formats::json_from_file(path);
    return about.is_object() ? about : Json::object();
  } catch (const formats::Error&) {
    return Json::object();
  }
}

class Checker {
 public:
  Checker(const std::string& model, const std::filesystem::path& reference,
          const CheckOptions& options)
      : name_(model),
        options_(options),
        file_(formats::SafetensorsFile::open(reference)),
        about_(account_beside(reference)),
        model_(open_model(model, opening(options, options.dtype))) {
    result_.dtype = name_of_dtype(options.dtype);
    result_.weights_from = model_->report.weights_from;
    result_.tolerance_rule =
        options.tolerance ? "at most " + number_text(*options.tolerance) : kRule;
  }

  ReferenceCheck run() {
    sort_tensors();
    for (auto& [prefix, group] : groups_) {
      if (group.ids != nullptr) {
        compare(group);
      } else {
        for (const Target& target : group.targets) {
          leave_out(target.entry->name, "its group has no input_ids");
        }
      }
    }
    std::sort(result_.compared.begin(), result_.compared.end(), [](const auto& a, const auto& b) {
      const auto badness = [](const TensorComparison& c) {
        return std::isnan(c.error) ? std::numeric_limits<double>::infinity()
                                   : c.error / c.tolerance;
      };
      return badness(a) > badness(b);
    });
    result_.passed = !result_.compared.empty() &&
                     std::all_of(result_.compared.begin(), result_.compared.end(),
                                 [](const TensorComparison& c) { return c.passed; });
    return std::move(result_);
  }

 private:
  void leave_out(const std::string& name, const std::string& reason) {
    result_.not_compared.push_back({name, reason});
  }

  void sort_tensors() {
    for (const formats::TensorEntry& entry : file_.tensors()) {
      if (!compare_weight(entry) && !place(entry, "", entry.name)) {
        const std::size_t dot = entry.name.find('.');
        const bool placed = dot != std::string::npos &&
                            place(entry, entry.name.substr(0, dot + 1), entry.name.substr(dot + 1));
        if (!placed) leave_out(entry.name, "no capture has this name");
      }
    }
  }

  // "w.NAME": a weight as it is read, decoded where it is quantised, by the name that it has in the
  // model's file, where several may be one (fused experts), or by its canonical one.
  bool compare_weight(const formats::TensorEntry& entry) {
    if (!entry.name.starts_with("w.")) return false;
    const std::string name = entry.name.substr(2);
    const at::Tensor reference = read(entry);
    TensorComparison comparison;
    comparison.name = entry.name;
    comparison.tolerance = options_.tolerance.value_or(unit_of(options_.dtype));
    if (const formats::TensorEntry* stored = in_the_file(name)) {
      if (reference.sizes() == at::IntArrayRef(stored->shape)) {
        if (!hold_parts(reader_->parts(name, reference), comparison)) return false;
      } else {
        say_shapes(stored->shape, reference, comparison);
      }
    } else {
      const auto ours = weights().find(name);
      if (ours == weights().end()) return false;
      hold_against(ours->second, reference, comparison);
    }
    result_.compared.push_back(comparison);
    return true;
  }

  // The tensor of this name that the model was read from; null where it has no such file or tensor.
  const formats::TensorEntry* in_the_file(const std::string& name) {
    if (find_constructed(name_) != nullptr) return nullptr;
    if (!reader_) reader_ = std::make_unique<CheckpointReader>(name_, options_.forward.cancelled);
    const std::vector<formats::TensorEntry>& all = reader_->archive().tensors();
    const auto found = std::ranges::find(all, name, &formats::TensorEntry::name);
    return found == all.end() ? nullptr : &*found;
  }

  // False where the model has none of them, or not all.
  bool hold_parts(const NamedTensors& parts, TensorComparison& comparison) {
    std::vector<at::Tensor> ours, references;
    for (const auto& [name, reference] : parts) {
      const auto own = weights().find(name);
      if (own == weights().end()) return false;
      ours.push_back(own->second.flatten());
      references.push_back(reference.flatten());
    }
    if (parts.empty()) return false;
    hold_against(at::cat(ours), at::cat(references), comparison);
    return true;
  }

  // By canonical names.
  const std::map<std::string, at::Tensor>& weights() {
    if (weights_.empty()) {
      const NamedTensors all =
          named_tensors(model_->config(), model_->encoding(), model_->decoder.weights());
      weights_.insert(all.begin(), all.end());
    }
    return weights_;
  }

  static void hold_against(const at::Tensor& ours, const at::Tensor& reference,
                           TensorComparison& comparison) {
    if (ours.sizes() == reference.sizes()) {
      comparison.error = relative_error(ours, reference);
      comparison.passed = comparison.error <= comparison.tolerance;
      return;
    }
    say_shapes(ours.sizes(), reference, comparison);
  }

  static void say_shapes(at::IntArrayRef ours, const at::Tensor& reference,
                         TensorComparison& comparison) {
    comparison.error = std::numeric_limits<double>::quiet_NaN();
    comparison.why = "the shape is " + formats::shape_text(ours) + ", the reference's " +
                     formats::shape_text(reference.sizes());
  }

  bool place(const formats::TensorEntry& entry, const std::string& prefix,
             const std::string& rest) {
    if (is_input(rest)) {
      Group& group = groups_[prefix];
      if (rest == "input_ids") group.ids = &entry;
      return true;
    }
    Target target{&entry, prefix, {}, false};
    target.name = without_ending(rest, target.float64);
    if (!is_capture_tensor(target.name, model_->config())) return false;
    groups_[prefix].targets.push_back(target);
    return true;
  }

  at::Tensor read(const formats::TensorEntry& entry) const { return read_tensor(file_, entry); }

  void compare(const Group& group) {
    compare_in(group, model_, false);
    const bool any = std::any_of(group.targets.begin(), group.targets.end(),
                                 [](const Target& target) { return target.float64; });
    if (!any) return;
    if (!exact_) exact_ = open_model(name_, opening(options_, at::kDouble));
    compare_in(group, exact_, true);
  }

  // All targets of one kind of run.
  void compare_in(const Group& group, const std::shared_ptr<const Model>& model, bool float64) {
    CaptureSpec spec;
    for (const Target& target : group.targets) {
      if (target.float64 == float64) spec.what.push_back(target.name);
    }
    if (spec.what.empty()) return;
    const at::Tensor given = read(*group.ids);
    const std::string where = file_.path().string() + ": " + group.ids->name;
    if (given.is_floating_point()) {
      throw formats::bad_input("input_ids must hold whole numbers, not floating point", where);
    }
    const at::Tensor ids = given.to(at::kLong).contiguous();
    formats::check_ids({ids.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(ids.numel())},
                       model->config().vocab_size, where);
    ForwardOptions forward = options_.forward;
    read_forward_inputs(file_, group.targets.front().prefix, ids, model->config(), forward);
    const Captured captured = capture(model->decoder, ids, spec, forward);
    if (!float64) result_.ran = captured.ran;
    const at::Tensor blind = blind_tokens(model->config(), forward);
    for (const Target& target : group.targets) {
      if (target.float64 == float64) compare_tensor(group, target, captured, blind);
    }
  }

  // (B, N), true for tokens that see padding alone, of their own document: what a model makes of
  // them is nobody's text, and implementations differ. Undefined where there are none.
  static at::Tensor blind_tokens(const ModelConfig& config, const ForwardOptions& options) {
    if (!options.key_mask.defined() || !config.attention.causal || config.encoder_layers > 0 ||
        config.attention.padding != "hidden") {
      return {};
    }
    at::Tensor seen = options.key_mask.ne(0).unsqueeze(1);
    if (options.document_ids.defined()) {
      seen = seen & options.document_ids.unsqueeze(2).eq(options.document_ids.unsqueeze(1));
    }
    const std::int64_t length = options.key_mask.size(1);
    const at::Tensor blind = seen.expand({-1, length, -1}).tril().any(-1).logical_not();
    return blind.any().item<bool>() ? blind : at::Tensor();
  }

  // The tensor with 0 in the rows of those tokens.
  static at::Tensor without(const at::Tensor& blind, const std::string& name,
                            const at::Tensor& tensor) {
    const bool by_token = name.starts_with("logits") || name.starts_with("hidden");
    const bool by_head = name.starts_with("attn") || name.starts_with("scores") ||
                         name.starts_with("content") || name.starts_with("positional") ||
                         name.starts_with("lse") || name.starts_with("entropy");
    if (by_token && tensor.dim() == 3) return tensor.masked_fill(blind.unsqueeze(-1), 0.0);
    if (!by_head) return tensor;
    const at::Tensor rows = blind.unsqueeze(1);
    return tensor.masked_fill(tensor.dim() == 4 ? rows.unsqueeze(-1) : rows, 0.0);
  }

  void compare_tensor(const Group& group, const Target& target, const Captured& captured,
                      const at::Tensor& blind) {
    const auto ours = captured.tensors.find(target.name);
    if (ours == captured.tensors.end()) {
      leave_out(target.entry->name, "this model has no such tensor");
      return;
    }
    // The tolerance is of what the reference's own float32 loses against its float64, and so is
    // ours measured; the rounded tensor would add the reference's loss to it.
    const formats::TensorEntry* exact = target.float64 ? nullptr : find(group, target.name, true);
    const at::Tensor reference = read(exact != nullptr ? *exact : *target.entry);
    TensorComparison comparison;
    comparison.name = target.entry->name;
    comparison.tolerance = tolerance(group, target, exact != nullptr);
    const bool same = ours->second.sizes() == reference.sizes();
    if (blind.defined() && same) {
      hold_against(without(blind, target.name, ours->second),
                   without(blind, target.name, reference), comparison);
    } else {
      hold_against(ours->second, reference, comparison);
    }
    result_.compared.push_back(comparison);
  }

  // `exact`: what is held against is no rounded tensor. Else |ours - rounded| is at most |ours -
  // exact| + |rounded - exact|, and the last of these is the reference's loss.
  double tolerance(const Group& group, const Target& target, bool exact) const {
    if (options_.tolerance) return *options_.tolerance;
    if (target.float64) return kFloat64Tolerance;
    const double loss = reference_loss(group, target);
    return std::max(kFloat32Floor, 3 * loss) + (exact ? 0 : loss);
  }

  // What the reference's own float32 run loses: of the same tensor, or of the group's logits, or
  // what is recorded of the group's tensors of its kind.
  double reference_loss(const Group& group, const Target& target) const {
    return std::max(measured_loss(group, target), recorded_loss(target));
  }

  // Logits may have lost less than weights and hidden states, where they are capped for example.
  double recorded_loss(const Target& target) const {
    const char* key = target.name.starts_with("attn.") ? "max_abs_attn_f32_minus_f64"
                      : target.name.starts_with("hidden.") || target.name.starts_with("streams.")
                          ? "max_abs_hidden_f32_minus_f64"
                          : nullptr;
    const auto figures = about_.find(target.prefix + "figures");
    if (key == nullptr || figures == about_.end() || !figures->is_object()) return 0;
    const auto loss = figures->find(key);
    if (loss == figures->end() || !loss->is_number()) return 0;
    const at::Tensor size = read(*target.entry).to(at::kDouble).abs();
    const double scale = at::where(size.isinf(), 0.0, size).max().item<double>();
    return loss->get<double>() / (scale > 0 ? scale : 1.0);
  }

  double measured_loss(const Group& group, const Target& target) const {
    for (const std::string& name : {target.name, std::string("logits")}) {
      const formats::TensorEntry* rounded = find(group, name, false);
      const formats::TensorEntry* exact = find(group, name, true);
      if (rounded != nullptr && exact != nullptr) {
        return relative_error(read(*rounded), read(*exact));
      }
    }
    return 0;
  }

  static const formats::TensorEntry* find(const Group& group, const std::string& name,
                                          bool float64) {
    for (const Target& target : group.targets) {
      if (target.name == name && target.float64 == float64) return target.entry;
    }
    return nullptr;
  }

  std::string name_;
  const CheckOptions& options_;
  formats::SafetensorsFile file_;
  Json about_;
  std::shared_ptr<const Model> model_, exact_;
  std::map<std::string, Group> groups_;
  std::unique_ptr<CheckpointReader> reader_;   // of the file's own names; made where one is asked
  std::map<std::string, at::Tensor> weights_;  // likewise
  ReferenceCheck result_;
};

}  // namespace

ReferenceCheck check_against(const std::string& path_or_name,
                             const std::filesystem::path& reference, const CheckOptions& options) {
  const at::NoGradGuard no_grad;
  return Checker(path_or_name, reference, options).run();
}

}  // namespace phasescope::model
