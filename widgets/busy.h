#pragma once

#include <string>

struct ImVec4;

namespace phasescope::widgets {

// What a view shows of a question that has no answer yet, or a bad one.
enum class BusyState { idle, busy, answered, failed };

struct BusySpec {
  BusyState state = BusyState::idle;
  double fraction = -1;  // negative: unknown
  double seconds = 0;    // since it was asked; nothing is shown below 0.2 s
  std::string text;      // what is being done, or the sentence of the error
  std::string hint;      // what to do about an error
};

enum class BusyAction { none, cancel, retry };

// A slim line with progress and a cancel button, or the error with a button to try again. Takes no
// room when there is nothing to say.
BusyAction draw_busy(const BusySpec& spec);

// Words of one line as far as there is room, an ellipsis behind.
void draw_line(const std::string& words, float width);

// Words in as many lines as they take; nothing where there are none.
void draw_paragraph(const std::string& words, const ImVec4& color);

// A quiet sentence in the middle of an empty view: what will be here and how to get it.
void draw_empty(const std::string& words);

}  // namespace phasescope::widgets
