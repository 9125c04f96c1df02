#pragma once
// What a request reads, from what the command line or the window was given.
#include <nlohmann/json.hpp>
#include <string>

namespace phasescope::app {

// The JSON form of an Input of this text, under `key` ("text" or "prompt"): of bytes that are no
// UTF-8, which the protocol's JSON cannot hold, in base64.
nlohmann::json input_of_text(const char* key, const std::string& words, const std::string& name);

// The JSON form of a file ("-" is standard input), of words that were typed, and of a JSON file of
// token ids. Throw Error "bad_input" for what cannot be read, or is empty.
nlohmann::json input_of_file(const std::string& path);
nlohmann::json input_of_prompt(const std::string& words);
nlohmann::json input_of_ids(const std::string& path);
// The JSON form of a safetensors file, which the worker reads.
nlohmann::json input_of_tensors(const std::string& path);
// The input that a sample of a task ("addition:7") is: its ids, its prompt where the task's samples
// are texts, or its name where a model reads more than ids of it. Throws Error "bad_usage".
nlohmann::json input_of_sample(const std::string& words);

// Throws Error "bad_input" where a word of a request's parameters is no UTF-8. No line of JSON
// holds such a word, and the worker would read, or write, a file of another name.
void require_utf8(const nlohmann::json& params);

// The name of a request's text, which was read here and may be called anything: what it is, and
// what the worker is told in its place, with escapes.
struct NameOfText {
  std::string given, told;
};
// Puts what is told into the parameters; both are empty where the name is UTF-8.
NameOfText tell_name_of_text(nlohmann::json& params);
// Puts the name as it was given into every command of the answer, so that it runs again.
void put_back_name(nlohmann::json& answer, const NameOfText& name);

}  // namespace phasescope::app
