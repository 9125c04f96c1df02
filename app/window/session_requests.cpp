#include "app/window/session_requests.h"

namespace phasescope::app {

void set_text(protocol::Reading& reading, const TextInput& text) {
  if (!text.words.empty()) reading.input.name = text.name;
  reading.length = text.length;
}

void set_text(protocol::ReadingMany& reading, const TextInput& text) {
  const std::int64_t chosen = reading.length;
  protocol::Reading& one = reading;
  if (!reading.corpus.asked) set_text(one, text);
  if (chosen > 0) reading.length = chosen;
}

void set_option_of_text(protocol::Input& input, const SharedText& words, bool always) {
  if (input.name.empty()) return;
  if (input.name == TextInput::kTyped) {
    input = {.prompt = words.str()};
  } else if (input.name == TextInput::kBundled) {
    input.name = always ? (assets_folder() / "texts" / TextInput::kBundled).string() : "";
  }
}

}  // namespace phasescope::app
