#pragma once
// The tasks of the Chomsky hierarchy: n symbols, then a placeholder for each symbol of the answer,
// seen both ways. What each differs in is a rule.
#include <memory>
#include <string>

#include "tasks/task.h"

namespace phasescope::tasks {

struct ChomskyRule {
  const char* key;
  const char* public_name;  // in google-deepmind/randomized_positional_encodings
  const char* title;
  const char* help;
  const char* differs = "";
  std::int64_t input_symbols = 2, output_symbols = 2;
  const char* symbols = "01";  // one character an input symbol; answers are digits
  Ids (*input)(std::int64_t n, Random& random) = nullptr;
  // Throws Error "bad_input" for symbols that the grammar does not make.
  Ids (*target)(const Ids& input) = nullptr;
  bool terminated = false;  // only targets up to the first 2 count
  // What the blind guesser gets right at n symbols, exact; null: estimated from samples.
  double (*blind)(std::int64_t n) = nullptr;
  const char* formula = "";
};

std::unique_ptr<Task> chomsky_task(const ChomskyRule& rule);

// Symbols drawn evenly from 0..symbols - 1.
Ids even_symbols(std::int64_t n, std::int64_t symbols, Random& random);

// `answer`, a 2, and zeros up to `places`.
Ids terminated(Ids answer, std::int64_t places);

// One half from two symbols on; one symbol has one answer.
double half_from_two(std::int64_t n);

// Accuracy and exact rows of predictions: what the metric rows of these tasks say.
Json accuracy_of(const std::vector<Sample>& samples, const Json& given);

}  // namespace phasescope::tasks
