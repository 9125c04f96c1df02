#include "worker/handle_analysis.h"

#include <algorithm>
#include <iterator>

#include "analysis/compare.h"
#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/patterns.h"
#include "analysis/shift.h"
#include "analysis/theory/check.h"
#include "formats/error.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/theory.h"
#include "worker/model_cache.h"
#include "worker/pass_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using analysis::Texts;
using nlohmann::json;
using protocol::Reply;

using ModelPointer = std::shared_ptr<const model::Model>;
using Passes = std::vector<std::shared_ptr<analysis::TextPass>>;

constexpr std::int64_t kThumbnailSide = 64;

template <class T>
Reply reply_of(const T& result, std::vector<protocol::TensorRef> tensors = {}) {
  return {protocol::to_json_form(result), std::move(tensors)};
}

// One text comes from the cache; a corpus is read text by text and nothing of it is kept.
Passes passes_of(const ModelPointer& model, const Texts& texts, const json& params,
                 RequestContext& context) {
  Passes passes;
  if (texts.items.size() == 1) {
    passes.push_back(pass_cache().get(model, texts.items[0], backend_of(params), context));
    return passes;
  }
  model::ForwardOptions options;
  options.backend = backend_of(params);
  for (const analysis::Text& text : texts.items) {
    passes.push_back(std::make_shared<analysis::TextPass>(
        model, analysis::ids_tensor(text.ids), analysis::with_inputs_of(text, options), 0));
  }
  return passes;
}

// A model of a request about several, with its texts and its share of the progress.
struct ModelTexts {
  ModelPointer model;
  json params;
  Texts texts;
};

ModelTexts open_with_texts(const json& params, const std::string& name, RequestContext& context,
                           DefaultInput fallback) {
  ModelTexts out;
  out.params = params_for(params, name);
  out.model = context.models().open(out.params, context);
  out.texts = read_input(out.params, context, *out.model, fallback);
  return out;
}

// What is measured of an encoder-decoder where nobody can choose.
void note_stack(const model::Model& model, Texts& texts) {
  if (model.config().encoder_layers > 0) {
    texts.add_note("of " + model.report.name + " the decoder's self-attention is measured");
  }
}

// What ran attention in all of them.
std::string kernel_of(const Passes& passes) {
  model::KernelNames kernels;
  for (const auto& pass : passes) kernels.insert(pass->kernels().begin(), pass->kernels().end());
  return model::joined(kernels);
}

template <class T>
T number_param(const json& params, const char* name, T fallback) {
  const auto at = params.find(name);
  if (at == params.end() || at->is_null()) return fallback;
  if (!at->is_number()) throw formats::bad_usage(std::string(name) + " must be a number", name);
  return at->get<T>();
}

// ---- heads --------------------------------------------------------------------------------------

std::int64_t thumbnail_side(const json& params) {
  const auto at = params.find("thumbnails");
  if (at == params.end() || at->is_null()) return 0;
  if (at->is_boolean()) return at->get<bool>() ? kThumbnailSide : 0;
  return std::clamp<std::int64_t>(number_param<std::int64_t>(params, "thumbnails", 0), 0, 512);
}

Reply heads(const json& params, RequestContext& context) {
  const ModelPointer model = context.models().open(params, context);
  Texts texts = read_input(params, context, *model, DefaultInput::first_session);
  analysis::HeadsOptions options;
  options.stack = params.value("stack", "");
  options.metrics = words_param(params, "metrics");
  options.thumbnails = thumbnail_side(params);
  options.period = number_param<std::int64_t>(params, "period", 0);
  options.seed = number_param<std::uint64_t>(params, "seed", 0);
  options.open_pass = [&](const std::vector<std::int64_t>& ids) {
    return pass_cache().get(model, {.ids = ids}, backend_of(params), context);
  };
  const Passes passes = passes_of(model, texts, params, context);
  analysis::HeadsOutput out = analysis::analyse_heads(passes, options, context);
  texts.add_note(out.result.provenance.note);
  out.result.provenance =
      provenance_of("heads", params, context, {model}, &texts, out.result.provenance.kernel);
  return reply_of(out.result, std::move(out.tensors));
}

// ---- map ----------------------------------------------------------------------------------------

Reply map(const json& params, RequestContext& context) {
  const ModelPointer model = context.models().open(params, context);
  const Texts texts = only_first(read_input(params, context, *model, DefaultInput::first_session));
  analysis::MapOptions options;
  options.head = analysis::parse_head(params.value("head", "L0H0"));
  options.rows = range_param(params, "rows");
  options.columns = range_param(params, "cols");
  if (const auto size = integers_param(params, "size")) {
    options.height = size->front(), options.width = size->back();
    if (size->size() > 2 || options.height < 1 || options.width < 1) {
      throw formats::bad_usage("a size is HxW, both at least 1", "size");
    }
  }
  options.of = params.value("of", options.of);
  options.pool = params.value("pool", options.pool);
  options.top = number_param<std::int64_t>(params, "top", options.top);
  const auto pass = pass_cache().get(model, texts.items[0], backend_of(params), context);
  analysis::MapOutput out = analysis::analyse_map(*pass, options);
  out.result.provenance =
      provenance_of("map", params, context, {model}, &texts, out.result.provenance.kernel);
  return reply_of(out.result, std::move(out.tensors));
}

// ---- patterns -----------------------------------------------------------------------------------

Reply patterns(const json& params, RequestContext& context) {
  const ModelPointer model = context.models().open(params, context);
  Texts texts = read_input(params, context, *model, DefaultInput::first_session);
  note_stack(*model, texts);
  analysis::PatternsOptions options;
  options.positions = number_param<std::int64_t>(params, "positions", options.positions);
  options.layers = integers_param(params, "layers");
  if (params.contains("query")) {
    options.query = number_param<std::int64_t>(params, "query", 0);
  }
  const Passes passes = passes_of(model, texts, params, context);
  analysis::PatternsOutput out = analysis::analyse_patterns(passes, options, context);
  out.result.provenance =
      provenance_of("patterns", params, context, {model}, &texts, kernel_of(passes));
  return reply_of(out.result, std::move(out.tensors));
}

// ---- distance -----------------------------------------------------------------------------------

analysis::DistanceOptions distance_options(const json& params, const Texts& texts) {
  analysis::DistanceOptions options;
  options.near = range_param(params, "near");
  options.far = range_param(params, "far");
  options.pairs = number_param<std::int64_t>(params, "pairs", options.pairs);
  options.leave_out_first = params.value("leave_out_first", texts.starts_with_bos);
  options.per_head = params.value("per_head", false);
  options.seed = number_param<std::uint64_t>(params, "seed", 0);
  return options;
}

// Distances are counted in tokens, which are those of positions where these follow each other.
void require_steps_of_one(const Texts& texts) {
  for (const analysis::Text& text : texts.items) {
    for (std::size_t n = 1; n < text.position_ids.size(); ++n) {
      if (text.position_ids[n] == text.position_ids[n - 1] + 1) continue;
      throw formats::bad_input(
          "distance counts tokens, and these position ids do not follow each "
          "other",
          "position_ids", "give the ids without them");
    }
  }
}

Reply distance(const json& params, RequestContext& context) {
  const std::vector<std::string> names = model_names(params);
  protocol::DistanceResult result;
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto share = static_cast<double>(names.size());
    protocol::PartOfProgress part(context, static_cast<double>(n) / share,
                                  static_cast<double>(n + 1) / share);
    const ModelTexts in =
        open_with_texts(params, names[n], context, DefaultInput::validation_texts);
    require_steps_of_one(in.texts);
    const analysis::DistanceOptions options = distance_options(in.params, in.texts);
    protocol::DistanceModel model = analysis::analyse_distance(
        passes_of(in.model, in.texts, in.params, context), options, part);
    const std::string kernel = model.provenance.kernel;
    model.provenance = provenance_of("distance", in.params, context, {in.model}, &in.texts, kernel);
    if (options.leave_out_first) {
      model.note += std::string(model.note.empty() ? "" : "; ") +
                    "key 0 ([BOS]) is left out of the histograms";
    }
    result.models.push_back(std::move(model));
  }
  return reply_of(result);
}

// ---- shift --------------------------------------------------------------------------------------

// Beyond these, an angle has lost more than half of a float64's digits, and no memory holds the
// tokens that stand before the text.
constexpr std::int64_t kFarthestShift = std::int64_t{1} << 31;
constexpr std::int64_t kMostTokensBefore = std::int64_t{1} << 24;

void check_shifts(const analysis::ShiftOptions& options) {
  const bool tokens = std::ranges::count(options.methods, analysis::ShiftMethod::tokens) > 0;
  const std::int64_t most = tokens ? kMostTokensBefore : kFarthestShift;
  for (const std::int64_t shift : options.by) {
    if (shift >= 0 && shift <= most) continue;
    throw formats::bad_usage("a shift must be from 0 to " + std::to_string(most) + " " +
                                 (tokens ? "tokens" : "positions") + ", not " +
                                 std::to_string(shift),
                             "by");
  }
}

analysis::ShiftOptions shift_options(const json& params) {
  analysis::ShiftOptions options;
  if (const auto by = integers_param(params, "by")) options.by = *by;
  const std::vector<std::string> methods = words_param(params, "method");
  if (!methods.empty()) options.methods.clear();
  for (const std::string& method : methods) {
    if (method != "ids" && method != "tokens") {
      throw formats::bad_usage("a shift is made by ids or tokens, not \"" + method + "\"",
                               "method");
    }
    options.methods.push_back(method == "ids" ? analysis::ShiftMethod::ids
                                              : analysis::ShiftMethod::tokens);
  }
  const std::vector<std::string> dtypes = words_param(params, "dtypes");
  if (!dtypes.empty()) options.dtypes = dtypes;
  if (params.contains("dtype")) options.dtypes = {params["dtype"].get<std::string>()};
  options.backend = backend_of(params);
  check_shifts(options);
  return options;
}

// A text of no length that was asked for leaves room for the shifts in a table of positions.
void leave_room(Texts& texts, const model::Model& model, const std::vector<std::int64_t>& by) {
  analysis::Text& text = texts.items[0];
  const auto tokens = static_cast<std::int64_t>(text.ids.size());
  const std::int64_t fit = analysis::tokens_that_shift(model, tokens, by);
  if (fit == tokens) return;
  text.ids.resize(static_cast<std::size_t>(fit));
  if (!text.spans.empty()) text.spans.resize(static_cast<std::size_t>(fit));
  const std::int64_t shift = *std::ranges::max_element(by);
  texts.add_note("the first " + std::to_string(fit) + " of " + std::to_string(tokens) +
                 " tokens are read: a shift by " + std::to_string(shift) +
                 " moves them to the end of the model's table of " + std::to_string(fit + shift) +
                 " positions");
}

Reply shift(const json& params, RequestContext& context) {
  const std::vector<std::string> names = model_names(params);
  const analysis::ShiftOptions options = shift_options(params);
  protocol::ShiftResult result;
  result.formula = analysis::shift_formula();
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto share = static_cast<double>(names.size());
    protocol::PartOfProgress part(context, static_cast<double>(n) / share,
                                  static_cast<double>(n + 1) / share);
    ModelTexts in = open_with_texts(params, names[n], context, DefaultInput::first_session);
    in.texts = only_first(std::move(in.texts));
    require_ids_alone(in.texts, "shift");
    note_stack(*in.model, in.texts);
    const bool length_given = number_param<std::int64_t>(in.params, "length", 0) > 0;
    if (!length_given) leave_room(in.texts, *in.model, options.by);
    if (!in.model->config().head.present) {
      in.texts.add_note(in.model->report.name + " has no head, so logits have no difference");
    }
    analysis::ShiftOutput out =
        analysis::analyse_shift(in.model, in.texts.items[0].ids, options, part);
    std::ranges::move(out.rows, std::back_inserter(result.rows));
    result.provenance.push_back(
        provenance_of("shift", in.params, context, {in.model}, &in.texts, out.kernel));
  }
  return reply_of(result);
}

// ---- theory -------------------------------------------------------------------------------------

Reply theory(const json& params, RequestContext& context) {
  const std::vector<std::string> names = model_names(params);
  const auto checks = analysis::select_checks(words_param(params, "check"));
  protocol::TheoryResult result;
  const auto steps = static_cast<double>(names.size() * checks.size());
  double done = 0;
  for (const std::string& name : names) {
    const ModelTexts in = open_with_texts(params, name, context, DefaultInput::validation_texts);
    require_ids_alone(in.texts, "theory");
    model::KernelNames kernels;  // checks whose premise is not met may run nothing
    for (const analysis::TheoryCheck& check : checks) {
      context.throw_if_cancelled();
      protocol::PartOfProgress part(context, done / steps, (done + 1) / steps);
      ++done;
      part.progress(0, check.info.id + " on " + name);
      analysis::CheckContext given;
      given.model = model::in_dtype(in.model, at::kFloat);
      given.texts = &in.texts;
      given.pairs = number_param<std::int64_t>(params, "pairs", 0);
      given.seed = number_param<std::uint64_t>(params, "seed", 0);
      given.progress = &part;
      given.backend = backend_of(in.params);
      given.kernels = &kernels;
      result.checks.push_back(analysis::run_check(check, given));
    }
    result.provenance.push_back(
        provenance_of("theory", in.params, context, {in.model}, &in.texts, model::joined(kernels)));
  }
  return reply_of(result);
}

Reply theory_list(const json&, RequestContext&) {
  std::vector<protocol::CheckInfo> checks;
  for (const analysis::TheoryCheck& check : analysis::theory_checks()) {
    checks.push_back(check.info);
  }
  return {{{"checks", protocol::to_json_form(checks)}}, {}};
}

// ---- compare ------------------------------------------------------------------------------------

std::pair<std::string, std::string> compared_models(const json& params) {
  if (params.contains("a") && params.contains("b")) {
    return {params["a"].get<std::string>(), params["b"].get<std::string>()};
  }
  const std::vector<std::string> names = model_names(params);
  if (names.size() != 2) throw formats::bad_usage("compare takes two models", "models");
  return {names[0], names[1]};
}

Reply compare(const json& params, RequestContext& context) {
  const auto [first, second] = compared_models(params);
  json both = params;
  both["models"] = {first, second};
  if (!both.contains("length")) {  // one that both were trained for
    const auto context_of = [&](const std::string& name) {
      return context.models().open(params_for(params, name), context)->config().context;
    };
    both["length"] = std::min(context_of(first), context_of(second));
  }
  ModelTexts a = open_with_texts(both, first, context, DefaultInput::first_session);
  const ModelTexts b = open_with_texts(both, second, context, DefaultInput::first_session);
  if (a.texts.hash() != b.texts.hash()) {
    throw formats::bad_input("the two models read the text as different tokens", "input",
                             "give ids, or a length that both read");
  }
  const Passes passes = passes_of(a.model, a.texts, a.params, context);
  const Passes others = passes_of(b.model, b.texts, b.params, context);
  protocol::CompareResult result = analysis::analyse_compare(passes, others, context);
  a.texts.add_note(result.provenance.note);
  std::string kernel = kernel_of(passes);
  if (const std::string other = kernel_of(others); other != kernel) {
    kernel = first + ": " + kernel + "; " + second + ": " + other;
  }
  result.provenance = provenance_of("compare", both, context, {a.model, b.model}, &a.texts, kernel);
  return reply_of(result);
}

}  // namespace

std::vector<Handler> analysis_handlers() {
  return {
      {"heads", "every statistic of every head", heads},
      {"map", "the attention map of a head", map},
      {"patterns", "position products, frequencies, bias curves", patterns},
      {"distance", "score and weight by distance, near-far histograms", distance},
      {"shift", "what a shift of the text changes", shift},
      {"theory", "theorem checks with verdicts", theory},
      {"theory.list", "the theorem checks", theory_list},
      {"compare", "the same text through two models", compare},
  };
}

}  // namespace phasescope::worker
