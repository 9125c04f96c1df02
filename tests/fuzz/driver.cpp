// Drives a fuzz target where there is no libFuzzer: seeds, mutated at random, for some seconds.
// Takes libFuzzer's names of options (-max_total_time, -seed, -timeout, in seconds; others are
// passed over) and files to run instead. An input that ends the process is left in crash-TARGET.

#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

using Clock = std::chrono::steady_clock;

std::string current_input;
std::string crash_file;

void save_input() {
  if (FILE* file = std::fopen(crash_file.c_str(), "wb")) {
    std::fwrite(current_input.data(), 1, current_input.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s\n", crash_file.c_str());
  }
}

void on_signal(int number) {
  save_input();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// Numbers and texts that limits and parsers trip over.
constexpr std::array<std::string_view, 24> kWords = {"0",
                                                     "-1",
                                                     "1e3",
                                                     "4294967296",
                                                     "9223372036854775807",
                                                     "18446744073709551616",
                                                     "null",
                                                     "true",
                                                     "[[[[",
                                                     "]]]]",
                                                     "{\"a\":",
                                                     "}}}}",
                                                     "\"\"",
                                                     ",",
                                                     ":",
                                                     "\\u0000",
                                                     "\xff\xfe",
                                                     "NaN",
                                                     "../",
                                                     "[]",
                                                     "{}",
                                                     "1e999",
                                                     "\x89PSC\r\n\x1a\n",
                                                     "\"dtype\":\"F32\""};

class Mutator {
 public:
  explicit Mutator(std::mt19937& random) : random_(random) {}

  void mutate(std::string& input) {
    for (std::size_t n = 1 + below(4); n > 0; --n) once(input);
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % std::max<std::size_t>(limit, 1); }

  void once(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    const std::size_t count = std::min(below(16) + 1, input.size() - at);
    const auto word = kWords[below(kWords.size())];
    switch (below(7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(random_());
        break;
      case 2:
        input.erase(at, count);
        break;
      case 3:
        input.insert(at, word);
        break;
      case 4:
        input.replace(at, count, word);
        break;
      case 5:
        input.insert(below(input.size() + 1), input.substr(at, count));
        break;
      default:
        input.resize(at);
    }
  }

  std::mt19937& random_;
};

struct Options {
  double seconds = 60, timeout = 5;
  unsigned seed = std::random_device()();  // another one every run
  std::vector<std::string> files;
};

Options options_of(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const std::string value = word.substr(word.find('=') + 1);
    if (word[0] != '-') options.files.push_back(word);
    if (word.starts_with("-max_total_time=")) options.seconds = std::stod(value);
    if (word.starts_with("-timeout=")) options.timeout = std::stod(value);
    if (word.starts_with("-seed=")) options.seed = static_cast<unsigned>(std::stoul(value));
  }
  return options;
}

// False when it took longer than allowed.
bool run(const Options& options) {
  const auto start = Clock::now();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current_input.data()),
                         current_input.size());
  const std::chrono::duration<double> took = Clock::now() - start;
  if (took.count() <= options.timeout) return true;
  std::fprintf(stderr, "an input took %.1f s\n", took.count());
  save_input();
  return false;
}

}  // namespace

int main(int count, char** words) {
  const Options options = options_of(count, words);
  const std::string_view program = words[0];
  crash_file = "crash-" + std::string(program.substr(program.rfind('/') + 1));
  __sanitizer_set_death_callback(save_input);
  ::signal(SIGABRT, on_signal);
  for (const std::string& name : options.files) {
    std::ifstream file(name, std::ios::binary);
    current_input.assign(std::istreambuf_iterator<char>(file), {});
    if (!run(options)) return 1;
  }
  if (!options.files.empty()) return 0;

  // Said first: a crash says nothing more, and with it the run is the same again.
  std::fprintf(stderr, "-seed=%u\n", options.seed);
  std::mt19937 random(options.seed);
  Mutator mutator(random);
  std::string parent;
  long inputs = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  for (; Clock::now() < end; ++inputs) {
    // A line of descendants of one seed: damage adds up.
    if (inputs % 16 == 0) parent = phasescope::fuzz::seed(random);
    current_input = parent;
    if (inputs % 16 != 0) mutator.mutate(current_input);
    if (inputs % 4 == 3) parent = current_input;
    if (!run(options)) return 1;
  }
  std::printf("%ld inputs in %.0f s\n", inputs, options.seconds);
  return 0;
}
