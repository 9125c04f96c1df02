#pragma once
// Types of a request's fields that JSON and the command line write in forms of their own.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "protocol/about.h"

namespace phasescope::protocol {

// [begin, end): [begin, end] in JSON, begin:end on the command line.
struct Range {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Range&) const = default;
};

// [height, width] in JSON, HxW on the command line.
struct Size {
  std::int64_t height = 0, width = 0;
  bool operator==(const Size&) const = default;
};

// Settings of a model, each "key=value": a list of them or {"key": value} in JSON, --set on the
// command line, as often as there are settings.
struct Assignments {
  std::vector<std::string> list = {};
  bool operator==(const Assignments&) const = default;
};

// The texts of a corpus: true for the bundled validation texts, or the path of a file of text, a
// folder or a .jsonl file, or the texts themselves; --corpus or --corpus PATH on the command line.
struct Corpus {
  bool asked = false;
  std::string path = {};
  nlohmann::json texts = nullptr;  // a list of texts or of {"name", "text"}
  bool operator==(const Corpus&) const = default;
  // As Input::corpus has it: true, a path or texts.
  nlohmann::json form() const {
    if (!texts.is_null()) return texts;
    return path.empty() ? nlohmann::json(true) : nlohmann::json(path);
  }
};

// What is read, as one of its members; {} in JSON is none. `name` tells results what it was.
struct Input {
  std::optional<std::string> text, prompt;
  std::optional<std::string> base64;  // a text whose bytes are no UTF-8
  nlohmann::json ids;                 // a list of token ids, or lists of them
  std::optional<std::string> inputs;  // path of a safetensors file
  std::optional<std::string> sample;  // of a task, "tree_copy:7"
  nlohmann::json corpus;              // texts, or {"name", "text"}, or what Corpus says
  std::string name;
  bool operator==(const Input&) const = default;
  bool empty() const { return *this == Input{} || *this == Input{.name = name}; }
  template <class V>
  void fields(V& v) {
    v("text", text, About{.help = "a text"});
    v("prompt", prompt, About{.help = "a text that was typed"});
    v("base64", base64, About{.help = "a text whose bytes are no UTF-8"});
    v("ids", ids, About{.help = "token ids, or lists of them of equal length"});
    v("inputs", inputs,
      About{.help = "path of a safetensors file with input_ids (B, N), masks, "
                    "positions, token types"});
    v("sample", sample,
      About{.help =
                "a sample of a task, TASK, TASK:SEED or TASK:SEED:LENGTH, with all that a model "
                "reads of it: of trees and images where their tokens stand"});
    v("corpus", corpus,
      About{.help = "true for the bundled validation texts, a list of texts or "
                    "of {\"name\", \"text\"}, or a path"});
    v("name", name, About{.help = "what results call it"});
  }
};

}  // namespace phasescope::protocol
