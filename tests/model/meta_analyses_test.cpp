// Every analysis runs on LibTorch's meta device (meta_device.h): its layers' part without a copy to
// the device or a value that the host asks for, its answer, where all numbers are 0, of the form
// that it has of numbers.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>
#include <set>

#include "analysed_models.h"
#include "analysis/ablate.h"
#include "analysis/compare.h"
#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/near_far_sampler.h"
#include "analysis/patterns.h"
#include "analysis/query_rows.h"
#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/duel.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/profile.h"
#include "analysis/questions/registry.h"
#include "analysis/questions/xray.h"
#include "analysis/reading.h"
#include "analysis/shift.h"
#include "analysis/theory/check.h"
#include "attention_keeper.h"
#include "golden.h"
#include "masked_program.h"
#include "meta_device.h"
#include "model/capture.h"
#include "protocol/json_form.h"
#include "protocol/progress.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/evals/eval_task.h"
#include "watched_layers.h"

namespace phasescope::model {
namespace {

struct MetaSide {
  static MetaCounts counts() { return meta_counts(); }
  static const void* memory_of(const at::Tensor& x) { return meta_memory_of(x); }
  static void tell_reads(std::function<void(const void*)> told) {
    watch_meta_reads(std::move(told));
  }
};

using Models = std::shared_ptr<const Model>;
// The answer in JSON.
using Analysis = std::function<std::string(const Models&)>;

protocol::NoProgress nobody;

template <class Result>
std::string json_of(const Result& result) {
  return protocol::to_json_form(result).dump();
}

analysis::Texts some_texts(const Models& model, std::int64_t count, std::int64_t tokens) {
  return analysis::random_texts(count, tokens, model->config().vocab_size, 7);
}

Analysis map_of(const std::string& quantity) {
  return [quantity](const Models& model) {
    protocol::MapRequest options;
    options.head = {"L1H1"};
    options.of = quantity;
    return json_of(analysis::analyse_map(*passes_of(model)[0], options, nobody).result);
  };
}

Analysis ablated_by(const std::string& how) {
  return [how](const Models& model) {
    analysis::AblateOptions options;
    options.heads = {"L1H1"};
    options.how = how;
    if (how == "window" || how == "clamp") options.limit = 5;
    if (how == "sink" || how == "bias") options.limit = 0.5;
    return json_of(
        analysis::analyse_ablate(model, some_texts(model, 2, 40), options, nobody).result);
  };
}

Analysis xray_by(bool clamp) {
  return [clamp](const Models& model) {
    analysis::XrayOptions options;
    options.clamp = clamp;
    return json_of(analysis::analyse_xray(model, some_texts(model, 2, 40), options, nobody));
  };
}

Analysis acuity_by(const std::string& by) {
  return [by](const Models& model) {
    analysis::AcuityOptions options;
    options.seeds = {1};
    options.by = by;
    return json_of(analysis::analyse_acuity(model, some_texts(model, 2, 40), options, nobody));
  };
}

// Of a tensor's numbers its dtype and sizes are left, in a field's name, which form_of() keeps.
Json sizes_of(const at::Tensor& x) {
  if (!x.defined()) return Json();
  EXPECT_TRUE(x.is_cpu());
  return {{at::toString(x.scalar_type()) + Json(x.sizes().vec()).dump(), Json()}};
}

// What is captured, by its name its sizes.
std::string captured(const Models& model) {
  CaptureSpec spec;
  spec.what = capture_kinds();
  const at::Tensor ids = random_ids(1, 9, model->config().vocab_size);
  Json sizes = Json::object();
  for (const auto& [name, tensor] : capture(model->decoder, ids, spec, {}).tensors) {
    sizes[name] = sizes_of(tensor);
  }
  return sizes.dump();
}

// What a layer measures on its way, and what it is asked for afterwards.
Json measured(const LayerAttention& layer, const ProbeRequest& request) {
  const ProbeResult r = layer.probe(request);
  Json sizes = Json::array();
  for (const at::Tensor* x :
       {&r.entropy, &r.max_score, &r.max_key, &r.top1_mass, &r.first_key_weight, &r.mean_distance,
        &r.sink_weight, &r.bucket_pairs, &r.bucket_weight, &r.bucket_score, &r.bucket_score_square,
        &r.bucket_content, &r.bucket_content_square, &r.bucket_term, &r.bucket_term_square,
        &r.top_key, &r.top_weight}) {
    sizes.push_back(sizes_of(*x));
  }
  for (const at::Tensor& mass : r.window_mass) sizes.push_back(sizes_of(mass));
  const Region region{{0, layer.heads()}, {3, 9}, {0, 9}};
  for (const at::Tensor& x : {layer.score(region), layer.content(region), layer.weights(region)}) {
    sizes.push_back(sizes_of(x));
  }
  if (const auto sums = layer.centred_sums(5, false)) {
    for (const at::Tensor& x : {sums->mean, sums->pairs, sums->by_distance, sums->by_key}) {
      sizes.push_back(sizes_of(x));
    }
  }
  return sizes;
}

std::string probed(const Models& model) {
  const at::NoGradGuard no_gradients;
  const ProbeRequest request = all_probes();
  Json sizes = Json::object();
  for (const Backend backend : {Backend::fused, Backend::plain}) {
    AttentionKeeper keeper;
    keeper.probes = &request;
    (void)model->decoder.hidden(random_ids(1, 33, model->config().vocab_size), {.backend = backend},
                                &keeper);
    for (const auto& layer : keeper.layers) {
      const std::string name = backend == Backend::fused ? "fused " : "plain ";
      sizes[name + std::to_string(layer->layer())] = measured(*layer, request);
    }
  }
  return sizes.dump();
}

std::string generated(const Models& model) {
  const analysis::Text prompt = some_texts(model, 1, 9).items[0];
  analysis::GenerateOptions options{.tokens = 6, .top = 64};
  options.head = analysis::HeadName{.layer = 0, .head = 1};
  return json_of(analysis::generate(*model, prompt, options, nobody));
}

std::string shifted(const Models& model) {
  const auto ids = some_texts(model, 1, 24).items[0].ids;
  Json rows = Json::array();
  for (const auto& row : analysis::analyse_shift(model, ids, {.dtypes = {"f32"}}, nobody).rows) {
    rows.push_back(protocol::to_json_form(row));
  }
  return Json{{"rows", rows}}.dump();
}

std::string near_and_far(const Models& model) {
  analysis::NearFarSpec spec = analysis::default_near_far(40);
  spec.pairs = 40;
  const auto samples =
      analysis::sample_near_far(model, some_texts(model, 2, 40), spec, Backend::fused, nobody);
  const auto pooled = samples.shuffled ? samples.shuffled->pooled() : std::vector<double>();
  return Json{{"measured", samples.measured.pooled()}, {"shuffled", pooled}}.dump();
}

std::string compared(const Models& model) {
  const auto other = tiny_model({"alibi", "alibi", Json::object()}, at::kFloat);
  return json_of(
      analysis::analyse_compare(passes_of(model), passes_of(other), nobody, {.match = true}));
}

std::string dueled(const Models& model) {
  const auto other = tiny_model({"alibi", "alibi", Json::object()}, at::kFloat);
  const analysis::Texts texts = some_texts(model, 9, 20);
  return json_of(analysis::analyse_duel(model, texts, other, texts, {.all_texts = true}, nobody));
}

std::string demanded(const Models& model, bool fit) {
  analysis::DemandOptions options;
  options.fit = fit, options.steps = 1;
  return json_of(analysis::analyse_demand(model, some_texts(model, fit ? 12 : 2, fit ? 20 : 40),
                                          options, nobody)
                     .result);
}

const std::map<std::string, Analysis>& analyses() {
  static const std::map<std::string, Analysis> all = {
      {"heads",
       [](const Models& model) {
         return json_of(analysis::analyse_heads(passes_of(model), {}, nobody).result);
       }},
      {"map_weight", map_of("weight")},
      {"map_score", map_of("score")},
      {"map_content", map_of("content")},
      {"map_positional", map_of("positional")},
      {"distance",
       [](const Models& model) {
         return json_of(analysis::analyse_distance(passes_of(model), {.per_head = true}, nobody));
       }},
      {"near_far", near_and_far},
      {"patterns",
       [](const Models& model) {
         return json_of(analysis::analyse_patterns(passes_of(model), {}, nobody).result);
       }},
      {"query",
       [](const Models& model) {
         return json_of(analysis::analyse_query(*passes_of(model)[0], {}).result);
       }},
      {"text",
       [](const Models& model) {
         const analysis::Text text =
             analysis::random_texts(1, 24, model->config().vocab_size, 5).items[0];
         return json_of(analysis::analyse_text(*passes_of(model)[0], text, 3));
       }},
      {"compare", compared},
      {"shift", shifted},
      {"capture", captured},
      {"probes", probed},
      {"generate", generated},
      {"addressing",
       [](const Models& model) {
         return json_of(analysis::analyse_addressing(passes_of(model), {}, nobody));
       }},
      {"addressing_content",
       [](const Models& model) {
         return json_of(analysis::analyse_addressing(passes_of(model), {.content = true}, nobody));
       }},
      {"demand", [](const Models& model) { return demanded(model, false); }},
      {"demand_fit", [](const Models& model) { return demanded(model, true); }},
      {"acuity", acuity_by("model")},
      {"acuity_head", acuity_by("head")},
      {"xray", xray_by(false)},
      {"xray_clamp", xray_by(true)},
      {"pair",
       [](const Models& model) {
         return json_of(
             analysis::analyse_pair(model, some_texts(model, 1, 40).items[0], {}, nobody));
       }},
      {"profile",
       [](const Models& model) {
         return json_of(analysis::analyse_profile(model, some_texts(model, 2, 40),
                                                  {.window = 12, .samples = 20}, nobody));
       }},
      {"duel", dueled},
      {"ablate_zero", ablated_by("zero")},
      {"ablate_mean", ablated_by("mean")},
      {"ablate_resample", ablated_by("resample")},
      {"ablate_window", ablated_by("window")},
      {"ablate_clamp", ablated_by("clamp")},
      {"ablate_sink", ablated_by("sink")},
      {"ablate_bias", ablated_by("bias")},
  };
  return all;
}

// What it says, or why it has no answer for a model.
std::string said(const Analysis& analysis, const Models& model) {
  try {
    return analysis(model);
  } catch (const formats::Error& error) {
    return error.full_text();
  }
}

// An answer without its numbers and words: names of fields, and how long lists are.
Json form_of(const Json& answer) {
  if (answer.is_object()) {
    Json form = Json::object();
    for (const auto& [name, value] : answer.items()) form[name] = form_of(value);
    return form;
  }
  if (!answer.is_array()) return Json();
  Json form = Json::array();
  for (const Json& one : answer) form.push_back(form_of(one));
  return form;
}

struct Case {
  Variant variant;
  std::string analysis;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const Variant& variant : encodings_alone()) {
    for (const auto& [name, analysis] : analyses()) list.push_back({variant, name});
  }
  return list;
}

void PrintTo(const Case& one, std::ostream* to) { *to << one.variant.name << " " << one.analysis; }

// Answers of other forms where all numbers are 0: why, and an encoding of which that is so.
struct FormByNumbers {
  std::string why, shown_by;
};
const std::map<std::string, FormByNumbers>& forms_by_numbers() {
  static const std::map<std::string, FormByNumbers> list = {
      {"addressing", {"scores that are all alike have no shares", "rope"}},
      {"addressing_content", {"scores that are all alike have no shares", "rope"}},
      {"demand_fit", {"the best number of steps is chosen by the losses", "rope"}},
      {"distance", {"bins lie between the least and the greatest difference", "rope"}},
      {"duel", {"losses that do not differ are never decided", "rope"}},
      {"generate", {"keys of no weight are not shown", "rope"}},
      {"near_far", {"whether positions alone make the scores is seen by the scores", "tape"}},
      {"profile", {"scores that are all alike have no shares", "rope"}},
      {"shift", {"what changes of losses that are all alike is no number", "rope"}},
  };
  return list;
}

// What an analysis says of a model and of the same on the meta device, whose layers ask for
// nothing.
struct Answers {
  std::string real, found;
};

Answers answers_of(const Variant& variant, const Analysis& analysis) {
  at::set_num_threads(1);
  const Models model = tiny_model(variant, at::kFloat), meta = on_device(model, at::kMeta);
  Answers answers{.real = said(analysis, model)};
  WatchedLayers<MetaSide> watch(*meta);
  const ZerosOfMeta zeros;
  answers.found = said(analysis, meta);
  EXPECT_EQ(watch.to_device(), 0) << "copies to the device within layers";
  EXPECT_EQ(watch.reads(), 0) << "values asked for within layers";
  if (answers.real.front() == '{') {
    EXPECT_GE(watch.layers(), model->config().layers) << "no pass was watched";
  }
  return answers;
}

bool are_alike(const Answers& answers) {
  const auto& [real, found] = answers;
  if (real.front() != '{' || found.front() != '{') return found == real;
  return form_of(Json::parse(found)) == form_of(Json::parse(real));
}

class AnalysesOnMeta : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Registry, AnalysesOnMeta, testing::ValuesIn(cases()),
                         [](const auto& info) {
                           return info.param.variant.name + "_" + info.param.analysis;
                         });

TEST_P(AnalysesOnMeta, LayersAskForNothing) {
  const std::string& name = GetParam().analysis;
  const Answers answers = answers_of(GetParam().variant, analyses().at(name));
  if (forms_by_numbers().contains(name)) return;
  EXPECT_TRUE(are_alike(answers)) << answers.real << "\n" << answers.found;
}

TEST(FormsOnMeta, AreOthersWhereAReasonIsGiven) {
  for (const auto& [name, form] : forms_by_numbers()) {
    SCOPED_TRACE(name + ": " + form.why);
    EXPECT_FALSE(
        are_alike(answers_of({form.shown_by, form.shown_by, Json::object()}, analyses().at(name))));
  }
}

// ---- theorem checks -----------------------------------------------------------------------------

// Verdicts are of numbers: of zeros they say nothing, and are not compared.
class ChecksOnMeta : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Registry, ChecksOnMeta, testing::ValuesIn(encodings_alone()),
                         [](const auto& info) { return info.param.name; });

// Copies between reads of two layers' weights. These checks read those of TAPE's last layer, and
// then the first layer's for a model with its units in another order: the orders cross between.
std::int64_t copies_of_preparation(const std::string& check, const Variant& variant) {
  const bool prepares = check == "tape.orthogonal" || check == "tape.special_case";
  return prepares && variant.encoding == "tape" ? 1 : 0;
}

TEST_P(ChecksOnMeta, LayersAskForNothing) {
  at::set_num_threads(1);
  const Models model = tiny_model(GetParam(), at::kFloat), meta = on_device(model, at::kMeta);
  const analysis::Texts texts = some_texts(model, 2, 24);
  WatchedLayers<MetaSide> watch(*meta);
  const ZerosOfMeta zeros;
  for (const analysis::TheoryCheck& check : analysis::theory_checks()) {
    if (!check.reads_models()) continue;
    SCOPED_TRACE(check.info.id);
    analysis::CheckContext context;
    context.model = meta, context.texts = &texts, context.progress = &nobody;
    context.pairs = 50;
    watch.reset();
    try {
      (void)analysis::run_check(check, context);
    } catch (const formats::Error& error) {
      EXPECT_NE(error.code(), "internal") << error.full_text();
    }
    EXPECT_EQ(watch.to_device(), copies_of_preparation(check.info.id, GetParam()));
    EXPECT_EQ(watch.reads(), 0) << "values asked for within layers";
  }
}

// ---- evals --------------------------------------------------------------------------------------

TEST(EvalsOnMeta, LayersAskForNothing) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  const std::string corpus = training::small_run(folder.path(), 1).data.corpus;
  for (const Variant& variant : encodings_alone()) {
    for (const Json& options : small_evals(corpus)) {
      SCOPED_TRACE(variant.name + " " + options.dump());
      ModelConfig config = tiny_config(variant.encoding, variant.options);
      config.vocab_size = 256;
      config.tokenizer = {{"type", "bytes"}, {"vocab_size", 256}, {"bos", 0}};
      const auto answer = [&](const Models& of) {
        const auto request = protocol::request_of<protocol::EvalRequest>(options);
        training::NoEvalLog log;
        const auto& task = training::eval_task(options["task"].get<std::string>());
        return json_of(task.run({{"one", of}}, request, nobody, log));
      };
      const Models model = random_model(config, 1), meta = on_device(model, at::kMeta);
      const std::string real = said(answer, model);
      WatchedLayers<MetaSide> watch(*meta);
      const ZerosOfMeta zeros;
      const std::string found = said(answer, meta);
      EXPECT_EQ(watch.to_device(), 0) << "copies to the device within layers";
      EXPECT_EQ(watch.reads(), 0) << "values asked for within layers";
      if (real.front() != '{') {
        EXPECT_EQ(found, real);
        continue;
      }
      EXPECT_GE(watch.layers(), config.layers) << "no pass was watched";
      ASSERT_EQ(found.front(), '{') << found;
      EXPECT_EQ(form_of(Json::parse(found)), form_of(Json::parse(real)));
    }
  }
}

// Every question has a row above, but for the one whose answers are statements that hold or not: of
// no numbers there is none.
TEST(FormsOnMeta, AreOfAllQuestions) {
  for (const protocol::QuestionInfo& question : analysis::questions()) {
    EXPECT_NE(analyses().contains(question.id), question.id == "prove") << question.id;
  }
}

}  // namespace
}  // namespace phasescope::model
