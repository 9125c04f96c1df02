#include "worker/handle_models.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "analysis/cost.h"
#include "analysis/reading.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "formats/json.h"
#include "formats/limits.h"
#include "formats/tensors/safetensors.h"
#include "formats/tokenizer_files.h"
#include "model/capture.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/config_without_weights.h"
#include "model/checkpoints/convert.h"
#include "model/checkpoints/tensor_io.h"
#include "model/forward_inputs.h"
#include "model/settings.h"
#include "protocol/messages/capture.h"
#include "protocol/messages/convert.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/models.h"
#include "protocol/messages/text.h"
#include "worker/model_cache.h"
#include "worker/pass_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using analysis::Texts;
using nlohmann::json;
using protocol::Reply;

using ModelPointer = std::shared_ptr<const model::Model>;

template <class T>
Reply reply_of(const T& result, std::vector<protocol::TensorRef> tensors = {}) {
  return {protocol::to_json_form(result), std::move(tensors)};
}

// ---- what a model is ----------------------------------------------------------------------------

std::string note_of(const model::ModelConfig& config, const model::Encoding& encoding) {
  if (config.note.empty()) return encoding.departure();
  return config.note;
}

protocol::ModelSummary summary_of(const model::ModelConfig& config,
                                  const model::Encoding& encoding) {
  protocol::ModelSummary out;
  out.encoding = encoding.info().key;
  out.title = encoding.info().title;
  out.note = note_of(config, encoding);
  out.layers = config.layers, out.heads = config.heads, out.width = config.width;
  out.context = config.context;
  return out;
}

std::int64_t parameters_of(const model::ModelConfig& config, const model::Encoding& encoding) {
  std::int64_t count = 0;
  for (const model::TensorSpec& spec : model::tensor_specs(config, encoding)) {
    if (spec.optional) continue;
    std::int64_t size = 1;
    for (const std::int64_t n : spec.shape) size *= n;
    count += size;
  }
  return count;
}

Reply models_list(const json&, RequestContext&) {
  protocol::ModelsResult result;
  for (const model::BundledModel& model : model::bundled_models()) {
    const auto encoding = model::make_encoding(model.config);
    protocol::ModelSummary summary = summary_of(model.config, *encoding);
    summary.name = model.name;
    summary.path = model.folder.string();
    summary.bundled = true;
    summary.parameters = parameters_of(model.config, *encoding);
    result.models.push_back(std::move(summary));
  }
  return reply_of(result);
}

// "2" for "2.0", which is how a whole number among the options is written.
std::string without_fraction_of_zero(std::string number) {
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number;
}

// "yarn x2 over 256 tokens"; empty where nothing is stretched.
std::string scaling_of(const model::Encoding& encoding, std::int64_t context) {
  const json& options = encoding.options();
  const std::string kind = options.value("scaling", "none");
  if (kind == "none") return {};
  std::string text = kind;
  if (kind != "longrope") {
    text += " x" + without_fraction_of_zero(options.value("factor", json(1.0)).dump());
  }
  const std::int64_t trained = options.value("trained_context", std::int64_t{0});
  return text + " over " + std::to_string(trained > 0 ? trained : context) + " tokens";
}

std::string scaling_of(const model::ModelConfig& config, const model::Encoding& encoding) {
  const std::string most = scaling_of(encoding, config.context);
  const auto local = model::make_local_encoding(config);
  if (!local) return most;
  const std::string theirs = scaling_of(*local, config.context);
  if (theirs.empty() && most.empty()) return {};
  return (most.empty() ? "none" : most) + "; local layers: " + (theirs.empty() ? "none" : theirs);
}

protocol::LoadReport load_report(const model::LoadReport& from, const model::ModelConfig& config,
                                 const model::Encoding& encoding, at::ScalarType dtype,
                                 std::int64_t length) {
  protocol::LoadReport out;
  out.model = summary_of(config, encoding);
  out.model.name = from.name, out.model.path = from.path, out.model.bundled = from.bundled;
  out.model.parameters = from.parameters;
  out.family = from.family;
  out.encoding = encoding.info().key, out.encoding_why = from.encoding_why;
  out.encoding_title = encoding.info().title;
  out.encoding_source = encoding.info().source;
  out.encoding_options = encoding.options();
  out.scaling = scaling_of(config, encoding);
  out.dtypes = from.dtypes;
  out.missing = from.missing, out.unexpected = from.unexpected, out.tied = from.tied;
  out.quirks = from.quirks, out.warnings = from.warnings;
  for (const auto& tensor : from.flagged) {
    out.flagged.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.flag});
  }
  out.vocab_size = config.vocab_size, out.kv_heads = config.kv_heads;
  out.head_dim = config.head_dim, out.ffn_width = config.ffn_width;
  out.weight_bytes = from.weight_bytes;
  out.memory_bytes_at_context = from.memory_bytes_at_context;
  out.dtype = model::name_of_dtype(dtype);
  out.length = length > 0 ? length : config.context;
  out.memory_bytes = model::memory_bytes(
      config, from.weight_bytes, static_cast<std::int64_t>(at::elementSize(dtype)), out.length);
  out.tokenizer = from.tokenizer, out.hash = from.sha256;
  return out;
}

Reply model_info(const json& params, RequestContext& context) {
  const std::int64_t length = params.value("length", std::int64_t{0});
  if (length != 0) formats::require_length(length);
  try {
    const ModelPointer model = context.models().open(params, context);
    return reply_of(load_report(model->report, model->config(), model->encoding(),
                                model->decoder.dtype(), length));
  } catch (const formats::Error& error) {
    if (error.code() != "bad_input") throw;
    // What is in a file can be told where its types, or what it lacks, keep it from being run.
    model::CheckpointReader reader(reading_of(params).model,
                                   [&context] { return context.cancelled(); });
    if (reader.readable()) throw;
    const at::ScalarType dtype = model::dtype_of_name(params.value("dtype", "f32"));
    model::LoadReport report = model::unread_report(reader, dtype);
    report.warnings.push_back("the model cannot be run: " + error.message());
    return reply_of(load_report(report, reader.config(), reader.encoding(), dtype, length));
  }
}

// ---- texts --------------------------------------------------------------------------------------

// The tokenizer of a request's model: where it has a file of its own, weights stay untouched.
std::shared_ptr<const formats::Tokenizer> tokenizer_of(const json& params,
                                                       RequestContext& context) {
  if (const auto file = formats::find_tokenizer_file(reading_of(params).model)) {
    return formats::open_tokenizer(*file);
  }
  const ModelPointer model = context.models().open(params, context);
  if (!model->tokenizer) {
    throw formats::bad_input("the model has no tokenizer", model->report.path);
  }
  return model->tokenizer;
}

json there_and_back(const formats::Tokenizer& tokenizer, const std::vector<std::int64_t>& ids,
                    bool plain) {
  const auto special = plain ? formats::SpecialTokens::keep : formats::SpecialTokens::skip;
  return {{"ids", ids},
          {"decoded", tokenizer.decode_text(ids, special)},
          {"tokens", formats::visible_tokens(tokenizer, ids)}};
}

json tokenized(const formats::Tokenizer& tokenizer, const std::string& text, bool plain) {
  const auto use = plain ? formats::Template::leave_out : formats::Template::apply;
  const formats::TokenizedText tokens = tokenizer.encode(text, use);
  json result = there_and_back(tokenizer, tokens.ids, plain);
  json& spans = result["spans"] = json::array();
  for (const formats::TextSpan& span : tokens.spans) spans.push_back({span.begin, span.end});
  result["pre_tokens"] = tokenizer.pre_tokens(text);
  return result;
}

// One list as it is; several as "items".
Reply back_from_ids(const formats::Tokenizer& tokenizer, const IdLists& lists, bool plain) {
  if (lists.size() == 1) return {there_and_back(tokenizer, lists[0], plain), {}};
  json items = json::array();
  for (const auto& ids : lists) items.push_back(there_and_back(tokenizer, ids, plain));
  return {{{"items", std::move(items)}}, {}};
}

Reply tokenize(const json& params, RequestContext& context) {
  const auto tokenizer = tokenizer_of(params, context);
  const bool plain = params.value("no_special", false);
  if (params.contains("texts")) {
    json items = json::array();
    for (const std::string& text : words_param(params, "texts")) {
      context.throw_if_cancelled();
      items.push_back(tokenized(*tokenizer, text, plain));
    }
    return {{{"items", std::move(items)}}, {}};
  }
  const json input = params.value("input", json::object());
  if (const auto text = given_text(input)) return {tokenized(*tokenizer, text->text, plain), {}};
  if (input.contains("ids")) return back_from_ids(*tokenizer, id_lists(input), plain);
  if (input.empty()) return {tokenized(*tokenizer, analysis::first_session_text().text, plain), {}};
  json all = params;
  if (!all.contains("length")) all["length"] = std::int64_t{1} << 40;  // nothing is cut
  const ModelPointer model = context.models().open(params, context);
  IdLists lists;
  for (analysis::Text& text : read_input(all, context, *model, DefaultInput::first_session).items) {
    lists.push_back(std::move(text.ids));
  }
  return back_from_ids(*tokenizer, lists, plain);
}

Reply text_read(const json& params, RequestContext& context) {
  const ModelPointer model = context.models().open(params, context);
  Texts texts = only_first(read_input(params, context, *model, DefaultInput::first_session));
  const auto pass = pass_cache().get(model, texts.items[0], backend_of(params), context);
  protocol::TextResult result =
      analysis::analyse_text(*pass, texts.items[0], params.value("guesses", 5));
  texts.add_note(result.provenance.note);
  result.provenance = provenance_of("text.read", params, context, {model}, &texts, pass->kernel());
  return reply_of(result);
}

Reply generate(const json& params, RequestContext& context) {
  const ModelPointer model = context.models().open(params, context);
  Texts texts = only_first(read_input(params, context, *model, DefaultInput::first_session));
  require_ids_alone(texts, "generate");
  analysis::GenerateOptions options;
  options.tokens = params.value("tokens", options.tokens);
  options.temperature = params.value("temperature", options.temperature);
  options.seed = params.value("seed", options.seed);
  options.backend = backend_of(params);
  protocol::GenerateResult result = analysis::generate(*model, texts.items[0], options, context);
  texts.add_note(result.provenance.note);
  const std::string kernel = result.provenance.kernel;
  result.provenance = provenance_of("generate", params, context, {model}, &texts, kernel);
  return reply_of(result);
}

// ---- tensors ------------------------------------------------------------------------------------

// (B, N) of all texts where they have one length, of the first one otherwise.
at::Tensor batch_of(Texts& texts) {
  if (texts.shortest() != texts.longest()) texts = only_first(std::move(texts));
  std::vector<at::Tensor> rows;
  for (const analysis::Text& text : texts.items) rows.push_back(analysis::ids_tensor(text.ids));
  return at::cat(rows);
}

// Of capture: the ids that were read, which make what is written a reference for check.
constexpr const char* kInputIds = "input_ids";

bool wants_ids(const json& params) {
  const std::vector<std::string> what = words_param(params, "what");
  return std::count(what.begin(), what.end(), kInputIds) > 0;
}

// What an inputs file holds beside the ids.
void add_inputs(const json& params, const at::Tensor& ids, const model::ModelConfig& config,
                model::ForwardOptions& options) {
  const json input = params.value("input", json::object());
  if (!input.contains("inputs") || !input["inputs"].is_string()) return;
  const std::string path = input["inputs"];
  if (path.empty()) return;  // the tensors came with the request
  model::read_forward_inputs(formats::SafetensorsFile::open(path), "", ids, config, options);
}

model::CaptureSpec capture_spec(const json& params) {
  model::CaptureSpec spec;
  spec.what = words_param(params, "what");
  std::erase(spec.what, kInputIds);
  if (spec.what.empty()) spec.what = {"logits"};
  spec.layers = integers_param(params, "layers");
  spec.heads = integers_param(params, "heads");
  if (const auto rows = range_param(params, "rows")) {
    spec.rows = model::Range{rows->first, rows->second};
  }
  if (const auto columns = range_param(params, "cols")) {
    spec.columns = model::Range{columns->first, columns->second};
  }
  return spec;
}

Reply capture(const json& params, RequestContext& context) {
  const ModelPointer model = context.models().open(params, context);
  Texts texts = read_input(params, context, *model, DefaultInput::first_session, Padding::keep);
  const at::Tensor ids = batch_of(texts);
  model::ForwardOptions options;
  options.backend = backend_of(params);
  add_inputs(params, ids, model->config(), options);
  options.progress = [&context](double done) { context.progress(done, "reading the text"); };
  options.cancelled = [&context] { return context.cancelled(); };
  const model::Captured captured =
      model::capture(model->decoder, ids, capture_spec(params), options);
  protocol::CaptureResult result;
  result.model = model->report.name;
  std::vector<protocol::TensorRef> tensors;
  std::map<std::string, at::Tensor> named = captured.tensors;
  if (wants_ids(params)) named.emplace(kInputIds, ids);
  for (const auto& [name, tensor] : named) {
    result.names.push_back(name);
    tensors.push_back(analysis::tensor_ref(name, tensor));
    result.bytes += static_cast<std::int64_t>(tensors.back().size_bytes());
  }
  for (const std::string& note : captured.notes) {
    texts.add_note(note);
  }
  result.provenance = provenance_of("capture", params, context, {model}, &texts, captured.kernel);
  return reply_of(result, std::move(tensors));
}

Reply check(const json& params, RequestContext& context) {
  if (!params.contains("reference") || !params["reference"].is_string()) {
    throw formats::bad_usage("check needs the path of a reference file", "reference");
  }
  model::CheckOptions options;
  const std::string dtype = params.value("dtype", "f32");
  options.dtype = model::dtype_of_name(dtype);
  if (params.contains("tolerance")) options.tolerance = params["tolerance"].get<double>();
  if (options.tolerance && !(*options.tolerance > 0)) {
    throw formats::bad_usage("a tolerance must be above 0", "tolerance");
  }
  options.forward.backend = backend_of(params);
  options.forward.progress = [&context](double done) { context.progress(done, "comparing"); };
  options.forward.cancelled = [&context] { return context.cancelled(); };
  const std::string name = model_names(params)[0], reference = params["reference"];
  const protocol::ModelReading reading = reading_of(params);
  options.overrides = reading.settings;
  const model::ReferenceCheck checked = model::check_against(reading.model, reference, options);
  protocol::ReferenceCheckResult result;
  result.model = name, result.reference = reference;
  result.verdict =
      checked.compared.empty() ? "nothing compared" : (checked.passed ? "equal" : "differs");
  for (const model::TensorComparison& tensor : checked.compared) {
    const bool exact = tensor.name.ends_with("_f64");
    result.tensors.push_back({tensor.name, tensor.error, tensor.tolerance, tensor.passed,
                              exact ? "f64" : checked.dtype});
    if (!tensor.why.empty()) result.not_compared.push_back(tensor.name + ": " + tensor.why);
  }
  for (const model::NotCompared& tensor : checked.not_compared) {
    result.not_compared.push_back(tensor.name + ": " + tensor.reason);
  }
  result.provenance = provenance_of("check", params, context, {}, nullptr, checked.kernel);
  result.provenance.models = {name};
  result.provenance.dtype = checked.dtype;
  result.provenance.note = checked.tolerance_rule;
  return reply_of(result);
}

// ---- convert ------------------------------------------------------------------------------------

// Exported files say where they come from (cli.md): FILE.json beside them.
void write_sidecar(const std::filesystem::path& folder, const protocol::ConvertResult& result) {
  const json sidecar = {{"command", result.provenance.command},
                        {"program", "phasescope"},
                        {"provenance", protocol::to_json_form(result.provenance)},
                        {"notes", result.notes}};
  formats::write_file_atomically(formats::real_file_system(), folder / "model.safetensors.json",
                                 sidecar.dump(2) + "\n");
}

Reply convert(const json& params, RequestContext& context) {
  const protocol::ModelReading reading = reading_of(params);
  model::ConvertOptions options;
  options.overrides = reading.settings;
  if (params.contains("dtype")) options.dtype = model::dtype_of_name(params["dtype"]);
  options.progress = [&context](double done) { context.progress(done, "writing tensors"); };
  options.cancelled = [&context] { return context.cancelled(); };
  const std::filesystem::path out = params.value("out", "");
  const std::string to = params.value("to", "");
  context.progress(0, "opening " + reading.model);
  const model::Converted done =
      model::convert_model(formats::real_file_system(), reading.model, to, out, options);
  protocol::ConvertResult result;
  result.model = done.model, result.to = to, result.out = out.string();
  result.files = done.files, result.notes = done.notes;
  result.tensors = done.tensors, result.bytes = static_cast<std::int64_t>(done.bytes);
  result.parameters_before = done.parameters_before, result.parameters = done.parameters;
  result.provenance = provenance_of("convert", params, context, {}, nullptr, "");
  result.provenance.models = {done.model};
  result.provenance.model_hashes = {done.sha256};
  result.provenance.dtype = options.dtype ? model::name_of_dtype(*options.dtype) : "";
  write_sidecar(out, result);
  result.files.push_back("model.safetensors.json");
  return reply_of(result);
}

Reply convert_list(const json&, RequestContext&) {
  json forms = json::array();
  for (const model::ConversionForm& form : model::conversion_forms()) {
    forms.push_back({{"key", form.key}, {"help", form.help}});
  }
  return {{{"forms", std::move(forms)}}, {}};
}

// ---- cost ---------------------------------------------------------------------------------------

Reply cost(const json& params, RequestContext& context) {
  const protocol::ModelReading reading = reading_of(params);
  const std::int64_t length = params.value("length", std::int64_t{1024});
  model::ModelConfig config =
      model::config_without_weights(reading.model, [&context] { return context.cancelled(); });
  // Settings may ask for what the weights do not have: nothing is run.
  model::set_fields(config, reading.settings);
  return reply_of(analysis::analyse_cost(config, protocol::name_of(reading), length));
}

}  // namespace

std::vector<Handler> models_handlers() {
  return {
      {"models.list", "the bundled models", models_list},
      {"model.info", "load report of a model", model_info},
      {"tokenize", "text to ids and back", tokenize},
      {"text.read", "loss and guesses of every token", text_read},
      {"generate", "continues a text", generate},
      {"capture", "tensors of a forward pass", capture},
      {"check", "compares a model with a reference file", check},
      {"convert", "writes a model in another form", convert},
      {"convert.list", "the forms a model can be converted to", convert_list},
      {"cost", "FLOPs, multiply-accumulates, parameters, memory", cost},
  };
}

}  // namespace phasescope::worker
