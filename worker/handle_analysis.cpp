#include "worker/handle_analysis.h"

#include <algorithm>
#include <iterator>

#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/metrics/registry.h"
#include "analysis/model_sides.h"
#include "analysis/patterns.h"
#include "analysis/query_rows.h"
#include "analysis/questions/common.h"
#include "analysis/shift.h"
#include "analysis/tensors.h"
#include "analysis/theory/check.h"
#include "analysis/theory/equality.h"
#include "formats/error.h"
#include "model/encodings/rope_scaling.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/query.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/theory.h"
#include "worker/analysis_texts.h"
#include "worker/pass_cache.h"

namespace phasescope::worker {
namespace {

using analysis::Texts;
using protocol::Reply;

// The same request about one of its models, whose result says how it is made again.
template <class R>
R of_model(R request, const std::string& name) {
  request.models = {name};
  return request;
}

using Bounds = std::optional<std::pair<std::int64_t, std::int64_t>>;
Bounds bounds_of(const std::optional<protocol::Range>& range) {
  return range ? Bounds({range->begin, range->end}) : std::nullopt;
}

// What is measured of an encoder-decoder where nobody can choose.
void note_stack(const model::Model& model, Texts& texts) {
  if (model.config().encoder_layers > 0) {
    texts.add_note("of " + model.report.name + " the decoder's self-attention is measured");
  }
}

// Who hears of the opening of one model of several: the words alone, where its part begins.
protocol::PartOfProgress opening_of(protocol::Progress& part) { return {part, 0, 0}; }

// ---- heads --------------------------------------------------------------------------------------

// What none of the statistics asked for reads is not taken and dropped.
void require_readers(const protocol::HeadsRequest& request) {
  const auto require = [&request](bool given, const char* field, const char* readers, auto reads) {
    if (!given || request.metrics.empty() || std::ranges::any_of(request.metrics, reads)) return;
    throw formats::bad_usage("none of the statistics asked for reads it", field,
                             std::string("read by ") + readers);
  };
  const auto repeated = [](const std::string& key) {
    const bool of_a_head =
        std::ranges::any_of(analysis::head_metrics(), [&key](const analysis::HeadMetric& metric) {
          return metric.info.key == key && metric.source == analysis::MetricSource::repeated;
        });
    return of_a_head || key == "induction_loss";
  };
  constexpr const char* kOfRepeated = "induction, induction_loss and duplicate_token";
  require(request.period != 0, "period", kOfRepeated, repeated);
  require(request.draws != protocol::HeadsRequest{}.draws, "draws", kOfRepeated, repeated);
  require(!request.windows.empty(), "windows", "window_mass",
          [](const std::string& key) { return key.starts_with("window_mass"); });
}

Reply heads(const protocol::HeadsRequest& request, RequestContext& context) {
  require_readers(request);
  auto [model, texts] =
      open_with_texts(request, request.model, context, DefaultInput::first_session);
  analysis::HeadsOptions options;
  options.stack = request.stack;
  options.layers = request.layers.value_or(std::vector<std::int64_t>());
  options.metrics = request.metrics;
  options.thumbnails = request.thumbnails;
  options.period = request.period;
  options.draws = request.draws;
  options.windows = request.windows;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  const Passes passes = passes_of(model, texts, request.running.backend, context);
  analysis::HeadsOutput out = analysis::analyse_heads(passes, options, context);
  texts.add_note(out.result.provenance.note);
  out.result.provenance =
      provenance_of(asked(request), context, {model}, &texts, out.result.provenance.ran);
  return reply_of(out.result, std::move(out.tensors));
}

// ---- map ----------------------------------------------------------------------------------------

Reply map(const protocol::MapRequest& request, RequestContext& context) {
  auto [model, texts] =
      open_with_texts(request, request.model, context, DefaultInput::first_session);
  texts = only_first(std::move(texts));
  const auto pass = pass_cache().get(model, texts.items[0],
                                     model::backend_named(request.running.backend), context);
  analysis::MapOutput out = analysis::analyse_map(*pass, request, context);
  texts.add_note(out.result.provenance.note);
  out.result.provenance =
      provenance_of(asked(request), context, {model}, &texts, out.result.provenance.ran);
  return reply_of(out.result, std::move(out.tensors));
}

// ---- one query ----------------------------------------------------------------------------------

Reply one_query(const protocol::QueryRequest& request, RequestContext& context) {
  auto [model, texts] =
      open_with_texts(request, request.model, context, DefaultInput::first_session);
  texts = only_first(std::move(texts));
  const analysis::QueryOptions options{.stack = request.stack,
                                       .query = request.query.value_or(-1),
                                       .width = request.width,
                                       .top = request.top};
  const auto pass = pass_cache().get(model, texts.items[0],
                                     model::backend_named(request.running.backend), context);
  analysis::QueryOutput out = analysis::analyse_query(*pass, options);
  out.result.provenance =
      provenance_of(asked(request), context, {model}, &texts, out.result.provenance.ran);
  return reply_of(out.result, std::move(out.tensors));
}

// ---- patterns -----------------------------------------------------------------------------------

// What is read of one text alone, or not at all, is said.
void note_unread(const protocol::PatternsRequest& request, const analysis::PatternsOutput& out,
                 Texts& texts) {
  const protocol::PatternsResult& result = out.result;
  if (!out.of_all_texts) {
    note_first(texts);
  } else if (!result.layers.empty()) {
    note_first(texts, "positions");
  }
  if (request.layers) return;  // which may have no state where others have
  if (request.positions != protocol::PatternsRequest{}.positions && result.layers.empty()) {
    texts.add_note("no positions are sampled: " + result.encoding + " has no position products");
  }
}

Reply patterns(const protocol::PatternsRequest& request, RequestContext& context) {
  auto [model, texts] =
      open_with_texts(request, request.model, context, DefaultInput::first_session);
  note_stack(*model, texts);
  analysis::PatternsOptions options;
  options.positions = request.positions;
  options.layers = request.layers;
  options.query = request.query;
  options.distances = request.distances;
  options.queries = request.queries, options.texts = request.texts;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  protocol::PartOfProgress own(context, 0, request.against ? 0.5 : 1), beside(context, 0.5, 1);
  const Passes passes = passes_of(model, texts, request.running.backend, own);
  analysis::PatternsOutput out = analysis::analyse_patterns(passes, options, own);
  for (protocol::BiasRow& row : out.result.rows) {
    row.text_name = texts.items[static_cast<std::size_t>(row.text)].name;
  }
  std::vector<ModelPointer> models = {model};
  if (request.against) {
    protocol::PartOfProgress opening = opening_of(beside);
    const auto [other, others] =
        open_with_texts(request, *request.against, context, DefaultInput::first_session, &opening);
    options.queries.clear();
    analysis::add_against(
        out, analysis::analyse_patterns(passes_of(other, others, request.running.backend, beside),
                                        options, beside));
    models.push_back(other);
  }
  texts.add_note(out.result.provenance.note);
  note_unread(request, out, texts);
  out.result.provenance = provenance_of(asked(request), context, models, &texts, ran_of(passes));
  return reply_of(out.result, std::move(out.tensors));
}

// ---- distance -----------------------------------------------------------------------------------

analysis::DistanceOptions distance_options(const protocol::DistanceRequest& request,
                                           const Texts& texts) {
  analysis::DistanceOptions options;
  options.near = bounds_of(request.near);
  options.far = bounds_of(request.far);
  options.pairs = request.pairs;
  options.leave_out_first = request.leave_out_first.value_or(texts.starts_with_bos);
  options.per_head = request.per_head;
  for (const std::string& name : request.heads) {
    const analysis::HeadName head = analysis::parse_head(name);
    if (head.head < 0) {
      throw formats::bad_usage("\"" + name + "\" is a layer, not a head", "heads",
                               "name one as L2H1");
    }
    options.heads.push_back({head.layer, head.head});
  }
  options.bases = request.bases, options.factors = request.factors;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
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

protocol::DistanceModel distance_of(const protocol::DistanceRequest& request,
                                    RequestContext& context, protocol::Progress& progress,
                                    analysis::NearFarValues& values) {
  protocol::PartOfProgress opening = opening_of(progress);
  const ModelTexts in = open_with_texts(request, request.models.front(), context,
                                        DefaultInput::validation_texts, &opening);
  require_steps_of_one(in.texts);
  const analysis::DistanceOptions options = distance_options(request, in.texts);
  protocol::DistanceModel model = analysis::analyse_distance(
      passes_of(in.model, in.texts, request.running.backend, progress), options, progress, &values);
  model.provenance =
      provenance_of(asked(request), context, {in.model}, &in.texts, model.provenance.ran);
  const auto note = [&model](const char* words) {
    model.note += std::string(model.note.empty() ? "" : "; ") + words;
  };
  if (options.leave_out_first) note("key 0 ([BOS]) is left out of the histograms");
  const protocol::DistanceRequest defaults;
  if (model.intrinsic.empty() &&
      (request.bases != defaults.bases || request.factors != defaults.factors)) {
    note("no sweep of bases or factors is shown: they are those of a rotation by fixed angles");
  }
  return model;
}

// A model that has no such thing is said to be one beside others; alone it is the answer.
Reply distance(const protocol::DistanceRequest& request, RequestContext& context) {
  const std::vector<std::string>& names = request.models;
  require_models(names);
  protocol::DistanceResult result;
  std::vector<analysis::NearFarValues> values(names.size());
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto share = static_cast<double>(names.size());
    protocol::PartOfProgress part(context, static_cast<double>(n) / share,
                                  static_cast<double>(n + 1) / share);
    try {
      result.models.push_back(distance_of(of_model(request, names[n]), context, part, values[n]));
    } catch (const formats::Error& error) {
      if (error.code() != "not_applicable" || names.size() == 1) throw;
      result.models.push_back({.model = names[n], .note = error.message()});
    }
  }
  analysis::share_bins(result.models, values);
  return reply_of(result);
}

// ---- shift --------------------------------------------------------------------------------------

// No memory holds more tokens before the text.
constexpr std::int64_t kMostTokensBefore = std::int64_t{1} << 24;

void check_shifts(const analysis::ShiftOptions& options) {
  // Beside shifted ids, too many added tokens are left out.
  const bool ids = std::ranges::count(options.methods, analysis::ShiftMethod::ids) > 0;
  const std::int64_t most = ids ? model::kFarthestShift : kMostTokensBefore;
  for (const std::int64_t shift : options.by) {
    if (shift >= 0 && shift <= most) continue;
    throw formats::bad_usage("a shift must be from 0 to " + std::to_string(most) + " " +
                                 (ids ? "positions" : "tokens") + ", not " + std::to_string(shift),
                             "by");
  }
}

analysis::ShiftOptions shift_options(const protocol::ShiftRequest& request) {
  analysis::ShiftOptions options;
  options.by = request.by;
  options.methods.clear();
  for (const std::string& method : request.methods) {
    options.methods.push_back(method == "ids" ? analysis::ShiftMethod::ids
                                              : analysis::ShiftMethod::tokens);
  }
  const std::string& dtype = request.running.dtype;
  const bool named = !dtype.empty() && dtype != "auto";
  options.dtypes = named ? std::vector<std::string>{dtype} : request.dtypes;
  options.backend = model::backend_named(request.running.backend);
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  check_shifts(options);
  return options;
}

// A text of no length that was asked for leaves room for the shifts in a table of positions.
void leave_room(Texts& texts, const model::Model& model, const std::vector<std::int64_t>& by) {
  const std::int64_t tokens = texts.longest();
  const std::int64_t fit = analysis::tokens_that_shift(model, tokens, by);
  if (fit == tokens) return;
  for (analysis::Text& text : texts.items) {
    const auto kept = std::min(text.ids.size(), static_cast<std::size_t>(fit));
    text.ids.resize(kept);
    if (!text.spans.empty()) text.spans.resize(kept);
  }
  const std::int64_t shift = *std::ranges::max_element(by);
  texts.add_note("the first " + std::to_string(fit) + " of " + std::to_string(tokens) +
                 " tokens are read: a shift by " + std::to_string(shift) +
                 " moves them to the end of the model's table of " + std::to_string(fit + shift) +
                 " positions");
}

void note_far_shifts(const analysis::ShiftOptions& options, Texts& texts) {
  const bool far = std::ranges::any_of(
      options.by, [](std::int64_t by) { return by > analysis::kTokensBesideIds; });
  if (options.methods.size() < 2 || !far) return;
  texts.add_note("added tokens are left out of shifts above " +
                 std::to_string(analysis::kTokensBesideIds) + "; the method tokens has them read");
}

// Neither its maps nor its queries and keys are made anew of other tokens or positions.
void refuse_imports(const model::Model& model) {
  if (!analysis::is_import(model)) return;
  throw formats::Error("not_applicable",
                       model.report.name + " is an import, whose maps no shift moves", "model",
                       "choose a model that reads texts");
}

Reply shift(const protocol::ShiftRequest& request, RequestContext& context) {
  const std::vector<std::string>& names = request.models;
  require_models(names);
  const analysis::ShiftOptions options = shift_options(request);
  protocol::ShiftResult result;
  result.formula = analysis::shift_formula();
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto share = static_cast<double>(names.size());
    protocol::PartOfProgress part(context, static_cast<double>(n) / share,
                                  static_cast<double>(n + 1) / share);
    protocol::PartOfProgress opening = opening_of(part);
    ModelTexts in =
        open_with_texts(request, names[n], context, DefaultInput::first_session, &opening);
    refuse_imports(*in.model);
    if (!request.reading.corpus.asked) in.texts = only_first(std::move(in.texts));
    require_ids_alone(in.texts, "shift");
    note_stack(*in.model, in.texts);
    if (text_may_be_cut(request.reading)) leave_room(in.texts, *in.model, options.by);
    if (!in.model->config().head.present) {
      in.texts.add_note(in.model->report.name + " has no head, so logits have no difference");
    }
    note_far_shifts(options, in.texts);
    in.texts.add_note(analysis::note_of_missing_heads(*in.model));
    std::vector<std::vector<std::int64_t>> texts;
    for (const analysis::Text& text : in.texts.items) texts.push_back(text.ids);
    analysis::ShiftOutput out = analysis::analyse_shift(in.model, texts, options, part);
    const model::UnderShift declared = in.model->encoding().under_shift();
    result.expected.push_back({in.model->report.name, in.model->encoding().info().key,
                               model::name_of(declared.kind), declared.why});
    std::ranges::move(out.rows, std::back_inserter(result.rows));
    protocol::Provenance& made = result.provenance.emplace_back(
        provenance_of(asked(of_model(request, names[n])), context, {in.model}, &in.texts, out.ran));
    made.kernel = protocol::words_of(made.ran, protocol::DtypesInWords::said);
  }
  return reply_of(result);
}

// ---- theory -------------------------------------------------------------------------------------

// The checks of one model, or those that need none. Models and texts stay where they are. What one
// of several cannot do is its own answer; of the only one it is that of the request.
void run_checks(const std::vector<analysis::TheoryCheck>& checks, const ModelTexts* in,
                const protocol::TheoryRequest& request, protocol::Progress& progress,
                model::AllRan& kernels, protocol::TheoryResult& result) {
  double done = 0;
  const bool several = request.check.size() != 1 || request.models.size() > 1;
  analysis::CheckSamples samples;
  const std::string on = in == nullptr ? "" : " on " + in->model->report.name;
  for (const analysis::TheoryCheck& check : checks) {
    progress.throw_if_cancelled();
    const auto steps = static_cast<double>(checks.size());
    protocol::PartOfProgress part(progress, done / steps, (done + 1) / steps);
    ++done;
    part.progress(0, check.info.id + on);
    analysis::CheckContext given;
    if (in != nullptr) {
      given.model = model::in_dtype(in->model, at::kFloat), given.texts = &in->texts;
    }
    given.pairs = request.pairs;
    given.seed = static_cast<std::uint64_t>(request.reading.seed);
    given.layer = request.layer, given.head = request.head;
    given.progress = &part;
    given.backend = model::backend_named(request.running.backend);
    given.kernels = &kernels;
    given.samples = &samples;
    result.checks.push_back(several ? analysis::run_check_among_others(check, given)
                                    : analysis::run_check(check, given));
  }
}

// Without a model: the checks that make what they measure themselves, or the ones asked for.
void theory_alone(const std::vector<analysis::TheoryCheck>& checks,
                  const protocol::TheoryRequest& request, RequestContext& context,
                  protocol::Progress& progress, protocol::TheoryResult& result) {
  model::AllRan kernels;
  run_checks(checks, nullptr, request, progress, kernels, result);
  result.provenance.push_back(
      provenance_of(asked(request), context, {}, nullptr, protocol::listed(kernels)));
}

// What none of the checks reads is not taken and dropped.
void require_takers(const std::vector<analysis::TheoryCheck>& checks, bool given, const char* field,
                    bool analysis::Takes::*taken) {
  const auto takes = [&](const analysis::TheoryCheck& check) { return check.takes.*taken; };
  if (!given || std::ranges::any_of(checks, takes)) return;
  std::string takers;
  for (const analysis::TheoryCheck& check : analysis::theory_checks()) {
    if (takes(check)) takers += (takers.empty() ? "" : ", ") + check.info.id;
  }
  throw formats::bad_usage("none of the checks asked for reads it", field, "read by " + takers);
}

Reply theory(const protocol::TheoryRequest& request, RequestContext& context) {
  const auto checks = analysis::select_checks(request.check);
  require_takers(checks, request.pairs != 0, "pairs", &analysis::Takes::pairs);
  require_takers(checks, request.layer != 0, "layer", &analysis::Takes::head);
  require_takers(checks, request.head != 0, "head", &analysis::Takes::head);
  std::vector<analysis::TheoryCheck> of_models, alone;
  for (const analysis::TheoryCheck& check : checks) {
    if (request.models.empty()) {
      // Named ones that need a model say so when they run.
      if (check.runs_alone() || !request.check.empty()) alone.push_back(check);
    } else if (check.reads_models()) {
      of_models.push_back(check);
    } else if (!request.check.empty()) {
      alone.push_back(check);
    }
  }
  protocol::TheoryResult result;
  if (!request.models.empty()) require_models(request.models);
  const double models = of_models.empty() ? 0 : static_cast<double>(request.models.size());
  const double steps = models + (alone.empty() ? 0 : 1);
  double done = 0;
  for (const std::string& name : request.models) {
    if (of_models.empty()) break;
    protocol::PartOfProgress part(context, done / steps, (done + 1) / steps);
    protocol::PartOfProgress opening = opening_of(part);
    ++done;
    ModelTexts in =
        open_with_texts(request, name, context, DefaultInput::validation_texts, &opening);
    require_ids_alone(in.texts, "theory");
    if (const std::string why = analysis::missing_heads(in.model->config()); !why.empty()) {
      in.texts.add_note(in.model->report.name + ": " + why +
                        "; checks of heads are of those that there are");
    }
    model::AllRan kernels;  // checks whose premise is not met may run nothing
    run_checks(of_models, &in, request, part, kernels, result);
    result.provenance.push_back(provenance_of(asked(of_model(request, name)), context, {in.model},
                                              &in.texts, protocol::listed(kernels)));
  }
  protocol::PartOfProgress rest(context, models / std::max(1.0, steps), 1);
  if (!alone.empty()) theory_alone(alone, request, context, rest, result);
  return reply_of(result);
}

Reply theory_list(const protocol::TheoryListRequest&, RequestContext&) {
  std::vector<protocol::CheckInfo> checks;
  for (const analysis::TheoryCheck& check : analysis::theory_checks()) {
    checks.push_back(check.info);
  }
  return {{{"checks", protocol::to_json_form(checks)}}, {}};
}

}  // namespace

std::vector<Handler> analysis_handlers() {
  return {
      method("every statistic of every head", heads),
      method("the attention map of a head", map),
      method("where one query looks in every head", one_query),
      method("position products, frequencies, bias curves", patterns),
      method("score and weight by distance, near-far histograms", distance),
      method("what a shift of the text changes", shift),
      method("theorem checks with verdicts", theory),
      method("the theorem checks", theory_list),
  };
}

}  // namespace phasescope::worker
