#pragma once

#include <map>

#include "app/views/view.h"
#include "protocol/messages/text.h"
#include "widgets/token_strip.h"

namespace phasescope::app {

inline constexpr Asks<protocol::TextResult> kText{"text", protocol::TextRequest::method,
                                                  "reading the text"};

// The text that all open models read, token by token, coloured by each model's loss.
class TextView : public View {
 public:
  std::string id() const override { return "text"; }
  std::string title() const override { return "Text"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::left_bottom; }
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
  };
  void draw_input(ViewContext& context);
  void draw_editor(ViewContext& context);
  void draw_model(ViewContext& context, std::size_t index);
  void draw_guesses(ViewContext& context);

  std::map<std::string, Strip> strips_;
  std::string draft_;
  bool editing_ = false;
  int hovered_ = -1;
};

}  // namespace phasescope::app
