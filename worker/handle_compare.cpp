#include "worker/handle_compare.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "analysis/compare.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "formats/text_input.h"
#include "protocol/messages/compare.h"
#include "worker/analysis_texts.h"

namespace phasescope::worker {
namespace {

using analysis::Texts;
using protocol::Reply;

// JOB/checkpoints stands for every checkpoint in it, by its step.
std::vector<std::string> checkpoints_in(const std::string& name) {
  std::error_code error;
  if (std::filesystem::path(name).filename() != "checkpoints" ||
      !std::filesystem::is_directory(name, error)) {
    return {name};
  }
  std::map<long long, std::string> by_step;
  for (const auto& entry : std::filesystem::directory_iterator(name)) {
    const std::string folder = entry.path().filename().string();
    const std::string step = folder.substr(0, 5) == "step-" ? folder.substr(5) : "";
    const bool number =
        !step.empty() && step.size() < 18 && step.find_first_not_of("0123456789") == step.npos;
    if (number && entry.is_directory()) by_step[std::stoll(step)] = entry.path().string();
  }
  if (by_step.empty()) throw formats::bad_input("there are no checkpoints in it", name);
  std::vector<std::string> names;
  for (const auto& [step, folder] : by_step) names.push_back(folder);
  return names;
}

// With all models in `models`, and a length that all of them were trained for.
protocol::CompareRequest completed(protocol::CompareRequest request, RequestContext& context) {
  if (request.models.empty() && !request.a.empty() && !request.b.empty()) {
    request.models = {request.a, request.b};
  }
  request.a.clear(), request.b.clear();
  std::vector<std::string> names;
  for (const std::string& name : request.models) {
    for (std::string& one : checkpoints_in(name)) names.push_back(std::move(one));
  }
  request.models = std::move(names);
  const bool texts = !request.other.empty();
  if (request.models.size() < (texts ? 1 : 2)) {
    throw formats::bad_usage("compare takes two models at least, or one and a second text",
                             "models");
  }
  if (texts && request.models.size() > 1) {
    throw formats::bad_usage("two texts are read by one model", "other",
                             "name one model, or leave the second text out");
  }
  if (texts && request.reading.corpus.asked) {
    throw formats::bad_usage("a second text stands beside one text, not beside a corpus", "other");
  }
  if (!text_may_be_cut(request.reading)) return request;
  std::int64_t& length = request.reading.length;
  for (const std::string& name : request.models) {
    const std::int64_t trained =
        context.models().open(name, request.running, context)->config().context;
    length = length == 0 ? trained : std::min(length, trained);
  }
  return request;
}

// With the models' names where their words differ.
std::vector<protocol::Ran> ran_of_both(const std::string& first, std::vector<protocol::Ran> a,
                                       const std::string& second, std::vector<protocol::Ran> b) {
  const bool differ = protocol::words_of(a) != protocol::words_of(b);
  if (!differ) return a;
  for (protocol::Ran& one : a) {
    if (!one.model) one.model = first;
  }
  for (protocol::Ran& one : b) one.model = second;
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void cut_to(Texts& texts, std::size_t tokens) {
  analysis::Text& text = texts.items[0];
  text.ids.resize(tokens);
  if (!text.spans.empty()) text.spans.resize(tokens);
}

// The second text of a request, and both cut to the shorter one.
Texts second_text(protocol::CompareRequest request, ModelTexts& in, RequestContext& context) {
  in.texts = only_first(std::move(in.texts));
  require_ids_alone(in.texts, "compare with a second text");
  request.reading.input = {.text = formats::read_text_file(request.other), .name = request.other};
  Texts other = read_input(request.reading, {}, context, *in.model, DefaultInput::first_session);
  const std::size_t tokens = std::min(in.texts.items[0].ids.size(), other.items[0].ids.size());
  in.texts.add_note("beside it the first " + std::to_string(tokens) + " tokens of " +
                    request.other + " are read: row by row, not token by token");
  cut_to(in.texts, tokens), cut_to(other, tokens);
  return other;
}

protocol::ComparePair pair_of(protocol::CompareResult&& result) {
  return {.a = std::move(result.a),
          .b = std::move(result.b),
          .stack = std::move(result.stack),
          .other_stack = std::move(result.other_stack),
          .loss = std::move(result.loss),
          .loss_difference = result.loss_difference,
          .positions = std::move(result.positions),
          .heads = std::move(result.heads),
          .matches = std::move(result.matches),
          .note = std::move(result.provenance.note)};
}

// Why rows of the heads of two models cannot be laid over each other, and what can.
formats::Error of_other_tokens(const std::string& a, const ModelTexts& first, const std::string& b,
                               const ModelTexts& second) {
  constexpr const char* kCode = "not_applicable";
  for (const auto& [name, one] : {std::pair(&a, &first), std::pair(&b, &second)}) {
    if (one->model->tokenizer) continue;
    return {kCode,
            *name + " has no tokenizer and reads drawn ids: " + a + " and " + b +
                " have read nothing that could be compared",
            "input", "give ids that both have"};
  }
  const auto tokens = [](const ModelTexts& one) {
    return std::to_string(one.texts.items.at(0).ids.size()) + " tokens";
  };
  return {kCode,
          a + " and " + b + " read the text as different tokens (" + tokens(first) + ", and " +
              tokens(second) +
              " of the other kind): neither heads nor losses of tokens can be "
              "laid over each other",
          "input",
          "what can be compared is the loss of the same bytes: Extrapolation in the window, eval "
          "or duel on the command line"};
}

// What is compared with the first model: another one, or another text.
struct Compared {
  std::string name;
  ModelPointer model;
  Passes passes;
};

std::vector<Compared> all_compared(const protocol::CompareRequest& request, ModelTexts& first,
                                   RequestContext& context) {
  const std::string& backend = request.running.backend;
  std::vector<Compared> all{{request.models[0], first.model, {}}};
  if (!request.other.empty()) {
    const Texts other = second_text(request, first, context);
    all.push_back({request.models[0] + " on " + request.other, first.model,
                   passes_of(first.model, other, backend, context)});
  }
  for (std::size_t n = 1; n < request.models.size(); ++n) {
    const ModelTexts in =
        open_with_texts(request, request.models[n], context, DefaultInput::first_session);
    if (first.texts.hash() != in.texts.hash()) {
      throw of_other_tokens(request.models[0], first, request.models[n], in);
    }
    all.push_back({request.models[n], in.model, passes_of(in.model, in.texts, backend, context)});
  }
  all[0].passes = passes_of(first.model, first.texts, backend, context);
  return all;
}

void require_stacks(const std::string& stack, const std::vector<Compared>& all) {
  const auto several = [](const Compared& one) { return one.model->config().encoder_layers > 0; };
  if (stack.empty() || std::ranges::any_of(all, several)) return;
  throw formats::bad_usage(
      "\"" + stack + "\" is a part of an encoder-decoder, and no model here is one", "stack",
      "leave it out");
}

Reply compare(const protocol::CompareRequest& given, RequestContext& context) {
  const protocol::CompareRequest request = completed(given, context);
  ModelTexts first =
      open_with_texts(request, request.models[0], context, DefaultInput::first_session);
  const std::vector<Compared> all = all_compared(request, first, context);
  require_stacks(request.stack, all);
  const analysis::CompareOptions options{.match = request.match,
                                         .seed = static_cast<std::uint64_t>(request.reading.seed),
                                         .stack = request.stack};
  protocol::CompareResult result;
  std::vector<protocol::TensorRef> tensors;
  for (std::size_t n = 1; n < all.size(); ++n) {
    const auto share = static_cast<double>(all.size() - 1);
    protocol::PartOfProgress part(context, static_cast<double>(n - 1) / share,
                                  static_cast<double>(n) / share);
    at::Tensor between;
    protocol::CompareResult one =
        analysis::analyse_compare(all[0].passes, all[n].passes, part, options, &between);
    if (!request.other.empty()) one.b = all[n].name;
    if (between.defined()) {
      const std::string name = n == 1 ? "js_between" : "js_between_" + std::to_string(n);
      tensors.push_back(analysis::tensor_ref(name, between));
    }
    first.texts.add_note(one.provenance.note);
    if (n == 1) {
      result = std::move(one);
    } else {
      result.others.push_back(pair_of(std::move(one)));
    }
  }
  std::vector<protocol::Ran> ran = ran_of(all[0].passes);
  std::vector<ModelPointer> models{first.model};
  for (std::size_t n = 1; n < all.size(); ++n) {
    ran = ran_of_both(request.models[0], std::move(ran), all[n].name, ran_of(all[n].passes));
    if (request.other.empty()) models.push_back(all[n].model);
  }
  result.provenance = provenance_of(asked(request), context, models, &first.texts, std::move(ran));
  return reply_of(result, std::move(tensors));
}

}  // namespace

std::vector<Handler> compare_handlers() {
  return {
      method("the same text through several models, or two texts through one", compare),
  };
}

}  // namespace phasescope::worker
