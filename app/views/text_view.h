#pragma once

#include <map>

#include "app/views/field_form.h"
#include "app/views/view.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/text.h"
#include "widgets/token_strip.h"

namespace phasescope::app {

// A text that was read before: typed words, or a file's path, which is read again.
struct KeptText {
  std::string name;
  SharedText words;
  template <class V>
  void fields(V& v) {
    v("name", name), v("words", words);
  }
  bool operator==(const KeptText&) const = default;
};

// The first words of a typed text, or the name of a file.
std::string name_of_text(const std::string& name, const SharedText& words);

struct TextState {
  static constexpr const char* kView = "text";
  bool ids = false;        // in place of the tokens' texts
  bool spaces = true;      // whitespace is drawn as signs
  bool continued = false;  // the models write on
  std::string search;
  std::string less;  // model whose loss is taken from that of the selected one; empty: none
  nlohmann::json writing = nlohmann::json::object();  // options of the GenerateRequest
  std::vector<KeptText> kept;                         // newest first
  SharedText draft;                                   // typed, and not read yet
  template <class V>
  void fields(V& v) {
    v("ids", ids), v("spaces", spaces), v("continued", continued), v("search", search);
    v("less", less), v("writing", writing), v("kept", kept), v("draft", draft);
  }
};

inline constexpr Asks<protocol::TextResult> kText{"text", protocol::TextRequest::method,
                                                  "reading the text"};
inline constexpr Asks<protocol::GenerateResult> kContinued{
    "text", protocol::GenerateRequest::method, "writing on"};
// What a text of a length that is being typed would take.
inline constexpr Asks<protocol::LoadReport> kLengthInfo{"text", protocol::InfoRequest::method,
                                                        "asking for the memory"};

// The question of the tokens as every view asks it: it is one question.
protocol::TextRequest text_request(const std::string& model, const TextInput& text);
void ask_for_tokens(ViewContext& context);
// The text of a token as the session's i-th model reads the text, with visible whitespace; empty
// before that is known.
std::string token_text(const ViewContext& context, std::size_t model, std::int64_t place);
// The same of the text that an answer is about, which may be that of before, or another one.
std::string token_text(const ViewContext& context, std::size_t model, std::int64_t place,
                       const Asked& about);
// Whether two models have the same token at a place of the text, as far as their tokens are known:
// those that cut it into other tokens have another word there.
bool same_token(const ViewContext& context, std::size_t a, std::size_t b, std::int64_t place);
// What of the marks is of this model too: a query, a key or a token is of the model that was
// pointed at or selected, and of another one where that has the same token there.
widgets::Hover marks_on(const ViewContext& context, widgets::Hover marks, std::size_t model);

// Ranges [begin, end) of the tokens whose texts together hold `words`, signs for whitespace read as
// what they stand for, capitals as they are. A match begins and ends anywhere in its tokens.
std::vector<std::pair<int, int>> tokens_with(const std::vector<protocol::TokenReading>& tokens,
                                             const std::string& words);

// The texts that were read before and the bundled one, but for that which is read now.
std::vector<KeptText> other_texts(const Session& session);
// What names a text in a state of another view, which need not hold its words: a file's path, or
// the beginning of a hash of typed words.
std::string id_of_text(const KeptText& text);
// The text of such a name; without words where it is not known any more. Throws formats::Error
// where its file cannot be read.
KeptText text_of_id(const Session& session, const std::string& id);

// The session's text is read to so many tokens; 0: as many as each model was trained at.
void read_tokens(ViewContext& context, std::int64_t length);

// Models that read the session's text as the same tokens stand together, in their order; one that
// has not read it yet stands alone.
std::vector<std::vector<std::size_t>> alike_readers(const ViewContext& context);

// For views of the selected token, which call it before they draw: what is selected beyond the end
// of the text, once that is read, is selected no more (fit_selection_to_text). Of an
// encoder-decoder nothing is changed: its stacks may read two texts.
void fit_to_text(ViewContext& context);

// The text that all open models read, token by token: once for all that read it as the same tokens,
// coloured by the loss of the selected one, or by what that is above another one's.
class TextView : public View {
 public:
  std::string id() const override { return "text"; }
  std::string title() const override { return "Text"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::left_bottom; }
  // Places of the selected model's text that hold the words, the first ones of many.
  void add_found(const ViewContext& context, const std::string& words,
                 std::vector<Command>& list) const override;
  void drop_closed(const Session& session) override { keep_open(session, strips_); }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override { return kernels_of(context, kText); }
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override {
    return command_of<protocol::TextRequest>(asked_of_all(context, kText));
  }

 private:
  struct Strip {
    widgets::TokenStrip strip;
    Cached<std::vector<widgets::StripToken>> tokens;
    Cached<std::vector<std::pair<int, int>>> found;
  };
  void keep_text(ViewContext& context);
  void draw_input(ViewContext& context);
  void draw_choice_of_text(ViewContext& context);
  void draw_sample(ViewContext& context);
  void draw_length(ViewContext& context);
  void draw_reading(ViewContext& context);
  void draw_continuation(ViewContext& context, std::size_t index);
  void go_to_next(ViewContext& context);
  void draw_editor(ViewContext& context);
  void keep_draft(ViewContext& context, std::string words);
  using Readers = std::vector<std::size_t>;
  void draw_readers(ViewContext& context, const Readers& readers, bool first);
  void draw_about(ViewContext& context, const Readers& readers, bool first);
  void draw_headline(ViewContext& context, std::size_t index);
  void draw_headlines(ViewContext& context, const Readers& readers);
  static void draw_notes_of(const ViewContext& context, const Readers& readers);
  void draw_colors(ViewContext& context, const Readers& readers, std::size_t owner,
                   const widgets::TokenStripSpec& spec);
  void draw_strip(ViewContext& context, const Readers& readers, std::size_t owner, bool first);
  void draw_guesses(ViewContext& context);

  std::map<std::string, Strip> strips_;  // by the model whose loss it shows
  Cached<std::vector<Readers>> readers_;
  OptionsForm writing_form_;
  std::string draft_, sample_task_, sample_length_;
  int sample_seed_ = 0;
  bool editing_ = false, focus_editor_ = false;
  std::int64_t draft_length_ = 0;
  bool typing_length_ = false;
  int hovered_ = -1, reveal_ = -1;
  float about_ = 0;          // pixels that the lines above the first text took in the last frame
  bool text_first_ = false;  // they stand below it
};

}  // namespace phasescope::app
