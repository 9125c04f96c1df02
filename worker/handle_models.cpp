#include "worker/handle_models.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "analysis/cost.h"
#include "analysis/reading.h"
#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "formats/error.h"
#include "formats/folder_listing.h"
#include "formats/json.h"
#include "formats/limits.h"
#include "formats/tensors/safetensors.h"
#include "formats/tokenizer_files.h"
#include "model/capture.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/config_without_weights.h"
#include "model/checkpoints/constructed.h"
#include "model/checkpoints/tensor_io.h"
#include "model/forward_inputs.h"
#include "model/settings.h"
#include "protocol/messages/capture.h"
#include "protocol/messages/cost.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/models.h"
#include "protocol/messages/text.h"
#include "protocol/messages/tokenize.h"
#include "protocol/sink_words.h"
#include "tasks/vocabulary.h"
#include "worker/model_cache.h"
#include "worker/pass_cache.h"
#include "worker/request_input.h"

namespace phasescope::worker {
namespace {

using analysis::Texts;
using nlohmann::json;
using protocol::Reply;

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
  out.encoder_layers = config.encoder_layers;
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

Reply models_list(const protocol::ModelsRequest&, RequestContext&) {
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
  for (const model::ConstructedEntry& entry : model::constructed_models()) {
    const model::ModelConfig config = entry.make().config;
    const auto encoding = model::make_encoding(config);
    protocol::ModelSummary summary = summary_of(config, *encoding);
    summary.name = entry.name;
    summary.note = "constructed: " + entry.title;
    summary.bundled = true;
    summary.parameters = parameters_of(config, *encoding);
    result.models.push_back(std::move(summary));
  }
  return reply_of(result);
}

Reply models_find(const protocol::FindRequest& request, RequestContext&) {
  require_models(request.models);
  return reply_of(protocol::FoundResult{request.models});
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

// What a slider may move. An end above 0 is none: every number above it will do.
std::vector<protocol::EncodingNumber> numbers_of(const model::Encoding& encoding) {
  std::vector<protocol::EncodingNumber> numbers;
  for (const model::OptionInfo& option : encoding.info().options) {
    const model::Json& value = encoding.options().at(option.key);
    if (!value.is_number() || !encoding.counts(option)) continue;
    protocol::EncodingNumber number{option.key, option.help, value.get<double>()};
    number.whole = option.fallback.is_number_integer();
    if (option.min == model::kAboveZero) {
      number.low = 0;
    } else if (option.min > -model::kNoLimit) {
      number.low = option.min;
    }
    if (option.max < model::kNoLimit) number.high = option.max;
    numbers.push_back(std::move(number));
  }
  return numbers;
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
  out.encoding_numbers = numbers_of(encoding);
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
  for (const model::RopePlanRow& row :
       model::rope_plan(config, out.length, from.stored_frequencies, from.as_library.get())) {
    out.rope_plan.push_back({model::layers_text(row.layers), row.sees, row.encoding, row.channels,
                             row.frequencies, row.magnitude, row.axes, row.norm, row.temperature,
                             row.stored_difference, row.library_difference});
  }
  out.tokenizer = from.tokenizer, out.hash = from.sha256;
  return out;
}

// Of a model that no device has.
at::ScalarType dtype_without_weights(const protocol::InfoRequest& request) {
  return model::dtype_to_compute_in(request.opening.dtype, at::kCPU, request.model);
}

// What a configuration says by itself, with the settings of the request.
protocol::LoadReport report_of(model::ConfigAlone alone, const protocol::InfoRequest& request,
                               const std::vector<std::pair<std::string, std::string>>& settings) {
  model::set_fields(alone.config, settings);
  for (const auto& [key, value] : settings) {
    alone.report.quirks.push_back("--set " + key + "=" + value);  // as of a whole model
  }
  const auto encoding = model::make_encoding(alone.config);
  const at::ScalarType dtype = dtype_without_weights(request);
  const auto item = static_cast<std::int64_t>(at::elementSize(dtype));
  alone.report.parameters = parameters_of(alone.config, *encoding);
  alone.report.weight_bytes = alone.report.parameters * item;
  alone.report.memory_bytes_at_context =
      model::memory_bytes(alone.config, alone.report.weight_bytes, item, alone.config.context);
  return load_report(alone.report, alone.config, *encoding, dtype, request.length);
}

Reply model_info(const protocol::InfoRequest& request, RequestContext& context) {
  const std::int64_t length = request.length;
  const protocol::ModelReading reading = reading_of(request.model, request.opening.set);
  if (auto alone = model::config_alone(reading.model)) {
    return reply_of(report_of(std::move(*alone), request, reading.settings));
  }
  try {
    const ModelPointer model = context.models().open(request.model, request.opening, context);
    return reply_of(load_report(model->report, model->config(), model->encoding(),
                                model->decoder.dtype(), length));
  } catch (const formats::Error& error) {
    if (error.code() != "bad_input") throw;
    // What is in a file can be told where its types, or what it lacks, keep it from being run.
    model::CheckpointReader reader(reading.model, [&context] { return context.cancelled(); });
    if (reader.readable()) throw;
    const at::ScalarType dtype = dtype_without_weights(request);
    model::LoadReport report = model::unread_report(reader, dtype);
    report.warnings.push_back("the model cannot be run: " + error.message());
    return reply_of(load_report(report, reader.config(), reader.encoding(), dtype, length));
  }
}

// ---- texts --------------------------------------------------------------------------------------

// The tokenizer of a request's model: where it has a file of its own, weights stay untouched.
std::shared_ptr<const formats::Tokenizer> tokenizer_of(const std::string& name,
                                                       RequestContext& context) {
  if (const auto file = formats::find_tokenizer_file(reading_of(name, {}).model)) {
    return formats::open_tokenizer(*file);
  }
  const ModelPointer model = context.models().open(name, {}, context);
  if (!model->tokenizer) {
    throw formats::bad_input("the model has no tokenizer", model->report.path);
  }
  return model->tokenizer;
}

protocol::TokenizeResult there_and_back(const formats::Tokenizer& tokenizer,
                                        const std::vector<std::int64_t>& ids, bool plain) {
  const auto special = plain ? formats::SpecialTokens::keep : formats::SpecialTokens::skip;
  return {.ids = ids,
          .decoded = tokenizer.decode_text(ids, special),
          .tokens = formats::visible_tokens(tokenizer, ids),
          .spans = {},
          .pre_tokens = {}};
}

protocol::TokenizeResult tokenized(const formats::Tokenizer& tokenizer, const std::string& text,
                                   bool plain) {
  const auto use = plain ? formats::Template::leave_out : formats::Template::apply;
  const formats::TokenizedText tokens = tokenizer.encode(text, use);
  protocol::TokenizeResult result = there_and_back(tokenizer, tokens.ids, plain);
  auto& spans = result.spans.emplace();
  for (const formats::TextSpan& span : tokens.spans) {
    spans.push_back({static_cast<std::int64_t>(span.begin), static_cast<std::int64_t>(span.end)});
  }
  result.pre_tokens = tokenizer.pre_tokens(text);
  return result;
}

// One list as it is; several as "items".
Reply back_from_ids(const formats::Tokenizer& tokenizer, const IdLists& lists, bool plain) {
  if (lists.size() == 1) return reply_of(there_and_back(tokenizer, lists[0], plain));
  protocol::TokenizeList list;
  for (const auto& ids : lists) list.items.push_back(there_and_back(tokenizer, ids, plain));
  return reply_of(list);
}

Reply tokenize(const protocol::TokenizeRequest& request, RequestContext& context) {
  const auto tokenizer = tokenizer_of(request.model, context);
  const bool plain = request.no_special;
  if (!request.texts.empty()) {
    protocol::TokenizeList list;
    for (const std::string& text : request.texts) {
      context.throw_if_cancelled();
      list.items.push_back(tokenized(*tokenizer, text, plain));
    }
    return reply_of(list);
  }
  const protocol::Input& input = request.input;
  const auto text = analysis::given_text(input);
  const bool whole = text || !input.ids.is_null() || input == protocol::Input{};
  if (whole && request.length != 0) {
    throw formats::bad_usage("`length` is for a file of inputs; texts and ids are read whole",
                             "length", "leave it out");
  }
  if (text) return reply_of(tokenized(*tokenizer, text->text, plain));
  if (!input.ids.is_null()) return back_from_ids(*tokenizer, id_lists(input), plain);
  if (input == protocol::Input{}) {
    return reply_of(tokenized(*tokenizer, analysis::first_session_text().text, plain));
  }
  protocol::Reading all{.input = input, .length = request.length};
  if (all.length == 0) all.length = formats::kMostTokens;  // nothing is cut
  const ModelPointer model = context.models().open(request.model, {}, context);
  IdLists lists;
  for (analysis::Text& text :
       read_input(all, {}, context, *model, DefaultInput::first_session).items) {
    lists.push_back(std::move(text.ids));
  }
  return back_from_ids(*tokenizer, lists, plain);
}

Reply text_read(const protocol::TextRequest& request, RequestContext& context) {
  const ModelPointer model = context.models().open(request.model, request.running, context);
  if (model->encoding().info().of_one_text) {
    throw formats::Error("not_applicable", "attention that was imported has no text", "model",
                         "heads, map and distance read it");
  }
  Texts texts =
      only_first(read_input(request.reading, {}, context, *model, DefaultInput::first_session));
  const auto pass = pass_cache().get(model, texts.items[0],
                                     model::backend_named(request.running.backend), context);
  protocol::TextResult result =
      analysis::analyse_text(*pass, texts.items[0], static_cast<int>(request.guesses));
  texts.add_note(result.provenance.note);
  result.provenance =
      provenance_of(asked(request), context, {model}, &texts, protocol::listed(pass->kernels()));
  return reply_of(result);
}

// A prompt that nobody gave leaves room in the trained context for what is written, so that its
// beginning is not let go at once; half of the context is the prompt's at least. Samples of a task
// are read whole, and so is what an encoder reads, which shares no context.
protocol::Reading prompt_of(const protocol::GenerateRequest& request, const model::Model& model) {
  protocol::Reading reading = request.reading;
  const model::ModelConfig& config = model.config();
  const bool given = reading.length > 0 || !(reading.input == protocol::Input{});
  const bool whole =
      config.encoder_layers > 0 || tasks::task_of_tokenizer(config.tokenizer) != nullptr;
  if (given || whole) return reading;
  const std::int64_t half = std::max<std::int64_t>(1, config.context / 2);
  reading.length = std::max(half, config.context - request.tokens);
  return reading;
}

Reply generate(const protocol::GenerateRequest& request, RequestContext& context) {
  const ModelPointer model = context.models().open(request.model, request.running, context);
  Texts texts = only_first(
      read_input(prompt_of(request, *model), {}, context, *model, DefaultInput::first_session));
  require_ids_alone(texts, "generate");
  analysis::GenerateOptions options;
  options.tokens = request.tokens;
  options.temperature = request.temperature;
  options.seed = static_cast<std::uint64_t>(request.reading.seed);
  options.backend = model::backend_named(request.running.backend);
  options.whole = request.whole, options.extend = request.extend;
  if (!request.head.empty()) options.head = analysis::parse_head(request.head);
  options.top = request.top;
  protocol::GenerateResult result = analysis::generate(*model, texts.items[0], options, context);
  result.head = request.head;
  texts.add_note(result.provenance.note);
  result.provenance =
      provenance_of(asked(request), context, {model}, &texts, result.provenance.ran);
  return reply_of(result);
}

// ---- tensors ------------------------------------------------------------------------------------

// (B, N) of all texts. Throws Error "bad_input" where they differ in length.
at::Tensor batch_of(const Texts& texts) {
  if (texts.shortest() != texts.longest()) {
    throw formats::bad_input("a batch has lists of one length, and these have from " +
                                 std::to_string(texts.shortest()) + " to " +
                                 std::to_string(texts.longest()) + " ids",
                             "input", "give lists of equal length, or one at a time");
  }
  std::vector<at::Tensor> rows;
  for (const analysis::Text& text : texts.items) rows.push_back(analysis::ids_tensor(text.ids));
  return at::cat(rows);
}

// The ids that capture read, which make what is written a reference for check.
constexpr const char* kInputIds = "input_ids";

bool wants_ids(const protocol::CaptureRequest& request) {
  return std::count(request.what.begin(), request.what.end(), kInputIds) > 0;
}

// What an inputs file, or the one sample of a task that is read, holds beside the ids.
void add_inputs(const protocol::Input& input, const Texts& texts, const at::Tensor& ids,
                const model::ModelConfig& config, model::ForwardOptions& options) {
  if (input.inputs.value_or("").empty()) {  // or the tensors came with the request
    const bool more = texts.items.size() == 1 && !texts.items[0].ids_alone();
    if (more) options = analysis::with_inputs_of(texts.items[0], options);
    return;
  }
  model::read_forward_inputs(formats::SafetensorsFile::open(*input.inputs), "", ids, config,
                             options);
}

model::CaptureSpec capture_spec(const protocol::CaptureRequest& request,
                                const model::ModelConfig& config) {
  model::CaptureSpec spec;
  if (!request.stack.empty()) {
    spec.stack = analysis::name_of(analysis::stack_named(request.stack, config), config);
  }
  spec.what = request.what;
  std::erase(spec.what, kInputIds);
  spec.layers = request.layers;
  spec.heads = request.heads;
  if (request.rows) spec.rows = model::Range{request.rows->begin, request.rows->end};
  if (request.cols) spec.columns = model::Range{request.cols->begin, request.cols->end};
  return spec;
}

// Which weights that are captured sum to less than 1; empty for none.
std::string note_of_sinks(const model::Captured& captured, const model::ModelConfig& config) {
  std::string names;
  for (const std::int64_t layer : config.attention.sink_layers) {
    const std::string name = "attn." + std::to_string(layer);
    if (captured.tensors.contains(name)) names += (names.empty() ? "" : ", ") + name;
  }
  if (names.empty()) return {};
  return std::string(protocol::kSinksBesideWeights) + ": without it those in " + names +
         " sum to less";
}

Reply capture(const protocol::CaptureRequest& request, RequestContext& context) {
  const ModelPointer model = context.models().open(request.model, request.running, context);
  Texts texts =
      read_input(request.reading, {}, context, *model, DefaultInput::first_session, Padding::keep);
  const at::Tensor ids = batch_of(texts);
  model::ForwardOptions options;
  options.backend = model::backend_named(request.running.backend);
  add_inputs(request.reading.input, texts, ids, model->config(), options);
  options.progress = [&context](double done) { context.progress(done, "reading the text"); };
  options.cancelled = [&context] { return context.cancelled(); };
  const model::CaptureSpec spec = capture_spec(request, model->config());
  const bool ids_alone = wants_ids(request) && spec.what.empty();
  const bool chosen = spec.layers || spec.heads || spec.rows || spec.columns;
  if (ids_alone && (chosen || !spec.stack.empty())) {
    throw formats::bad_usage("input_ids can be captured only as a whole", "what",
                             "leave stack, layers, heads, rows and cols out");
  }
  model::Captured captured;
  if (!ids_alone) captured = model::capture(model->decoder, ids, spec, options);
  protocol::CaptureResult result;
  result.model = model->report.name;
  std::vector<protocol::TensorRef> tensors;
  std::map<std::string, at::Tensor> named = captured.tensors;
  if (wants_ids(request)) named.emplace(kInputIds, ids);
  for (const auto& [name, tensor] : named) {
    result.names.push_back(name);
    tensors.push_back(analysis::tensor_ref(name, tensor));
    result.bytes += static_cast<std::int64_t>(tensors.back().size_bytes());
  }
  for (const std::string& note : captured.notes) {
    texts.add_note(note);
  }
  texts.add_note(note_of_sinks(captured, model->config()));
  result.provenance =
      provenance_of(asked(request), context, {model}, &texts, protocol::listed(captured.ran));
  return reply_of(result, std::move(tensors));
}

// As asked, or the one that lies in the model's folder.
std::string reference_of(const protocol::CheckRequest& request, const std::string& model) {
  if (!request.reference.empty()) return request.reference;
  const std::filesystem::path beside = std::filesystem::path(model) / "expected.safetensors";
  if (formats::is_file(beside)) return beside.string();
  throw formats::bad_usage(
      "check needs the path of a reference file, and there is no expected.safetensors in the "
      "model's folder",
      "reference");
}

Reply check(const protocol::CheckRequest& request, RequestContext& context) {
  model::CheckOptions options;
  options.dtype = model::dtype_to_compute_in(request.running.dtype, at::kCPU, request.model);
  options.tolerance = request.tolerance;
  if (options.tolerance && !(*options.tolerance > 0)) {
    throw formats::bad_usage("a tolerance must be above 0", "tolerance");
  }
  options.forward.backend = model::backend_named(request.running.backend);
  options.forward.progress = [&context](double done) { context.progress(done, "comparing"); };
  options.forward.cancelled = [&context] { return context.cancelled(); };
  const std::string name = request.model;
  const protocol::ModelReading reading = reading_of(name, request.running.set);
  const std::string reference = reference_of(request, reading.model);
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
  result.provenance =
      provenance_of(asked(request), context, {}, nullptr, protocol::listed(checked.ran));
  result.provenance.models = {name};
  result.provenance.dtype = checked.dtype;
  result.provenance.note = checked.tolerance_rule;
  if (!checked.weights_from.empty()) result.provenance.note += "; weights " + checked.weights_from;
  return reply_of(result);
}

// ---- cost ---------------------------------------------------------------------------------------

Reply cost(const protocol::CostRequest& request, RequestContext& context) {
  const protocol::ModelReading reading = reading_of(request.model, request.set);
  model::ModelConfig config =
      model::config_without_weights(reading.model, [&context] { return context.cancelled(); });
  // Settings may ask for what the weights do not have: nothing is run.
  model::set_fields(config, reading.settings);
  return reply_of(analysis::analyse_cost(config, protocol::name_of(reading), request.length));
}

}  // namespace

std::vector<Handler> models_handlers() {
  return {
      method("the bundled models", models_list),
      method("whether models are there", models_find),
      method("load report of a model", model_info),
      method("text to ids and back", tokenize),
      method("loss and guesses of every token", text_read),
      method("continues a text", generate),
      method("tensors of a forward pass", capture),
      method("compares a model with a reference file", check),
      method("FLOPs, multiply-accumulates, parameters, memory", cost),
  };
}

}  // namespace phasescope::worker
