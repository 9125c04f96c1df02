#pragma once
// The options of the command line that give a request its Input: the one list of them.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace phasescope::protocol {

struct InputOption {
  const char *name, *help;
};

inline constexpr InputOption kTextOption{"--text", "file to read (- is standard input)"};
inline constexpr InputOption kPromptOption{"--prompt", "the text itself"};
inline constexpr InputOption kIdsOption{
    "--ids", "JSON file: a list of token ids, or several, each a text (capture: of equal length)"};
inline constexpr InputOption kInputsOption{
    "--inputs", "safetensors file: input_ids (B, N), masks, positions, token types"};
inline constexpr InputOption kSampleOption{
    "--sample", "a sample of a task: TASK, TASK:SEED or TASK:SEED:LENGTH"};

// In the order in which they are told of; one of them is given at a time.
inline constexpr std::array kInputOptions{kTextOption, kPromptOption, kIdsOption, kInputsOption,
                                          kSampleOption};

// Whether an input has the option: `kinds` are those that it may be ("text", "ids", ..., as its
// field's choices have them), all where there are none.
inline bool takes(const std::vector<std::string>& kinds, const InputOption& option) {
  return kinds.empty() || std::ranges::find(kinds, option.name + 2) != kinds.end();
}

// "--text", "--prompt", ... of an input of these kinds.
inline std::vector<std::string> names_of_input_options(const std::vector<std::string>& kinds) {
  std::vector<std::string> names;
  for (const InputOption& option : kInputOptions) {
    if (takes(kinds, option)) names.emplace_back(option.name);
  }
  return names;
}

}  // namespace phasescope::protocol
