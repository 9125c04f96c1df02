#include "worker/handle_questions.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>

#include "analysis/formula.h"
#include "analysis/map.h"
#include "analysis/model_sides.h"
#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/profile.h"
#include "analysis/questions/proofs.h"
#include "analysis/questions/registry.h"
#include "analysis/questions/xray.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "model/checkpoints/constructed.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/acuity.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/demand.h"
#include "protocol/messages/formula.h"
#include "protocol/messages/pair.h"
#include "protocol/messages/profile.h"
#include "protocol/messages/prove.h"
#include "protocol/messages/xray.h"
#include "worker/analysis_texts.h"
#include "worker/model_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using protocol::Reply;

Passes passes_of(const ModelPointer& model, const analysis::Texts& texts,
                 const std::string& backend) {
  model::ForwardOptions options;
  options.backend = model::backend_named(backend);
  Passes passes;
  for (const analysis::Text& text : texts.items) {
    passes.push_back(
        std::make_shared<analysis::TextPass>(model, analysis::ids_tensor(text.ids), options, 0));
  }
  return passes;
}

// A result, whose provenance has what ran attention, with its texts' names and what made it.
template <class R, class Result>
Reply answer_of(const R& request, Result result, RequestContext& context, const ModelPointer& model,
                const analysis::Texts& texts, std::vector<protocol::TensorRef> tensors = {}) {
  result.texts = names_of(texts);
  const std::vector<protocol::Ran> ran = result.provenance.ran;
  analysis::Texts noted = texts;
  noted.add_note(result.provenance.note);
  result.provenance = provenance_of(asked(request), context, {model}, &noted, ran);
  return reply_of(result, std::move(tensors));
}

// ---- addressing ---------------------------------------------------------------------------------

Reply addressing(const protocol::AddressingRequest& request, RequestContext& context) {
  if (request.within == 1) {
    throw formats::bad_usage("pairs of a single distance show no effect of distance", "within",
                             "give 2 or more, or leave it out for all pairs");
  }
  const ModelPointer model = context.models().open(request.model, request.running, context);
  const analysis::Texts texts = question_texts(request.reading, context, *model);
  const Passes passes = passes_of(model, texts, request.running.backend);
  analysis::AddressingOptions options;
  options.content = request.of == "content";
  options.within = request.within;
  options.layers = request.chosen.layers, options.heads = request.chosen.heads;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  protocol::AddressingResult result = analysis::analyse_addressing(passes, options, context);
  result.provenance.ran = ran_of(passes);
  return answer_of(request, std::move(result), context, model, texts);
}

// ---- demand -------------------------------------------------------------------------------------

// W of "window:W"; 0 for "zero".
std::int64_t start_window(const std::string& start) {
  if (start == "zero") return 0;
  static const std::regex form("window:([1-9][0-9]{0,11})");
  std::smatch parts;
  if (std::regex_match(start, parts, form)) return std::stoll(parts[1].str());
  throw formats::bad_usage("'" + start + "' is no start of a fit", "start",
                           "give zero or window:W");
}

Reply demand(const protocol::DemandRequest& request, RequestContext& context) {
  analysis::DemandOptions options;
  options.backend = model::backend_named(request.running.backend);
  options.layers = request.chosen.layers, options.heads = request.chosen.heads;
  options.fit = request.fit;
  options.steps = request.steps;
  options.start_window = start_window(request.start);
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  const ModelPointer model = context.models().open(request.model, request.running, context);
  const analysis::Texts texts = question_texts(request.reading, context, *model);
  analysis::DemandOutput out = analysis::analyse_demand(model, texts, options, context);
  return answer_of(request, std::move(out.result), context, model, texts, std::move(out.tensors));
}

// ---- acuity -------------------------------------------------------------------------------------

// What was asked of layers and heads where their answer is one for all is said, not dropped.
void note_unchosen(const protocol::AcuityRequest& request, analysis::Texts& texts) {
  if (request.by == "model" && !(request.chosen.layers.empty() && request.chosen.heads.empty())) {
    texts.add_note(
        "layers and heads choose nothing of all heads at once (by layer or by head does)");
  } else if (request.by == "layer" && !request.chosen.heads.empty()) {
    texts.add_note("heads choose nothing of whole layers (by head does)");
  }
}

// A permutation that is drawn twice is not two of them.
void check_seeds(const std::vector<std::int64_t>& seeds) {
  if (seeds.empty()) throw formats::bad_usage("acuity needs at least one seed", "seeds");
  std::set<std::int64_t> known;
  for (const std::int64_t seed : seeds) {
    if (known.insert(seed).second) continue;
    throw formats::bad_usage("seed " + std::to_string(seed) + " is named twice", "seeds");
  }
}

Reply acuity(const protocol::AcuityRequest& request, RequestContext& context) {
  analysis::AcuityOptions options;
  for (const std::string& band : request.bands) {
    options.bands.push_back(analysis::band_named(band));
  }
  check_seeds(request.seeds);
  options.seeds.assign(request.seeds.begin(), request.seeds.end());
  options.by = request.by;
  options.layers = request.chosen.layers, options.heads = request.chosen.heads;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  const ModelPointer model = context.models().open(request.model, request.running, context);
  analysis::Texts texts = question_texts(request.reading, context, *model);
  note_unchosen(request, texts);
  protocol::AcuityResult result = analysis::analyse_acuity(model, texts, options, context);
  return answer_of(request, std::move(result), context, model, texts);
}

// ---- xray ---------------------------------------------------------------------------------------

// A text of twice the trained length, where none is asked for.
protocol::XrayRequest with_length(protocol::XrayRequest request, const model::Model& model) {
  std::int64_t& length = request.reading.length;
  const std::int64_t trained = model.config().context;
  const protocol::Input& input = request.reading.input;
  const bool given = !input.ids.is_null() || input.inputs || input.sample;
  if (length == 0 && !given) length = 2 * trained;
  if (length > 0 && length <= trained) {
    throw formats::bad_usage(
        "nothing past the trained length of " + std::to_string(trained) + " tokens to look at",
        "length", "give a longer one");
  }
  return request;
}

// Where failures begin is not looked for in texts that end before the length that was asked for.
void require_length(const analysis::Texts& texts, std::int64_t asked) {
  const std::int64_t longest = texts.longest();
  if (asked <= longest) return;
  throw formats::bad_input(
      "no text has the " + std::to_string(asked) + " tokens that were asked for: the longest has " +
          std::to_string(longest),
      "length", "give " + std::to_string(longest) + " at most, or longer texts");
}

// Those with rows past the trained length.
void keep_long_ones(analysis::Texts& texts, std::int64_t trained) {
  const auto is_short = [trained](const analysis::Text& text) {
    return static_cast<std::int64_t>(text.ids.size()) <= trained + 1;
  };
  const auto count = std::ranges::count_if(texts.items, is_short);
  const bool all = count == static_cast<std::ptrdiff_t>(texts.items.size());
  if (count == 0 || all) return;
  std::erase_if(texts.items, is_short);
  texts.add_note(std::to_string(count) + " texts end within the trained length and are left out");
}

Reply xray(const protocol::XrayRequest& given, RequestContext& context) {
  const ModelPointer model = context.models().open(given.model, given.running, context);
  const protocol::XrayRequest request = with_length(given, *model);
  analysis::XrayOptions options;
  options.backend = model::backend_named(request.running.backend);
  options.clamp = request.treatment == "clamp";
  options.limit = request.limit;
  options.by_layer = request.by == "layer";
  options.repair = request.repair, options.enough = request.enough;
  options.layers = request.chosen.layers, options.heads = request.chosen.heads;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  analysis::Texts texts = question_texts(request.reading, context, *model);
  require_length(texts, given.reading.length);
  keep_long_ones(texts, model->config().context);
  protocol::XrayResult result = analysis::analyse_xray(model, texts, options, context);
  return answer_of(request, std::move(result), context, model, texts);
}

// ---- pair ---------------------------------------------------------------------------------------

// The head that is named; where none is and the first layer has no maps, of the first that has
// some.
analysis::HeadName head_of_pair(const protocol::PairRequest& request, const model::Model& model,
                                analysis::Texts& texts) {
  analysis::HeadName head = analysis::parse_head(request.head);
  if (head.head < 0) {
    throw formats::bad_usage("a pair is shown of one head, not of a layer", "head");
  }
  const bool named = request.head != protocol::PairRequest{}.head;
  if (named || analysis::has_head(model.config(), head.layer, head.head)) return head;
  head.layer = analysis::first_layer_with_maps(model.config());
  texts.add_note("layer 0 has no maps: the first head of layer " + std::to_string(head.layer) +
                 " is shown");
  return head;
}

Reply pair(const protocol::PairRequest& request, RequestContext& context) {
  const ModelPointer model = context.models().open(request.model, request.running, context);
  analysis::Texts texts =
      only_first(read_input(request.reading, {}, context, *model, DefaultInput::first_session));
  const analysis::HeadName head = head_of_pair(request, *model, texts);
  analysis::PairOptions options;
  options.layer = head.layer, options.head = head.head;
  options.query = request.query, options.key = request.key;
  options.backend = model::backend_named(request.running.backend);
  protocol::PairResult result = analysis::analyse_pair(model, texts.items[0], options, context);
  result.provenance =
      provenance_of(asked(request), context, {model}, &texts, result.provenance.ran);
  return reply_of(result);
}

// ---- profile ------------------------------------------------------------------------------------

Reply profile(const protocol::ProfileRequest& request, RequestContext& context) {
  analysis::ProfileOptions options;
  options.backend = model::backend_named(request.running.backend);
  options.window = request.window, options.samples = request.samples;
  options.layers = request.chosen.layers, options.heads = request.chosen.heads;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  const ModelPointer model = context.models().open(request.model, request.running, context);
  const analysis::Texts texts = question_texts(request.reading, context, *model);
  protocol::ProfileResult result = analysis::analyse_profile(model, texts, options, context);
  return answer_of(request, std::move(result), context, model, texts);
}

// ---- prove --------------------------------------------------------------------------------------

namespace fs = std::filesystem;
constexpr const char* kProofFile = "proof.json";

bool has_proof(const fs::path& folder) { return formats::is_file(folder / kProofFile); }

// The folders that --make wrote: this one, or those in it, by name.
std::vector<std::string> written_in(const fs::path& folder) {
  if (has_proof(folder)) return {folder.string()};
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (has_proof(entry.path())) found.push_back(entry.path().string());
  }
  if (found.empty()) {
    throw formats::bad_input(std::string("there is no ") + kProofFile + " in it or in its folders",
                             folder.string(), "phasescope prove --make FOLDER writes such folders");
  }
  std::ranges::sort(found);
  return found;
}

// Names of constructed models, and folders.
std::vector<std::string> proved_names(const protocol::ProveRequest& request) {
  std::vector<std::string> names;
  for (const std::string& name : request.names) {
    const bool folder = model::find_constructed(name) == nullptr && fs::is_directory(name);
    if (!folder) {
      names.push_back(name);
    } else if (request.make.empty()) {
      std::ranges::move(written_in(name), std::back_inserter(names));
    } else {
      throw formats::bad_usage("models are written by their names, and '" + name + "' is a folder",
                               "make", "leave it out to prove the folder");
    }
  }
  if (!request.names.empty()) return names;
  for (const auto& entry : model::constructed_models()) names.push_back(entry.name);
  return names;
}

// FOLDER/NAME: the model in our own form, and proof.json with its claims.
void write_proof(const protocol::ProveRequest& request, const std::string& name,
                 const std::vector<protocol::Claim>& claims) {
  const auto place = fs::path(request.make) / name;
  fs::create_directories(place);
  const model::Constructed made = model::find_constructed(name)->make();
  const auto encoding = model::make_encoding(made.config);
  model::save_model(formats::real_file_system(), place, made.config, *encoding, made.weights);
  formats::write_file_atomically(formats::real_file_system(), place / kProofFile,
                                 nlohmann::json{{"name", name},
                                                {"source", model::find_constructed(name)->title},
                                                {"seed", request.seed},
                                                {"claims", protocol::to_json_form(claims)}}
                                         .dump(2) +
                                     "\n");
}

analysis::WrittenProof read_proof(const fs::path& folder) {
  const fs::path file = folder / kProofFile;
  const formats::Json form = formats::json_from_file(file);
  const auto member = [&form](const char* key) {
    return form.is_object() && form.contains(key) ? form.at(key) : formats::Json();
  };
  const formats::Json name = member("name"), seed = member("seed"), claims = member("claims");
  if (!name.is_string() || !seed.is_number_integer() || !claims.is_array() || claims.empty()) {
    throw formats::bad_input("a proof has a name, the seed of its texts and claims", file.string(),
                             "phasescope prove --make FOLDER writes it");
  }
  if (model::find_constructed(name.get<std::string>()) == nullptr) {
    throw formats::bad_input("'" + name.get<std::string>() + "' is no constructed model",
                             file.string());
  }
  try {
    return {name.get<std::string>(), static_cast<std::uint64_t>(seed.get<std::int64_t>()),
            protocol::from_json_form<std::vector<protocol::Claim>>(claims)};
  } catch (const std::exception& error) {
    throw formats::bad_input(std::string("its claims cannot be read: ") + error.what(),
                             file.string());
  }
}

Reply prove(const protocol::ProveRequest& request, RequestContext& context) {
  analysis::ProofOptions options;
  options.dtype = model::dtype_to_compute_in(request.running.dtype, at::kCPU, "");
  options.backend = model::backend_named(request.running.backend);
  options.seed = static_cast<std::uint64_t>(request.seed);
  const std::vector<std::string> names = proved_names(request);
  protocol::ProveResult result;
  model::AllRan kernels;
  std::vector<std::shared_ptr<const model::Model>> models;
  for (std::size_t n = 0; n < names.size(); ++n) {
    context.throw_if_cancelled();
    const auto share = static_cast<double>(names.size());
    protocol::PartOfProgress part(context, static_cast<double>(n) / share,
                                  static_cast<double>(n + 1) / share);
    const bool written = model::find_constructed(names[n]) == nullptr && has_proof(names[n]);
    models.push_back(context.models().open(names[n], request.running, context));
    const ModelPointer& model = models.back();
    std::vector<protocol::Claim> claims =
        written ? analysis::prove_again(model, read_proof(names[n]), options, kernels, part)
                : analysis::prove(names[n], model, options, kernels, part);
    if (!request.make.empty()) write_proof(request, names[n], claims);
    std::ranges::move(claims, std::back_inserter(result.claims));
  }
  result.provenance =
      provenance_of(asked(request), context, models, nullptr, protocol::listed(kernels));
  return reply_of(result);
}

Reply questions_list(const protocol::QuestionsListRequest&, RequestContext&) {
  return {{{"questions", protocol::to_json_form(analysis::questions())}}, {}};
}

Reply formula_report(const protocol::FormulaRequest& request, RequestContext&) {
  return reply_of(analysis::analyse_formula(request));
}

}  // namespace

std::vector<Handler> questions_handlers() {
  return {
      method("the questions about positions", questions_list),
      method("what a formula of a score is, and whether it is what it says", formula_report),
      method("how much of a head's scores is distance, key, or the pair", addressing),
      method("at which distances heads want more weight", demand),
      method("how finely the model needs to know distance", acuity),
      method("which heads fail past the trained length", xray),
      method("one pair's phasors and its score at other distances", pair),
      method("positional and semantic score of every head", profile),
      method("what is known of the constructed models, against what is measured", prove),
  };
}

}  // namespace phasescope::worker
