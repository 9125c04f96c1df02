#pragma once
// A task: what is drawn, what a model reads of it, which positions count, how answers are scored
// and what guessing gets. No LibTorch here. To add one: a file NAME.cpp with a function that makes
// it (those of one family share a base: chomsky/rule.h, sequences.h, trees.h), its line in
// factories.h, in tasks.cpp and in CMakeLists.txt; the tests go over the registry.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasks/random.h"

namespace phasescope::tasks {

using Json = nlohmann::json;
using Ids = std::vector<std::int64_t>;

// How a model reads a sample, and where it answers.
enum class Form {
  causal,           // reads `input`, answers target t at place t from what stands up to it
  placeholders,     // sees both ways: reads `input` and a placeholder for each target
  encoder_decoder,  // the encoder reads `input`, the decoder `decoder_input`, and answers there
  text,             // reads `prompt` by its own tokenizer and answers with `answer`
  image,            // reads an image in pieces, sees both ways, and names one class
};

// "causal", "placeholders", ...
const char* name_of(Form form);

// How a model reads an image: pixels row by row, a pixel's channels beside each other, cut into
// pieces of side x side pixels that begin every `stride` pixels; each piece is a token.
struct ImageShape {
  std::int64_t rows = 0, columns = 0, channels = 1;  // 0: no image
  std::int64_t levels = 2;                           // of a pixel: 0..levels - 1
  std::int64_t side = 0, stride = 0;
  std::int64_t kernel = 0;  // what a linear map reads of a piece at once; see model::PatchesConfig

  std::int64_t grid_rows() const { return (rows - side) / stride + 1; }
  std::int64_t grid_columns() const { return (columns - side) / stride + 1; }
  std::int64_t pieces() const { return grid_rows() * grid_columns(); }
};

struct Sample {
  Ids length;  // the task's own; two numbers in addition
  Ids input;
  Ids target;
  Ids counts;                        // 1 where a target counts in the metric
  Ids decoder_input;                 // of encoder-decoders
  Ids input_places, decoder_places;  // of trees: root 1, children of p 2p and 2p + 1, [SOS] 0
  std::string prompt, answer;        // of texts
  Json drawn = Json::object();       // what the rest of an example's row says of the draw
};

// What a text that a model wrote behind a prompt comes to.
struct Written {
  bool contains = false;  // the answer stands somewhere in it
  bool begins = false;    // it begins with the answer
};

// What guessing gets, in the task's metric.
struct Chance {
  double uniform = 0;  // every output symbol alike
  double blind = 0;    // the best answer by length and place, without the input
  std::string formula;
};

// Right answers among those that count.
struct Score {
  std::int64_t correct = 0, counted = 0;
  bool exact = true;  // all that count
  double share() const {
    return counted == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(counted);
  }
};
Score score_of(const Sample& sample, const Ids& answers);

struct TaskInfo {
  std::string key;
  std::vector<std::string> aliases;
  std::string reference;  // what reference files call it; the key where empty
  std::string title, help;
  std::string source;
  std::string differs;  // where the public code and the paper differ, and what is done here
  Form form = Form::causal;
  std::int64_t input_symbols = 0;          // ids a model reads, a placeholder not counted
  std::int64_t output_symbols = 0;         // ids that may be an answer
  std::int64_t bos = -1;                   // the id at every input's start; -1: none
  std::int64_t padding = 0;                // the id that fills up the rows of a batch
  std::string length_unit;                 // of what a length is
  std::int64_t dimensions = 1;             // numbers in a length
  std::int64_t shortest = 1, longest = 0;  // lengths that can be drawn
  std::string trained, tested;             // lengths of the paper
  std::string metric;                      // accuracy, exact_match, perplexity
  // What a map of the metric has on its two axes, where the task has one: both parts of a length,
  // or the length and where in a sample the answer stands.
  std::string rows, columns;
  ImageShape image = {};  // of Form::image
  // The environment variable that names the folder of the user's own files, where samples are read
  // from some.
  std::string needs_files = {};
  // Tokens that a model writes where its text is looked through for the answer; 0: it never is.
  std::int64_t written = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual const TaskInfo& info() const = 0;

  // A sample of this length, which fits the task (draw() checks).
  virtual Sample drawn(const Ids& length, Random& random) const = 0;
  // The sample that an example of a reference file is about: read from what was drawn, the rest
  // made here. Throws Error "bad_input", or what nlohmann::json throws, where it is none.
  virtual Sample again(const Json& row) const = 0;
  // A sample as the reference files have it, without its number.
  virtual Json row(const Sample& sample) const = 0;
  // What a metric row of a reference file says, computed from the predictions in it.
  virtual Json metric(const std::vector<Sample>& samples, const Json& given) const = 0;
  virtual Chance chance(const Ids& length) const = 0;
  // Of tasks whose answers may be looked for in what is written (TaskInfo::written): what a text
  // behind the sample's prompt comes to, and which share of answers a guesser's text contains.
  virtual Written written(const Sample&, const std::string&) const { return {}; }
  virtual Chance chance_written() const { return {}; }
  // Where in a sample the answer stands, from 0 to 1: the columns of the task's map, where that is
  // not the second part of its length.
  virtual double depth(const Sample&) const { return 0; }
  // Ids as people read them.
  virtual std::string input_symbol(std::int64_t id) const = 0;
  virtual std::string output_symbol(std::int64_t id) const { return input_symbol(id); }

  // Sample `index` of a length. Throws Error "bad_usage" for a length that the task does not have.
  Sample draw(std::uint64_t seed, const Ids& length, std::uint64_t index) const;
  void check_length(const Ids& length) const;
  // Ids of a model of the task: inputs, placeholder and answers in one vocabulary.
  std::int64_t vocabulary() const;
  std::int64_t placeholder() const { return info().input_symbols; }
  // All that a model of the task reads: `input`, of placeholders with them; of an image one id for
  // each piece, behind those of the classes.
  Ids read_by_model(const Sample& sample) const;
};

// Whether a model of the task sees tokens that come later.
bool sees_both_ways(const Task& task);

// The pieces of an image, (pieces, side * side * channels) row-major, with levels from -1 to 1.
// Throws Error "internal" where `pixels` are not those of the shape.
std::vector<float> pieces_of(const ImageShape& shape, const Ids& pixels);

const std::vector<std::unique_ptr<Task>>& all_tasks();
// By key or alias; null where there is none.
const Task* find_task(const std::string& name);
// Throws Error "bad_usage" naming the near ones.
const Task& task_named(const std::string& name);

// The likeliest symbol of each place, learnt from half of `samples` and scored on the other half.
double estimated_blind(const Task& task, const Ids& length, std::int64_t samples);

}  // namespace phasescope::tasks
