#include "app/views/text_view.h"

#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/figures/figures.h"
#include "app/views/plot_grid.h"
#include "widgets/plot_draw.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::TextResult;
using protocol::TokenReading;

constexpr double kHighLoss = 6, kHighDifference = 2;
// Lines of what was expected of a token, and the least of the text, however small the view is.
constexpr float kLinesOfGuesses = 6.6F, kLeastLines = 11;
// Lines of the text that are to be in sight below what is said of it.
constexpr float kLinesInSight = 5;
constexpr float kWidthOfGuesses = 8.5F;     // font sizes, of one model's
constexpr std::size_t kWholeHeadlines = 3;  // more models share lines
constexpr std::size_t kMostKept = 8;        // texts to go back to
// What the palette finds has at most so many places, and so many tokens at either side of one.
constexpr std::size_t kMostFound = 30;
constexpr int kTokensAround = 5;

// The signs that stand for whitespace in a token's text.
constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
    {"\u00b7", " "}, {"\u21b5", "\n"}, {"\u23ce", "\n"}, {"\u2192", "\t"}};

std::string without_signs(std::string text) {
  for (const auto& [sign, plain] : kSigns) {
    for (std::size_t at = text.find(sign); at != std::string::npos;
         at = text.find(sign, at + plain.size())) {
      text.replace(at, sign.size(), plain);
    }
  }
  return text;
}

// A line is ended in the strip by the sign alone.
std::string shown_text(const TokenReading& token, const TextState& state) {
  if (state.ids) return std::to_string(token.id) + " ";
  if (state.spaces) return token.text;
  std::string text = without_signs(token.text);
  return text.find('\n') == std::string::npos ? text : token.text;
}

// `less`: another reading of the same tokens, whose loss is taken from each.
std::vector<widgets::StripToken> strip_tokens(const TextResult& result, const TextState& state,
                                              const TextResult* less) {
  std::vector<widgets::StripToken> tokens;
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    std::optional<double> loss = result.tokens[i].loss;
    if (less && loss) {
      const auto& other = less->tokens[i].loss;
      loss = other ? std::optional(*loss - *other) : std::nullopt;
    }
    tokens.push_back({shown_text(result.tokens[i], state), loss});
  }
  return tokens;
}

bool same_tokens(const TextResult& a, const TextResult& b) {
  return std::ranges::equal(a.tokens, b.tokens, [](const TokenReading& one, const auto& other) {
    return one.id == other.id && one.text == other.text;
  });
}

struct Measure {
  std::string number, unit;
  std::string words() const { return number + " " + unit; }
};

// What a headline says of a reading: its losses, as far as there are any, and its length.
std::vector<Measure> measures_of(const TextResult& result) {
  std::vector<Measure> measures;
  if (std::isfinite(result.bits_per_byte)) {
    measures.push_back({widgets::short_number(result.bits_per_byte), "bits/byte"});
  }
  if (std::isfinite(result.loss)) {
    measures.push_back({widgets::short_number(result.loss), "nats/token"});
  }
  measures.push_back({std::to_string(result.tokens.size()), "tokens"});
  return measures;
}

std::string headline(const std::vector<Measure>& measures) {
  std::string words;
  for (const Measure& measure : measures) words += (words.empty() ? "" : ", ") + measure.words();
  return words;
}

// A number that is cut is another one: a long text gives way to it.
void draw_guess(const protocol::Guess& guess, bool hit) {
  const float width = ImGui::GetContentRegionAvail().x;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float line = ImGui::GetTextLineHeight(), begin = ImGui::GetCursorPosX();
  const ImVec4 color = hit ? widgets::palette().good : widgets::palette().accent;
  ImGui::GetWindowDrawList()->AddRectFilled(
      at, {at.x + width * static_cast<float>(std::clamp(guess.probability, 0.0, 1.0)), at.y + line},
      ImGui::ColorConvertFloat4ToU32({color.x, color.y, color.z, 0.22F}), 2);
  char words[16];
  std::snprintf(words, sizeof words, "%.1f %%", 100 * guess.probability);
  const float number = ImGui::CalcTextSize(words).x;
  const float room = std::max(0.0F, width - number - ImGui::GetStyle().ItemInnerSpacing.x);
  ImGui::PushClipRect(at, {at.x + room, at.y + line}, /*intersect_with_current_clip_rect=*/true);
  ImGui::PushFont(widgets::fonts().mono, 0.0F);
  ImGui::TextUnformatted(guess.text.c_str());
  ImGui::PopFont();
  ImGui::PopClipRect();
  if (ImGui::GetItemRectSize().x > room) tooltip(guess.text);
  ImGui::SameLine();
  ImGui::SetCursorPosX(begin + std::max(0.0F, width - number));
  ImGui::TextColored(widgets::palette().quiet, "%s", words);
}

// Of `text` alone: the tokens that are known may be of the text before, whose words would stand
// beside numbers of this one.
std::string token_in(const ViewContext& context, std::size_t model, std::int64_t place,
                     const SharedText& text) {
  const auto* answer = context.of(kText, model).answer();
  if (!answer || answer->asked.text.serial() != text.serial()) return "";
  const auto& tokens = answer->result.tokens;
  if (place < 0 || place >= static_cast<std::int64_t>(tokens.size())) return "";
  return tokens[static_cast<std::size_t>(place)].text;
}

}  // namespace

protocol::TextRequest text_request(const std::string& model, const TextInput& text) {
  protocol::TextRequest request{.model = model};
  set_text(request.reading, text);
  return request;
}

void ask_for_tokens(ViewContext& context) { ask_of_all(context, kText, text_request); }

std::string token_text(const ViewContext& context, std::size_t model, std::int64_t place) {
  if (model >= context.models()) return "";
  return token_in(context, model, place, context.text_for(context.session().models[model]).words);
}

std::string token_text(const ViewContext& context, std::size_t model, std::int64_t place,
                       const Asked& about) {
  return model < context.models() ? token_in(context, model, place, about.text) : "";
}

bool same_token(const ViewContext& context, std::size_t a, std::size_t b, std::int64_t place) {
  const std::string one = token_text(context, a, place), other = token_text(context, b, place);
  return one.empty() || other.empty() || one == other;
}

widgets::Hover marks_on(const ViewContext& context, widgets::Hover marks, std::size_t model) {
  const std::int64_t of = marks.model.value_or(context.session().selection.model);
  const auto owner = static_cast<std::size_t>(std::max<std::int64_t>(0, of));
  for (std::optional<std::int64_t>* place : {&marks.query, &marks.key, &marks.token}) {
    if (*place && !same_token(context, owner, model, **place)) place->reset();
  }
  return marks;
}

std::vector<std::pair<int, int>> tokens_with(const std::vector<TokenReading>& tokens,
                                             const std::string& words) {
  std::vector<std::pair<int, int>> found;
  if (words.empty()) return found;
  std::string text;
  std::vector<std::size_t> begins;
  for (const TokenReading& token : tokens) {
    begins.push_back(text.size());
    text += without_signs(token.text);
  }
  const auto token_at = [&](std::size_t place) {
    return static_cast<int>(std::ranges::upper_bound(begins, place) - begins.begin()) - 1;
  };
  for (std::size_t at = text.find(words); at != std::string::npos;
       at = text.find(words, at + words.size())) {
    found.emplace_back(token_at(at), token_at(at + words.size() - 1) + 1);
  }
  return found;
}

std::vector<std::vector<std::size_t>> alike_readers(const ViewContext& context) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = context.of(kText, i).answer();
    const auto same = std::ranges::find_if(groups, [&](const std::vector<std::size_t>& group) {
      const auto* first = context.of(kText, group.front()).answer();
      return answer && first && same_tokens(first->result, answer->result);
    });
    if (same == groups.end()) {
      groups.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  return groups;
}

void read_tokens(ViewContext& context, std::int64_t length) {
  context.edit.apply("Read " + std::to_string(length) + " tokens", [&](Session& s) {
    s.text.length = length;
    s.region = {};
  });
}

std::string TextView::help_text() const {
  return "All open models read this text; those that read it as the same tokens share one copy of "
         "it. A token's colour is the selected model's loss on it, clear at 0 and red at 6 nats "
         "and above, or how far it lies above another model's loss, blue where it lies below. "
         "Hover to see what the model expected there; click to make the token the query of the "
         "other views. The number of tokens may be larger than the models were trained at; 0 is "
         "the trained length, and the memory needed is shown beside it. Continue lets every model "
         "write on.";
}

void TextView::add_found(const ViewContext& context, const std::string& words,
                         std::vector<Command>& list) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return;
  const auto* answer = context.requests.of(kText, model).answer();
  if (!answer) return;
  const auto& tokens = answer->result.tokens;
  auto found = tokens_with(tokens, words);
  if (found.size() > kMostFound) found.resize(kMostFound);
  for (const auto& [begin, end] : found) {
    std::string around;
    for (int i = std::max(0, begin - kTokensAround);
         i < std::min(static_cast<int>(tokens.size()), end + kTokensAround); ++i) {
      around += tokens[static_cast<std::size_t>(i)].text;
    }
    const auto token = static_cast<std::int64_t>(begin);
    list.push_back({"token.select." + std::to_string(token),
                    "Select token " + std::to_string(token) + ": \"" + words + "\"",
                    around,
                    0,
                    [token](ViewContext& c) { select_query(c, token); },
                    {},
                    true});
  }
}

void TextView::ask(ViewContext& context) {
  keep_text(context);
  ask_for_tokens(context);
  auto state = context.state<TextState>();
  if (!state.continued) return;
  if (!state.writing.contains("head")) state.writing.erase("top");
  ask_of_all(context, kContinued, [&](const std::string& model, const TextInput& text) {
    auto request = with_choices(protocol::GenerateRequest{.model = model}, state.writing);
    set_text(request.reading, text);
    return request;
  });
}

// What was read can be gone back to. No step of undo: the user chose a text and not a list.
void TextView::keep_text(ViewContext& context) {
  const TextInput& now = context.session().text;
  if (now.untouched()) return;
  auto state = context.state<TextState>();
  const bool typed = now.name == TextInput::kTyped;
  const KeptText one{now.name, typed ? now.words : SharedText()};
  const auto same = [&](const KeptText& kept) {
    return kept.name == one.name && (!typed || kept.words == one.words);
  };
  if (std::ranges::any_of(state.kept, same)) return;
  state.kept.insert(state.kept.begin(), one);
  if (state.kept.size() > kMostKept) state.kept.resize(kMostKept);
  context.edit.apply_silently([&](Session& s) { s.views.set(state); });
}

std::vector<Saved> TextView::saved(ViewContext& context) {
  const auto answers = shown_answers(context, kText);
  if (answers.empty()) return {};
  Output output;
  std::vector<TextResult> texts;
  for (const auto* answer : answers.list) {
    texts.push_back(answer->result);
    output.result["texts"].push_back(protocol::to_json_form(answer->result));
    output.provenance.push_back(protocol::to_json_form(answer->result.provenance));
  }
  output.figures = {token_loss_figure(texts, names_of(context.session()))};
  return {{"", std::move(output), command_of<protocol::TextRequest>(answers.asked())}};
}

// How the text is shown, what is searched in it, and whether the models write on.
void TextView::draw_reading(ViewContext& context) {
  auto state = context.state<TextState>();
  bool changed = false;
  width_of_next(7);
  const bool entered = ImGui::InputTextWithHint("##search", "Find", &state.search,
                                                ImGuiInputTextFlags_EnterReturnsTrue);
  changed |= state.search != context.state<TextState>().search;
  tooltip("Enter goes to the next one");
  next_control(checkbox_width("ids"));
  changed |= ImGui::Checkbox("ids", &state.ids);
  tooltip("The ids of the tokens in place of their texts");
  next_control(checkbox_width("spaces"));
  changed |= ImGui::Checkbox("spaces", &state.spaces);
  tooltip("Signs for spaces, tabs and ends of lines");
  next_control(checkbox_width("Continue"));
  changed |= ImGui::Checkbox("Continue", &state.continued);
  tooltip("Every model writes on from the end of what it read");
  if (state.continued) {
    next_control(6 * ImGui::GetFontSize());
    std::set<std::string> hidden{"length", "device", "threads"};
    if (!state.writing.contains("head")) hidden.insert("top");
    changed |=
        writing_form_.draw<protocol::GenerateRequest>(state.writing, TextState{}.writing, hidden);
  }
  if (changed) context.set_state("Change how the text is shown", state, "text");
  if (entered) go_to_next(context);
}

// The match after the selected token becomes the query, in the first model that has one.
void TextView::go_to_next(ViewContext& context) {
  const std::string words = context.state<TextState>().search;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = context.of(kText, i).answer();
    if (!answer) continue;
    const auto found = tokens_with(answer->result.tokens, words);
    if (found.empty()) continue;
    const std::int64_t at = context.session().selection.query.value_or(-1);
    const auto next =
        std::ranges::find_if(found, [&](const auto& range) { return range.first > at; });
    reveal_ = next == found.end() ? found.front().first : next->first;
    return select_query(context, reveal_);
  }
  context.window.say("\"" + words + "\" is not in what was read");
}

// A reader of the text in a line: its loss on all of it, the first number alone where there is no
// room for more, and what is under way. A click selects it.
void TextView::draw_headline(ViewContext& context, std::size_t index) {
  auto& question = context.of(kText, index);
  draw_model_name(context.session(), index);
  if (ImGui::IsItemClicked()) select_model(context, static_cast<std::int64_t>(index));
  if (const auto* answer = question.answer()) {
    ImGui::SameLine();
    const std::vector<Measure> measures = measures_of(answer->result);
    const std::string whole = headline(measures);
    const bool fits = ImGui::CalcTextSize(whole.c_str()).x <= ImGui::GetContentRegionAvail().x;
    const Dimmed dimmed(!question.answers_now());
    ImGui::TextColored(widgets::palette().quiet, "%s",
                       (fits ? whole : measures.front().words()).c_str());
    if (!fits) tooltip(whole);
  }
  draw_question(context, question, "");
}

// Of many models side by side, a unit that the one before has left out: the text is what the room
// is for.
void TextView::draw_headlines(ViewContext& context, const Readers& readers) {
  if (readers.size() <= kWholeHeadlines) {
    for (const std::size_t i : readers) draw_headline(context, i);
    return;
  }
  std::string unit;
  for (const std::size_t i : readers) {
    const auto* answer = context.of(kText, i).answer();
    const auto measures = answer ? measures_of(answer->result) : std::vector<Measure>(1);
    const Measure& first = measures.front();
    const std::string words = first.unit == unit ? first.number : first.words();
    unit = first.unit;
    if (i != readers.front()) {
      next_control(model_name_width(context.session(), i) + ImGui::CalcTextSize(words.c_str()).x +
                   ImGui::GetStyle().ItemSpacing.x);
    }
    draw_model_name(context.session(), i);
    if (ImGui::IsItemClicked()) select_model(context, static_cast<std::int64_t>(i));
    ImGui::SameLine();
    {
      const Dimmed dimmed(answer && !context.of(kText, i).answers_now());
      ImGui::TextColored(widgets::palette().quiet, "%s", words.c_str());
    }
    tooltip(answer ? headline(measures) : "");
  }
  for (const std::size_t i : readers) {
    draw_question(context, context.of(kText, i),
                  short_name(context.session(), context.session().models[i]));
  }
}

// What is to be said of their readings, in one line, so that a narrow view has room for the text.
void TextView::draw_notes_of(const ViewContext& context, const Readers& readers) {
  std::vector<std::string> notes;
  for (const std::size_t i : readers) {
    const auto* answer = context.of(kText, i).answer();
    if (!answer || answer->result.provenance.note.empty()) continue;
    if (std::ranges::find(notes, answer->result.provenance.note) == notes.end()) {
      notes.push_back(answer->result.provenance.note);
    }
  }
  draw_folded_notes(notes);
}

// What the colours are: the loss of one of the readers, or that less another one's.
void TextView::draw_colors(ViewContext& context, const Readers& readers, std::size_t owner,
                           const widgets::TokenStripSpec& spec) {
  const Session& session = context.session();
  auto state = context.state<TextState>();
  const std::string name = short_name(session, session.models[owner]);
  std::vector<std::string> words{"loss of " + name}, models{""};
  std::size_t now = 0;
  for (const std::size_t i : readers) {
    if (i == owner) continue;
    if (session.models[i] == state.less) now = words.size();
    words.push_back(name + " less " + short_name(session, session.models[i]));
    models.push_back(session.models[i]);
  }
  std::string word = words[now];
  if (words.size() == 1) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextColored(widgets::palette().quiet, "loss");
  } else if (draw_choice("##colors", word, words)) {
    state.less = models[static_cast<std::size_t>(std::ranges::find(words, word) - words.begin())];
    context.set_state("Colour the text", state);
  }
  const float scale = ImGui::GetFontSize() * 5;
  next_control(scale * 2);
  ImGui::AlignTextToFramePadding();
  ImGui::TextColored(widgets::palette().quiet, "%s",
                     widgets::short_number(spec.difference ? -spec.high_loss : 0).c_str());
  ImGui::SameLine();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + ImGui::GetStyle().FramePadding.y);
  widgets::draw_loss_scale(spec, scale);
  ImGui::SameLine();
  ImGui::TextColored(widgets::palette().quiet, "%s nats",
                     widgets::short_number(spec.high_loss).c_str());
}

void TextView::draw_strip(ViewContext& context, const Readers& readers, std::size_t owner,
                          bool first) {
  const auto state = context.state<TextState>();
  const Answer<TextResult>* less = nullptr;
  for (const std::size_t i : readers) {
    if (i != owner && context.session().models[i] == state.less) {
      less = context.of(kText, i).answer();
    }
  }
  auto& question = context.of(kText, owner);
  const auto& result = question.answer()->result;
  Strip& strip = strips_[context.session().models[owner]];
  const std::string look = std::to_string(state.ids) + std::to_string(state.spaces);
  const auto& tokens = strip.tokens.get(serials_of(question.answer(), less) + look, [&] {
    return strip_tokens(result, state, less ? &less->result : nullptr);
  });
  const auto& found = strip.found.get(serials_of(question.answer()) + state.search,
                                      [&] { return tokens_with(result.tokens, state.search); });
  widgets::TokenStripSpec spec{
      .tokens = &tokens, .version = strip.tokens.version(), .high_loss = kHighLoss};
  if (less) spec.high_loss = kHighDifference, spec.difference = true;
  spec.found = &found;
  const widgets::Hover pointed = marks_on(context, context.hover(), owner);
  spec.pointed = static_cast<int>(pointed.at(widgets::Coordinate::token).value_or(-1));
  spec.pointed_key = static_cast<int>(pointed.key.value_or(-1));
  spec.reveal = first ? reveal_ : -1;
  const Selection& at = context.session().selection;
  const widgets::Hover selected = marks_on(context, marks_of(at), owner);
  spec.selected = static_cast<int>(selected.query.value_or(-1));
  spec.second = static_cast<int>(selected.key.value_or(-1));
  if (!text_first_) draw_colors(context, readers, owner, spec);
  widgets::TokenStripDrawn drawn;
  {
    const Dimmed dimmed(!question.answers_now());
    drawn = strip.strip.draw(spec);
  }
  if (text_first_) draw_colors(context, readers, owner, spec);
  if (drawn.hovered >= 0) {
    hovered_ = drawn.hovered;
    widgets::Hover hover;
    hover.model = static_cast<std::int64_t>(owner), hover.token = drawn.hovered;
    context.point_at(hover);
  }
  const int taken = drawn.stepped >= 0 ? drawn.stepped : drawn.clicked;
  if (taken < 0) return;
  const bool again = selected.query == taken;
  // A number is a token of the selected model: another one's tokens are selected with that model.
  const auto model = static_cast<std::size_t>(std::max<std::int64_t>(0, at.model));
  if (!same_token(context, model, owner, taken)) {
    select_model(context, static_cast<std::int64_t>(owner));
  }
  select_query(context, again ? std::nullopt : std::optional<std::int64_t>(taken));
}

// What is said of a text before it is read, as high as it was in the last frame.
void TextView::draw_about(ViewContext& context, const Readers& readers, bool first) {
  const float begin = ImGui::GetCursorPosY();
  draw_headlines(context, readers);
  draw_notes_of(context, readers);
  if (first) about_ = ImGui::GetCursorPosY() - begin;
}

// Models that read the same tokens: a line each, and the text once, by the selected one of them.
// Where the lines leave no room for the text it stands before them.
void TextView::draw_readers(ViewContext& context, const Readers& readers, bool first) {
  const auto selected = static_cast<std::size_t>(context.session().selection.model);
  const bool here = std::ranges::find(readers, selected) != readers.end();
  const std::size_t owner = here ? selected : readers.front();
  const bool there = context.of(kText, owner).answer() != nullptr;
  const bool below = text_first_ && there;
  if (!below) draw_about(context, readers, first);
  if (!there) return;
  ImGui::PushID(static_cast<int>(readers.front()));
  draw_strip(context, readers, owner, first);
  ImGui::PopID();
  if (below) draw_about(context, readers, first);
  for (const std::size_t i : readers) draw_continuation(context, i);
  ImGui::Dummy({0, 4});
}

void TextView::draw_guesses(ViewContext& context) {
  const auto pointed = context.hover().at(widgets::Coordinate::token);
  const std::int64_t token =
      hovered_ >= 0 ? hovered_ : pointed.value_or(context.session().selection.query.value_or(-1));
  if (token < 0) {
    widgets::draw_notes({"Point at a token, or select one, to see what was expected."});
    return;
  }
  const int fit =
      static_cast<int>(ImGui::GetContentRegionAvail().x / (ImGui::GetFontSize() * kWidthOfGuesses));
  const int columns = std::clamp(fit, 1, std::max(1, static_cast<int>(context.models())));
  if (!ImGui::BeginTable("guesses", columns)) return;
  for (std::size_t i = 0; i < context.models(); ++i) {
    ImGui::TableNextColumn();
    const auto* answer = context.of(kText, i).answer();
    if (!answer || token >= static_cast<std::int64_t>(answer->result.tokens.size())) continue;
    const TokenReading& reading = answer->result.tokens[static_cast<std::size_t>(token)];
    draw_model_name(context.session(), i);
    const std::string words =
        std::to_string(token) + " \"" + reading.text + "\" " +
        (reading.loss ? widgets::short_number(*reading.loss) + " nats" : "no loss");
    next_control(ImGui::CalcTextSize(words.c_str()).x);  // a number that is cut is another one
    ImGui::TextColored(widgets::palette().quiet, "%s", words.c_str());
    const std::size_t shown = std::min<std::size_t>(5, reading.guesses.size());
    for (std::size_t k = 0; k < shown; ++k) {
      draw_guess(reading.guesses[k], reading.guesses[k].id == reading.id);
    }
  }
  ImGui::EndTable();
}

void TextView::draw_content(ViewContext& context) {
  // The draft may be of a session that was opened, or that an undo brought back.
  if (const SharedText draft = context.state<TextState>().draft; !editing_ && !draft.empty()) {
    draft_ = draft.str(), editing_ = true;
  }
  draw_input(context);
  if (editing_) draw_editor(context);
  if (context.models() == 0) return widgets::draw_empty("Open a model to read this text with it.");
  // The text before all else: what was expected is scrolled to where there is no room for both.
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float in_sight = ImGui::GetContentRegionAvail().y;
  const float room = in_sight - line * kLinesOfGuesses;
  // The choice of colours and its scale take two lines more.
  text_first_ =
      about_ + line * (kLinesInSight + 2) > std::min(in_sight, std::max(room, line * kLeastLines));
  hovered_ = -1;
  std::string key;
  for (std::size_t i = 0; i < context.models(); ++i) {
    key += serials_of(context.of(kText, i).answer());
  }
  const auto& groups = readers_.get(key, [&] { return alike_readers(context); });
  const ImVec2 size{0, std::max(line * kLeastLines, room)};
  if (ImGui::BeginChild("read", size, ImGuiChildFlags_NavFlattened)) {
    for (const Readers& readers : groups) draw_readers(context, readers, &readers == &groups[0]);
  }
  ImGui::EndChild();
  reveal_ = -1;
  ImGui::Separator();
  draw_guesses(context);
}

}  // namespace phasescope::app
