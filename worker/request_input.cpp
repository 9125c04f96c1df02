#include "worker/request_input.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <span>
#include <utility>

#include "analysis/model_sides.h"
#include "analysis/tensors.h"
#include "formats/base64.h"
#include "formats/error.h"
#include "formats/limits.h"
#include "formats/tensors/safetensors.h"
#include "formats/utf8.h"
#include "model/checkpoints/constructed.h"
#include "model/checkpoints/model_files.h"
#include "model/checkpoints/tensor_io.h"
#include "model/forward_inputs.h"
#include "tasks/named_sample.h"
#include "tasks/vocabulary.h"
#include "training/task_data.h"
#include "worker/model_cache.h"

namespace phasescope::worker {
namespace {

using analysis::Texts;
using nlohmann::json;

IdLists rows_of(const std::vector<std::int64_t>& values, const std::vector<std::int64_t>& shape,
                const std::string& where) {
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    throw formats::bad_input(
        "input_ids must have the shape (B, N) but has " + formats::shape_text(shape), where);
  }
  IdLists lists;
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    lists.emplace_back(values.begin() + b * shape[1], values.begin() + (b + 1) * shape[1]);
  }
  return lists;
}

// Row b of (N), (1, N) or (B, N); empty where there is none.
std::vector<std::int64_t> row_of(const at::Tensor& values, std::int64_t b) {
  if (!values.defined()) return {};
  const at::Tensor rows = values.dim() == 1 ? values.unsqueeze(0) : values;
  return analysis::to_vector<std::int64_t>(rows[rows.size(0) == 1 ? 0 : b]);
}

bool counts_from_zero(const std::vector<std::int64_t>& values) {
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (values[n] != static_cast<std::int64_t>(n)) return false;
  }
  return true;
}

std::vector<std::int64_t> chosen(const std::vector<std::int64_t>& values,
                                 const std::vector<std::size_t>& places) {
  std::vector<std::int64_t> list;
  for (const std::size_t place : places) {
    if (place < values.size()) list.push_back(values[place]);
  }
  return list;
}

// What a file holds beside the ids, for the texts of its ids.
class FileInputs {
 public:
  FileInputs(const formats::SafetensorsFile& file, const at::Tensor& ids, const model::Model& model)
      : decoder_(model.decoder), config_(model.config()), encoding_(model.encoding()) {
    const model::ModelConfig& config = config_;
    model::read_forward_inputs(file, "", ids, config, options_);
    model::place_cells(encoding_, options_);
    if (options_.token_types.defined() && config.embedding.token_types == 0 &&
        options_.token_types.ne(0).any().item<bool>()) {
      throw formats::bad_input("this model has no token types", "token_type_ids",
                               "leave them out, or all 0");
    }
    if (options_.mask.defined() || options_.document_ids.defined()) {
      throw formats::bad_input("masks of pairs and documents are read by capture and check alone",
                               options_.mask.defined() ? "attention_mask" : "document_ids");
    }
    if (options_.layer_position_ids.defined()) {
      throw formats::bad_input(
          "positions that each layer draws are read by capture and check alone", "positions");
    }
    if (options_.key_mask.defined() && config.attention.padding != "hidden") {
      throw formats::bad_input(
          "this model's padding changes what its texts see, so that it cannot be "
          "left out",
          "attention_mask", "capture and check read it");
    }
    if (options_.decoder_ids.defined() && config.encoder_layers == 0) {
      throw formats::bad_input("this model has no decoder beside an encoder", "decoder_input_ids",
                               "leave them out");
    }
  }

  void add_to(Texts& texts) const {
    std::int64_t left_out = 0;
    for (std::size_t b = 0; b < texts.items.size(); ++b) {
      left_out += add_to(texts.items[b], static_cast<std::int64_t>(b));
    }
    if (left_out > 0) texts.add_note(std::to_string(left_out) + " tokens of padding are left out");
  }

 private:
  // Number of tokens that are left out.
  std::int64_t add_to(analysis::Text& text, std::int64_t b) const {
    const std::vector<std::size_t> kept = seen_tokens(text, b);
    std::vector<std::int64_t> positions = row_of(options_.position_ids, b);
    if (positions.empty() && !config_.positions_skip_padding) {
      for (std::size_t n = 0; n < text.ids.size(); ++n) {
        positions.push_back(static_cast<std::int64_t>(n));
      }
    }
    positions = chosen(positions, kept);
    const bool given = options_.position_ids.defined() && config_.positions.map != "identity";
    if (given || !counts_from_zero(positions)) text.position_ids = std::move(positions);
    if (config_.embedding.token_types > 0) {
      text.token_types = chosen(row_of(options_.token_types, b), kept);
    }
    text.decoder_ids = row_of(options_.decoder_ids, b);
    const auto left_out = static_cast<std::int64_t>(text.ids.size() - kept.size());
    text.ids = chosen(text.ids, kept);
    return left_out;
  }

  std::vector<std::size_t> seen_tokens(const analysis::Text& text, std::int64_t b) const {
    const std::vector<std::int64_t> mask = row_of(options_.key_mask, b);
    std::vector<std::size_t> kept;
    for (std::size_t n = 0; n < text.ids.size(); ++n) {
      if (mask.empty() || mask[n] != 0) kept.push_back(n);
    }
    if (kept.empty()) throw formats::bad_input("the text is padding alone", text.name);
    if (kept.size() < text.ids.size()) check_padding(kept, text.ids.size());
    return kept;
  }

  // Padding is left out where the scores of the rest stay what they are beside it.
  void check_padding(const std::vector<std::size_t>& kept, std::size_t tokens) const {
    const auto refuse = [](const std::string& why) {
      throw formats::bad_input(why, "attention_mask", "capture and check read it");
    };
    if (kept.back() - kept.front() + 1 != kept.size()) {
      refuse("padding within a text cannot be left out: the distances over it would change");
    }
    if (state_depends_on_length(kept.size(), tokens)) {
      refuse("padding cannot be left out where angles depend on the text's length");
    }
    if (kept.front() == 0) return;
    const bool reads_index = config_.attention.log_scale > 0 || option("form") == "conv";
    if (reads_index || config_.positions.map != "identity") {
      refuse("padding before a text cannot be left out where scores depend on a token's place");
    }
  }

  // Whether the first tokens have another state in a text of so many than in a longer one.
  bool state_depends_on_length(std::size_t few, std::size_t many) const {
    const at::NoGradGuard no_gradients;
    const auto kept = static_cast<std::int64_t>(few), all = static_cast<std::int64_t>(many);
    const at::ScalarType angles = at::promote_types(decoder_.dtype(), at::kFloat);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const model::Encoding& encoding = decoder_.encoding_of(layer);
      if (layer > 0 && &encoding == &decoder_.encoding_of(layer - 1)) continue;
      const bool local = &encoding != &encoding_;
      const auto state_of = [&](std::int64_t tokens) {
        model::StartContext context = analysis::start_context(decoder_, tokens, angles);
        if (local) context.shared = &decoder_.weights().local_encoding;
        return encoding.start(context).z;
      };
      const at::Tensor alone = state_of(kept);
      if (alone.defined() && !state_of(all).narrow(2, 0, kept).equal(alone)) return true;
    }
    return false;
  }

  std::string option(const char* name) const {
    const auto found = encoding_.options().find(name);
    return found != encoding_.options().end() && found->is_string() ? found->get<std::string>()
                                                                    : "";
  }

  const model::Decoder& decoder_;
  const model::ModelConfig& config_;
  const model::Encoding& encoding_;
  model::ForwardOptions options_;
};

Texts texts_of_file(const std::string& path, const model::Model& model, std::int64_t length,
                    Padding padding) {
  const auto file = formats::SafetensorsFile::open(path);
  const formats::TensorEntry* entry = file.find("input_ids");
  if (entry == nullptr) throw formats::bad_input("the file has no tensor input_ids", path);
  const at::Tensor ids = model::read_tensor(file, *entry);
  if (ids.is_floating_point()) {
    throw formats::bad_input("input_ids must hold whole numbers, not floating point", path);
  }
  Texts texts = analysis::texts_of_ids(
      rows_of(analysis::to_vector<std::int64_t>(ids), ids.sizes().vec(), path),
      model.config().vocab_size, length, path);
  if (padding == Padding::keep) return texts;
  FileInputs(file, length > 0 ? ids.slice(1, 0, length) : ids, model).add_to(texts);
  return texts;
}

std::string name_of(const protocol::Input& input, const char* fallback) {
  return input.name.empty() ? fallback : input.name;
}

const formats::Tokenizer& tokenizer_of(const model::Model& model) {
  if (model.tokenizer) return *model.tokenizer;
  throw formats::bad_input(
      "the model has no tokenizer, so it cannot read text", model.report.path,
      model.report.tokenizer_fault.empty() ? "give ids instead" : model.report.tokenizer_fault);
}

// Cut to `asked` tokens, or where that is 0 to the trained length, which is said.
Texts through_tokenizer(const std::vector<formats::NamedText>& given, const model::Model& model,
                        std::int64_t asked) {
  const formats::Tokenizer& tokenizer = tokenizer_of(model);
  const std::int64_t length = asked > 0 ? asked : model.config().context;
  Texts texts = analysis::tokenised(given, tokenizer, length);
  const bool cut = !texts.note.empty();
  if (cut && asked == 0) texts.note += ", the trained length (more when asked for)";
  return texts;
}

Texts of_corpus(const json& corpus, const model::Model& model, std::int64_t asked) {
  const auto tokens = analysis::counted_by(tokenizer_of(model));
  const std::int64_t length = asked > 0 ? asked : model.config().context;
  const analysis::Collection read = analysis::corpus_texts(corpus, tokens, length);
  Texts texts = through_tokenizer(read.texts, model, asked);
  texts.add_note(read.note);
  return texts;
}

// What a model reads of samples of a task: of trees and images with the places of their tokens, for
// encodings that know of them.
Texts texts_of_samples(const tasks::Task& task, std::span<const tasks::Sample> samples,
                       const model::Model& model, std::int64_t length, const std::string& name) {
  const std::int64_t columns = model.encoding().options().value("columns", std::int64_t{0});
  std::vector<training::Batch> batches;
  IdLists read;
  for (const tasks::Sample& sample : samples) {
    batches.push_back(training::batch_of(task, {&sample, 1}, training::Counted::in_metric,
                                         model.encoding().info().places));
    read.push_back(batches.back().inputs);
  }
  Texts texts = analysis::texts_of_ids(read, model.config().vocab_size, length, name);
  for (std::size_t n = 0; n < batches.size(); ++n) {
    analysis::Text& text = texts.items[n];
    training::Batch& batch = batches[n];
    text.decoder_ids = std::move(batch.decoder_ids);
    text.position_ids = std::move(batch.positions);
    text.decoder_position_ids = std::move(batch.decoder_positions);
    text.patches = std::move(batch.pieces);
    for (std::size_t at = 0; at + 1 < batch.cells.size(); at += 2) {
      text.position_ids.push_back(batch.cells[at] * columns + batch.cells[at + 1]);
    }
    // The text may have been cut.
    if (!text.position_ids.empty()) text.position_ids.resize(text.ids.size());
    text.patches.resize(text.ids.size() * static_cast<std::size_t>(batch.piece));
  }
  return texts;
}

// A sample that was asked for by name.
Texts text_of_sample(const std::string& words, const model::Model& model, std::int64_t length) {
  const tasks::NamedSample named = tasks::named_sample(words);
  const tasks::TaskInfo& info = named.task->info();
  if (!tasks::has_own_ids(*named.task)) {
    return through_tokenizer({{"sample " + words, named.sample.prompt}}, model, length);
  }
  const bool two = info.form == tasks::Form::encoder_decoder;
  const bool image = info.form == tasks::Form::image;
  const model::ModelConfig& config = model.config();
  if (two != (config.encoder_layers > 0)) {
    throw formats::bad_input("a sample of " + info.key +
                                 (two ? " is for an encoder-decoder" : " is for one stack") +
                                 ", which this model is not",
                             "input.sample");
  }
  const std::int64_t numbers = info.image.side * info.image.side * info.image.channels;
  if (config.patches.side == 0 ? image : !image || config.patches.numbers() != numbers) {
    throw formats::bad_input("a sample of " + info.key + (image ? " is" : " is no") +
                                 " image in pieces as this model reads them",
                             "input.sample");
  }
  Texts texts = texts_of_samples(*named.task, {&named.sample, 1}, model, length, "sample " + words);
  if (tasks::task_of_tokenizer(config.tokenizer) != named.task) {
    texts.add_note("the ids are symbols of the task " + info.key +
                   ", which this model was not trained on");
  }
  return texts;
}

// Ids are read whole, but for a length that is asked for.
Texts given_input(const protocol::Input& input, RequestContext& context, const model::Model& model,
                  std::int64_t asked, Padding padding) {
  const std::int64_t vocabulary = model.config().vocab_size;
  if (const auto text = analysis::given_text(input)) {
    return through_tokenizer({*text}, model, asked);
  }
  if (input.sample) return text_of_sample(*input.sample, model, asked);
  if (!input.corpus.is_null()) return of_corpus(input.corpus, model, asked);
  if (!input.ids.is_null()) {
    return analysis::texts_of_ids(id_lists(input), vocabulary, asked, name_of(input, "ids"));
  }
  if (const auto* sent = protocol::find_tensor(context.tensors(), "input_ids")) {
    const auto values = sent->values<std::int64_t>();
    return analysis::texts_of_ids(rows_of({values.begin(), values.end()}, sent->shape, "input_ids"),
                                  vocabulary, asked);
  }
  if (input.inputs) return texts_of_file(*input.inputs, model, asked, padding);
  throw formats::bad_usage("the input has none of text, prompt, ids, inputs, sample, corpus",
                           "input");
}

// What a model of a task reads where nothing is given: samples of the task, at the longest length
// that it was trained at.
Texts samples_of(const tasks::Task& task, const model::Model& model, std::int64_t count,
                 const protocol::Reading& reading) {
  const json trained = model.config().tokenizer.value("trained", json());
  tasks::Ids length = tasks::shown_length(task);
  if (trained.is_array() && trained.size() == 2 && trained[1].is_number_integer()) {
    length.assign(length.size(), trained[1].get<std::int64_t>());
  }
  std::vector<tasks::Sample> samples;
  for (std::int64_t n = 0; n < count; ++n) {
    samples.push_back(
        task.draw(static_cast<std::uint64_t>(reading.seed), length, static_cast<std::uint64_t>(n)));
  }
  Texts texts =
      texts_of_samples(task, samples, model, reading.length, "samples of " + task.info().key);
  texts.add_note(std::to_string(count) + (count > 1 ? " samples of " : " sample of ") +
                 task.info().key + " (a sample named TASK:SEED is another)");
  return texts;
}

// No memory holds the scores of longer ones; drawn texts are as long as they are asked to be.
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 24;

Texts drawn_ids(const model::Model& model, std::int64_t count, const protocol::Reading& reading) {
  const std::int64_t length = reading.length > 0 ? reading.length : model.config().context;
  if (length > kMostDrawn) {
    throw formats::bad_usage("a text of " + std::to_string(length) + " tokens is not drawn",
                             "length", "give " + std::to_string(kMostDrawn) + " at most");
  }
  return analysis::random_texts(count, length, analysis::tokens_with_logits(model.config()),
                                static_cast<std::uint64_t>(reading.seed));
}

// "a:b:step", the numbers of the texts that are read.
struct Choice {
  std::size_t begin = 0, end = 0, step = 1;
};
Choice choice_of(const std::string& words) {
  static const std::regex form("([0-9]{1,9}):([0-9]{1,9})(?::([0-9]{1,9}))?");
  std::smatch parts;
  if (!std::regex_match(words, parts, form)) {
    throw formats::bad_usage("'" + words + "' chooses no texts", "texts", "write it as a:b:step");
  }
  const auto number = [&](std::size_t n) { return std::stoul(parts[n].str()); };
  const Choice choice{number(1), number(2), parts[3].matched ? number(3) : 1};
  if (choice.begin < choice.end && choice.step > 0) return choice;
  throw formats::bad_usage("'" + words + "' chooses no texts", "texts",
                           "a must be below b, and the step above 0");
}

}  // namespace

IdLists id_lists(const protocol::Input& input) {
  const json& ids = input.ids;
  const auto refuse = [&](const std::string& found) {
    throw formats::bad_input("expected a list of token ids, or lists of them, but found " + found,
                             name_of(input, "ids"));
  };
  if (!ids.is_array()) refuse(formats::shortened(ids.dump()));
  const bool nested = !ids.empty() && ids[0].is_array();
  IdLists lists;
  for (const json& list : nested ? ids : json::array({ids})) {
    if (!list.is_array()) refuse(formats::shortened(list.dump()) + " among lists");
    std::vector<std::int64_t>& out = lists.emplace_back();
    for (const json& id : list) {
      const bool fits =
          !id.is_number_unsigned() || std::in_range<std::int64_t>(id.get<std::uint64_t>());
      if (!id.is_number_integer() || !fits) refuse(formats::shortened(id.dump()));
      out.push_back(id.get<std::int64_t>());
    }
  }
  return lists;
}

Texts read_input(const protocol::Reading& reading, const protocol::Corpus& corpus,
                 RequestContext& context, const model::Model& model, DefaultInput fallback,
                 Padding padding) {
  const std::int64_t asked = reading.length;
  if (!(reading.input == protocol::Input{})) {
    return given_input(reading.input, context, model, asked, padding);
  }
  const bool one_text = model.encoding().info().of_one_text;
  if (one_text && corpus.asked) {
    throw formats::Error("not_applicable",
                         "attention that was imported is that of one text, whatever is read",
                         "corpus", "leave it out");
  }
  const bool many = !one_text && (fallback == DefaultInput::validation_texts || corpus.asked);
  const bool named = corpus.asked && corpus.form() != json(true);
  if (const tasks::Task* own = tasks::task_of_tokenizer(model.config().tokenizer); own && !named) {
    return samples_of(*own, model, many ? analysis::kRandomTexts : 1, reading);
  }
  if (!model.tokenizer && !named) {
    Texts texts = drawn_ids(model, many ? analysis::kRandomTexts : 1, reading);
    if (one_text) texts.note.clear();  // of these ids nothing is read but their number
    return texts;
  }
  if (!many) return through_tokenizer({analysis::first_session_text()}, model, asked);
  return of_corpus(corpus.asked ? corpus.form() : json(true), model, asked);
}

void require_ids_alone(const Texts& texts, const std::string& what) {
  for (const analysis::Text& text : texts.items) {
    if (text.ids_alone()) continue;
    const char* more = !text.position_ids.empty()  ? "position_ids"
                       : !text.token_types.empty() ? "token_type_ids"
                       : !text.patches.empty()     ? "patches"
                                                   : "decoder_input_ids";
    throw formats::bad_input(what + " reads token ids alone, and this input has more", more,
                             "give the ids without it");
  }
}

Texts only_first(Texts texts) {
  if (texts.items.size() < 2) return texts;
  note_first(texts);
  texts.items.resize(1);
  texts.corpus = false;
  return texts;
}

void note_first(Texts& texts, const std::string& part) {
  if (texts.items.size() < 2) return;
  texts.add_note((part.empty() ? "" : part + ": ") + "only the first of " +
                 std::to_string(texts.items.size()) + " texts is read");
}

protocol::Provenance provenance_of(const Asked& asked, RequestContext& context,
                                   const std::vector<std::shared_ptr<const model::Model>>& models,
                                   const Texts* texts) {
  protocol::Provenance out;
  out.command = asked.command;
  for (const auto& model : models) {
    model::check_unchanged(model->decoder.weights());
    out.models.push_back(model->report.name);
    out.model_hashes.push_back(model->report.sha256);
  }
  if (!models.empty()) out.dtype = model::name_of_dtype(models[0]->decoder.dtype());
  if (texts != nullptr) out.text_hash = texts->hash(), out.note = texts->note;
  for (const auto& model : models) {
    if (model->report.weights_from.empty()) continue;
    out.note += (out.note.empty() ? "" : "; ") + ("weights of " + model->report.name + " ") +
                model->report.weights_from;
  }
  out.version = context.facts().value("version", "");
  out.device = models.empty() ? context.settings().device : models[0]->decoder.device().str();
  out.seed = asked.seed;
  return out;
}

protocol::Provenance provenance_of(const Asked& asked, RequestContext& context,
                                   const std::vector<std::shared_ptr<const model::Model>>& models,
                                   const Texts* texts, std::vector<protocol::Ran> ran) {
  protocol::Provenance out = provenance_of(asked, context, models, texts);
  out.set_ran(std::move(ran));
  return out;
}

Texts question_texts(const protocol::QuestionTexts& reading, RequestContext& context,
                     const model::Model& model) {
  const Choice choice = choice_of(reading.texts);
  Texts texts = read_input(reading, reading.corpus, context, model, DefaultInput::validation_texts);
  require_ids_alone(texts, "a question about distances");
  if (!reading.input.empty()) return texts;
  std::vector<analysis::Text> chosen;
  for (std::size_t n = choice.begin; n < std::min(choice.end, texts.items.size());
       n += choice.step) {
    chosen.push_back(std::move(texts.items[n]));
  }
  if (chosen.empty()) {
    throw formats::bad_usage("the corpus has " + std::to_string(texts.items.size()) +
                                 " texts, and none of them is chosen",
                             "texts");
  }
  if (chosen.size() < texts.items.size()) {
    texts.add_note("of the " + std::to_string(texts.items.size()) + " texts " +
                   std::to_string(chosen.size()) + " are read (texts " + reading.texts + ")");
  }
  texts.corpus = chosen.size() > 1;
  texts.items = std::move(chosen);
  return texts;
}

std::vector<std::string> names_of(const Texts& texts) {
  std::vector<std::string> names;
  for (const analysis::Text& text : texts.items) names.push_back(text.name);
  return names;
}

void require_models(const std::vector<std::string>& names) {
  if (names.empty()) throw formats::bad_usage("the request names no model", "model");
  for (const std::string& name : names) {
    const std::string model = reading_of(name, {}).model;
    if (model::find_constructed(model) == nullptr) model::find_model_files(model);
  }
}

}  // namespace phasescope::worker
