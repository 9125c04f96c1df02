#pragma once
// What a request reads, from what the command line or the window was given.
#include <nlohmann/json.hpp>
#include <string>

namespace phasescope::app {

// The JSON form of an Input of this text, under `key` ("text" or "prompt"): of bytes that are no
// UTF-8, which the protocol's JSON cannot hold, in base64.
nlohmann::json input_of_text(const char* key, const std::string& words, const std::string& name);

// The same of a file ("-" is standard input), of words that were typed, and of a JSON file of token
// ids. Throw Error "bad_input" for what cannot be read, or is empty.
nlohmann::json input_of_file(const std::string& path);
nlohmann::json input_of_prompt(const std::string& words);
nlohmann::json input_of_ids(const std::string& path);
// The input that a sample of a task ("addition:7") is: its ids, its prompt where the task's samples
// are texts, or its name where a model reads more than ids of it. Throws Error "bad_usage".
nlohmann::json input_of_sample(const std::string& words);

}  // namespace phasescope::app
