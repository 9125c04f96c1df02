#include "worker/handle_duel.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/questions/duel.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "protocol/messages/duel.h"
#include "training/jobs/config_duel.h"
#include "training/jobs/eval_rows.h"
#include "training/jobs/job_lock.h"
#include "training/run_config.h"
#include "training/start/start_model.h"
#include "worker/model_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

namespace fs = std::filesystem;
using protocol::Reply;
analysis::Texts duel_texts(const protocol::DuelRequest& request, std::int64_t length,
                           const model::Model& model, RequestContext& context) {
  protocol::Reading reading;
  reading.length = length, reading.seed = request.seed;
  analysis::Texts texts =
      read_input(reading, request.corpus, context, model, DefaultInput::validation_texts);
  require_ids_alone(texts, "a duel");
  return texts;
}

// The texts of the model that reads longer ones, by the tokenizer of the other: the bundled ones
// are chosen by how many tokens a model makes of them.
void read_the_same(analysis::Texts& texts, const model::Model& model, const analysis::Texts& longer,
                   std::int64_t length) {
  if (!model.tokenizer) return;
  std::vector<formats::NamedText> named;
  for (const analysis::Text& text : longer.items) named.push_back({text.name, text.text});
  texts = analysis::tokenised(named, *model.tokenizer, length);
}

// Texts that both can read to the length, and how many are left out.
void keep_whole_ones(analysis::Texts& a, analysis::Texts& b, std::int64_t length) {
  const auto whole = static_cast<std::size_t>(length);
  std::vector<analysis::Text> kept_a, kept_b;
  for (std::size_t n = 0; n < std::min(a.items.size(), b.items.size()); ++n) {
    if (a.items[n].ids.size() < whole || b.items[n].ids.size() < whole) continue;
    kept_a.push_back(std::move(a.items[n])), kept_b.push_back(std::move(b.items[n]));
  }
  const std::size_t left_out = a.items.size() - kept_a.size();
  if (kept_a.empty()) {
    throw formats::bad_input("no text has " + std::to_string(length) + " tokens", "lengths",
                             "give a shorter length or longer texts");
  }
  if (left_out > 0) {
    a.add_note(std::to_string(left_out) + " shorter texts are left out");
  }
  a.items = std::move(kept_a), b.items = std::move(kept_b);
}

// The same texts for both models, and what to do with them.
struct PreparedDuel {
  ModelPointer a, b;
  std::int64_t length = 0;
  analysis::Texts texts_a, texts_b;
  analysis::DuelOptions options;
};

PreparedDuel prepared_duel(const protocol::DuelRequest& request, const std::string& a,
                           const std::string& b, RequestContext& context) {
  PreparedDuel duel;
  duel.a = context.models().open(a, request.running, context);
  duel.b = context.models().open(b, request.running, context);
  duel.length = request.lengths.empty()
                    ? std::min(duel.a->config().context, duel.b->config().context)
                    : request.lengths.front();
  if (duel.length < 2) throw formats::bad_usage("a text has 2 tokens at least", "lengths");
  duel.texts_a = duel_texts(request, duel.length, *duel.a, context);
  duel.texts_b = duel_texts(request, duel.length, *duel.b, context);
  if (names_of(duel.texts_a) != names_of(duel.texts_b)) {
    const auto bytes = [](const analysis::Texts& texts) { return texts.items[0].text.size(); };
    if (bytes(duel.texts_a) < bytes(duel.texts_b)) {
      read_the_same(duel.texts_a, *duel.a, duel.texts_b, duel.length);
    } else {
      read_the_same(duel.texts_b, *duel.b, duel.texts_a, duel.length);
    }
  }
  keep_whole_ones(duel.texts_a, duel.texts_b, duel.length);
  duel.options.backend = model::backend_named(request.running.backend);
  duel.options.margin = request.margin;
  duel.options.seed = static_cast<std::uint64_t>(request.seed);
  return duel;
}

// A file is a configuration; models are folders, files of weights and names.
bool is_configuration(const std::string& name) { return name.ends_with(".json"); }

training::ConfigDuel config_duel_of(const protocol::DuelRequest& request) {
  if (request.job.empty()) {
    throw formats::bad_usage("a duel of run configurations needs a folder for its trainings",
                             "job");
  }
  if (!request.running.set.list.empty()) {
    throw formats::bad_usage("settings are of models; a run configuration has its own", "set",
                             "write them into the file");
  }
  if (request.seeds.empty()) throw formats::bad_usage("a duel needs a seed to train with", "seeds");
  training::ConfigDuel duel{.dir = fs::absolute(request.job).lexically_normal(),
                            .a = training::whole_run_config(request.a),
                            .b = training::whole_run_config(request.b),
                            .seeds = request.seeds,
                            .margin = request.margin,
                            .seed = static_cast<std::uint64_t>(request.seed)};
  duel.read_with = {{"lengths", request.lengths},
                    {"corpus", request.corpus.asked ? request.corpus.form() : nlohmann::json(true)},
                    {"dtype", request.running.dtype},
                    {"seed", request.seed}};
  return duel;
}

// All texts of a corpus, read by both models of a seed.
training::SeedMeasured on_texts(const protocol::DuelRequest& request, const fs::path& a,
                                const fs::path& b, RequestContext& context) {
  PreparedDuel duel = prepared_duel(request, a.string(), b.string(), context);
  duel.options.all_texts = true;
  const protocol::DuelResult read =
      analysis::analyse_duel(duel.a, duel.texts_a, duel.b, duel.texts_b, duel.options, context);
  training::SeedMeasured measured{.per = read.per};
  for (const protocol::DuelUnit& unit : read.units) {
    measured.names.push_back(unit.name);
    measured.a.push_back(unit.a), measured.b.push_back(unit.b);
  }
  return measured;
}

Reply duel_of_configurations(protocol::DuelRequest request, RequestContext& context) {
  if (request.running.dtype == "auto") request.running.dtype = "f32";  // as trainings keep weights
  const training::ConfigDuel duel = config_duel_of(request);
  const bool of_text = duel.a.of_text();
  if (!of_text && request.corpus.asked) {
    throw formats::bad_usage("the configurations learn a task, whose samples are drawn", "corpus");
  }
  const std::int64_t length = request.lengths.empty() ? 0 : request.lengths.front();
  const training::MeasureSeed measure =
      of_text
          ? training::MeasureSeed([&](const fs::path& a, const fs::path& b, protocol::Progress&) {
              return on_texts(request, a, b, context);
            })
          : training::on_samples(duel, length, model::backend_named(request.running.backend));
  protocol::DuelResult result =
      training::duel_of_configs(formats::real_file_system(), duel, measure, context);
  const std::string a = fs::path(request.a).stem(), b = fs::path(request.b).stem();
  result.a = a == b ? request.a : a, result.b = a == b ? request.b : b;
  const std::int64_t trained = of_text ? duel.a.model.context : duel.a.task.longest;
  result.length = length > 0 ? length : trained;
  for (const std::string& name : {request.a, request.b}) {
    protocol::Provenance& entry = result.provenance.emplace_back();
    entry = provenance_of(asked(request), context, {}, nullptr, {});
    entry.models = {name}, entry.dtype = request.running.dtype;
  }
  return reply_of(result);
}

Reply duel_of_models(const protocol::DuelRequest& request, RequestContext& context) {
  if (request.seeds != protocol::DuelRequest().seeds) {
    throw formats::bad_usage("seeds are of run configurations; models are trained already",
                             "seeds");
  }
  PreparedDuel duel = prepared_duel(request, request.a, request.b, context);
  std::optional<training::JobLock> lock;
  std::optional<training::EvalRows> kept;
  if (!request.job.empty()) {
    formats::make_directories(formats::real_file_system(), request.job);
    lock = training::JobLock::try_take(request.job);
    if (!lock) throw training::folder_in_use(request.job);
    kept.emplace(formats::real_file_system(), fs::path(request.job) / "units.jsonl");
    duel.options.log = &*kept;
  }
  protocol::DuelResult result =
      analysis::analyse_duel(duel.a, duel.texts_a, duel.b, duel.texts_b, duel.options, context);
  result.length = duel.length;
  const std::pair<ModelPointer, const analysis::Texts*> sides[] = {{duel.a, &duel.texts_a},
                                                                   {duel.b, &duel.texts_b}};
  for (std::size_t n = 0; n < 2; ++n) {
    protocol::Provenance& provenance = result.provenance[n];
    provenance = provenance_of(asked(request), context, {sides[n].first}, sides[n].second,
                               std::vector(provenance.ran));
  }
  return reply_of(result);
}

Reply duel(const protocol::DuelRequest& request, RequestContext& context) {
  if (request.lengths.size() > 1) {
    throw formats::bad_usage("a duel reads texts of one length", "lengths",
                             "several are several duels, each with its own chance of an error");
  }
  if (is_configuration(request.a) != is_configuration(request.b)) {
    throw formats::bad_usage("a duel is between two models or between two run configurations",
                             is_configuration(request.a) ? request.b : request.a,
                             "a trained job's folder is a model");
  }
  return is_configuration(request.a) ? duel_of_configurations(request, context)
                                     : duel_of_models(request, context);
}

}  // namespace

std::vector<Handler> duel_handlers() {
  return {method("which of two models or recipes is better, told as soon as it is known", duel)};
}

}  // namespace phasescope::worker
