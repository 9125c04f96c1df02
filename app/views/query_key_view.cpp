#include "app/views/query_key_view.h"

#include <algorithm>

#include "app/outputs/result_tables.h"
#include "app/views/text_view.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using widgets::PlotSpec;

constexpr const char* kSelectedPair = "the selected pair";
constexpr const char* kEveryToken = "every token";

// The pair that is selected, as far as it is in the text; else the last token and the one before.
std::pair<std::int64_t, std::int64_t> pair_of(const Session& session, const QueryKey& values) {
  const Selection& at = session.selection;
  const std::int64_t last = std::max<std::int64_t>(0, values.tokens - 1);
  const std::int64_t last_key = std::max<std::int64_t>(0, values.keys - 1);
  const std::int64_t query = std::min(at.query.value_or(last), last);
  return {query, std::min(at.key.value_or(std::max<std::int64_t>(0, query - 1)), last_key)};
}

}  // namespace

std::string QueryKeyView::help_text() const {
  return "Queries and keys of the selected head, channel by channel, before and after what the "
         "encoding does to them (a rotation, say). Of the selected pair: q, k and their products, "
         "whose sum is the content of the score before it is scaled. Every token: tokens down, "
         "channels across. A bias that is added to the score is not in q and k.";
}

// A mean of heads has no q and k.
void QueryKeyView::ask(ViewContext& context) {
  const std::string model = selected_model(context.session());
  const Selection& at = context.session().selection;
  if (model.empty() || at.head < 0) return;
  const TextInput text = context.text_for(model);
  protocol::CaptureRequest request{.model = model};
  request.what = {"q", "k", "rotated"};
  // Without a word it is of all stacks.
  if (context.has_stacks(model)) request.stack = at.stack.empty() ? "dec" : at.stack;
  request.layers = std::vector{at.layer}, request.heads = std::vector{at.head};
  set_text(request.reading, text);
  context.requests.ask(context.requests.of(kQueryKey, model), request, text.words);
  ask_for_tokens(context);
}

const QueryKeyView::CaptureAnswer* QueryKeyView::answer_of(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  return model.empty() ? nullptr : context.requests.of(kQueryKey, model).answer();
}

std::string QueryKeyView::command_line(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return "";
  return command_of<protocol::CaptureRequest>({context.requests.of(kQueryKey, model).asked()});
}

WhatRan QueryKeyView::kernels(const ViewContext& context) const {
  const auto* answer = answer_of(context);
  return answer ? what_ran(answer->result.provenance) : WhatRan{};
}

// Values of the head that was asked for then, which need not be the one that is selected now.
QueryKey QueryKeyView::values_of(const ViewContext& context, const CaptureAnswer& answer) const {
  const auto request = protocol::request_of<protocol::CaptureRequest>(answer.asked.params);
  const auto* report = context.info(request.model);
  if (!report || !request.layers || !request.heads) return {};
  return query_key_of(answer.tensors, request.model, request.stack, request.layers->front(),
                      request.heads->front(), report->model.heads);
}

std::vector<PlotSpec> QueryKeyView::plots_of(const ViewContext& context,
                                             const QueryKey& values) const {
  if (values.tokens < 1) return {};
  const ModelNames names = names_of(context.session());
  if (context.state<QueryKeyState>().figure == kEveryToken) return channel_maps(values, names);
  const auto [query, key] = pair_of(context.session(), values);
  return pair_channel_figures(values, query, key, names);
}

std::vector<Saved> QueryKeyView::saved(ViewContext& context) {
  const auto* answer = answer_of(context);
  if (!answer) return {};
  Output output{.result = protocol::to_json_form(answer->result),
                .provenance = provenance_of(answer->result)};
  output.figures = plots_of(context, values_of(context, *answer));
  return {{"", std::move(output), command_of<protocol::CaptureRequest>({answer->asked})}};
}

void QueryKeyView::draw_content(ViewContext& context) {
  fit_to_text(context);
  auto state = context.state<QueryKeyState>();
  if (draw_choice("##figure", state.figure, {kSelectedPair, kEveryToken})) {
    context.set_state("Show other channels", state);
  }
  draw_tools(context);
  const std::string model = selected_model(context.session());
  if (model.empty()) {
    return widgets::draw_empty("q and k of the selected head will be here. Tick a model.");
  }
  if (context.session().selection.head < 0) {
    return widgets::draw_empty("A mean of heads has no q and k: select one head.");
  }
  auto& question = context.requests.of(kQueryKey, model);
  draw_question(context, question, short_name(context.session(), model));
  const auto* answer = question.answer();
  if (!answer) return;
  const QueryKey& values =
      values_.get(serials_of(answer), [&] { return values_of(context, *answer); });
  const auto [query, key] = pair_of(context.session(), values);
  const std::string what =
      state.figure == kEveryToken ? "" : std::to_string(query) + "," + std::to_string(key);
  const auto& plots = plots_.get(names_key(context) + serials_of(answer) + state.figure + what,
                                 [&] { return plots_of(context, values); });
  if (plots.empty()) return widgets::draw_empty("This head has no q and k that could be read.");
  grid_.draw(plots, plots_.version(), {.old = !question.answers_now()},
             [&](const PlotSpec& plot, widgets::PlotDraw options) {
               draw_figure(context, plot, std::move(options),
                           static_cast<std::size_t>(context.session().selection.model));
             });
}

}  // namespace phasescope::app
