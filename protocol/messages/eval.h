#pragma once
// Extrapolation tests.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// What every task takes. A task that takes more has a struct of its own, as perplexity has, whose
// further fields say so (About::of): the command line, the window's forms, jobs and the worker have
// its options from this list, and none of them takes one of another task.
struct TaskOptions {
  std::vector<std::int64_t> lengths;
  std::int64_t trials = 0;
  template <class V>
  void list_lengths(V& v) {
    v("lengths", lengths,
      About{.help = "tokens of a window, or lengths of the task in its own unit, comma separated "
                    "(default: the longest trained one of the models and twice it; windows four "
                    "times too)",
            .low = 1,
            .high = kMostTokens});
  }
  template <class V>
  void list_trials(V& v) {
    v("trials", trials,
      About{.help = "texts read, evenly spread over those that are long enough (default: all), or "
                    "samples of the task at each length (default: 512, 100 where a length has two "
                    "parts, 20 where it is a text)",
            .title = "Texts or samples",
            .low = 1,
            .high = 1e9});
  }
  template <class V>
  void fields(V& v) {
    list_lengths(v), list_trials(v);
  }
  bool operator==(const TaskOptions&) const = default;
};

struct PerplexityOptions : TaskOptions {
  static constexpr const char* kOf = "task=perplexity";
  std::string window = "disjoint";
  std::string metric = "bits_per_byte";
  Input input;
  Corpus corpus;
  template <class V>
  void list_measure(V& v) {
    v("window", window,
      About{.help = "which tokens count: disjoint, sliding:STRIDE, last_k:K or per_position",
            .title = "Window rule",
            .of = kOf});
    v("metric", metric,
      About{.help = "what is measured; ids without bytes have bits_per_token for bits_per_byte",
            .choices = "bits_per_byte|bits_per_token|perplexity",
            .of = kOf});
  }
  template <class V>
  void list_texts(V& v) {
    v("input", input,
      About{.help = "one text in place of many", .choices = "text|prompt|sample", .of = kOf});
    About texts = kCorpusAbout;
    texts.of = kOf;
    v("corpus", corpus, texts);
  }
  template <class V>
  void fields(V& v) {
    list_lengths(v), list_measure(v), list_trials(v), list_texts(v);
  }
  bool operator==(const PerplexityOptions&) const = default;
};

// What is hidden in a text may be looked for in what a model writes.
struct NeedleOptions : TaskOptions {
  bool generate = false;
  template <class V>
  void list_generate(V& v) {
    v("generate", generate,
      About{.help = "the value counts anywhere in 128 tokens that are written, greedy, as RULER "
                    "counts it (default: it must be the answer's next words, which one pass "
                    "decides)",
            .title = "Look in what is written",
            .of = "task=needle|needle_noise"});
  }
  template <class V>
  void fields(V& v) {
    list_lengths(v), list_trials(v), list_generate(v);
  }
  bool operator==(const NeedleOptions&) const = default;
};

// A task against length, for one model or several: an EvalResult.
struct EvalRequest {
  static constexpr const char* method = "eval";
  static constexpr const char* verb = "eval";
  std::string task;
  std::vector<std::string> models;
  Running running;
  PerplexityOptions perplexity;  // all options of all tasks, but needle's own
  NeedleOptions needle;          // its own alone
  std::int64_t seed = 0;
  template <class V>
  void fields(V& v) {
    v("task", task,
      About{.help = "perplexity, or a task: addition, passkey, missing_duplicate, s5, copy, ...",
            .argument = "TASK"});
    v("models", models, kModelsAbout);
    perplexity.fields(v);
    needle.list_generate(v);
    running.fields(v);
    v("seed", seed, kSeedAbout);
  }
};

// The extrapolation tasks: {"tasks": [{"key", "title", "help", "source", "options"}]}.
struct EvalListRequest {
  static constexpr const char* method = "eval.list";
  static constexpr const char* verb = "";
  template <class V>
  void fields(V&) {}
};

struct EvalRow {
  std::string model, encoding;
  // What `value` is: "bits_per_byte", "bits_per_token", "perplexity" (a token), or the task's own.
  std::string metric;
  std::int64_t length = 0;  // of a task whose lengths have two parts: all cells of both up to it
  double value = 0;
  IntervalEnd low, high;      // 95 % interval over n texts or samples, none of one
  std::int64_t n = 0;         // texts, or samples of a task
  std::int64_t tokens = 0;    // that the value is a mean over
  std::int64_t left_out = 0;  // tokens of these texts that the window rule does not count
  std::int64_t seed = 0;
  std::string method = "none";  // of the interval, as in Interval
  std::string window;
  // Tasks alone have these: the share of samples all of whose answers are right, what guessing gets
  // in the metric, and the longest length that the model was trained at.
  std::optional<double> exact, uniform, blind;
  std::optional<std::int64_t> trained;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("metric", metric);
    v("length", length, About{.unit = "tokens"}), v("value", value), v("low", low), v("high", high),
        v("n", n, About{.title = "texts"});
    v("exact", exact, About{.title = "all right"});
    v("blind", blind, About{.title = "blind guesser"}), v("uniform", uniform);
    v("trained", trained, About{.title = "trained length"});
    v("method", method, About{.title = "interval by"});
    v("tokens", tokens, About{.title = "tokens counted"});
    v("left_out", left_out, About{.title = "left out", .unit = "tokens"}), v("seed", seed);
    v("window", window);
  }
};

// What a model's loss or metric is above that of the first model, paired: both read the same texts
// or samples, which are hard or easy for both. Of a sweep every pair of groups, paired by seed.
struct EvalDifference {
  std::string model, against;  // against: the first model
  // What the curve is of: "loss", in nats a `per`; otherwise the metric of a task, in its own unit
  // (of perplexity "loss", too).
  std::string metric = "loss";
  std::string per;  // "byte", "token", "answer": what the loss is of; empty for a metric
  std::int64_t length = 0;
  // Mean over texts or samples, weighted as their values are, or over seeds, and its 95 % interval.
  Interval difference;
  template <class V>
  void fields(V& v) {
    v("model", model), v("against", against), v("length", length, About{.unit = "tokens"});
    v("difference", difference, About{.title = "above it"}), v("metric", metric), v("per", per);
  }
};

// Loss against position past the trained length: mean over texts by position bucket.
struct PositionCurve {
  std::string model;
  std::string metric;  // of `bits`: "bits_per_byte" or "bits_per_token"
  std::string source;  // what was read: "validation texts", "texts of seeded random ids", ...
  std::int64_t trained_length = 0, texts = 0;
  std::vector<double> position, bits;  // centre of the bucket, bits a byte or token
  std::vector<IntervalEnd> low, high;
  std::string method = "none";  // of the intervals
  template <class V>
  void fields(V& v) {
    v("model", model), v("metric", metric), v("source", source);
    v("trained_length", trained_length, About{.title = "trained length", .unit = "tokens"});
    v("texts", texts), v("position", position, About{.unit = "tokens"});
    v("bits", bits, About{.unit = "bits a byte or token"}), v("low", low), v("high", high);
    v("method", method);
  }
};

// The metric of a part of a task's samples: those of a cell of two lengths, or those of a length
// whose answers stand in a tenth of it, `column` the tenth's begin.
struct EvalCell {
  std::string model;
  double row = 0, column = 0, value = 0;
  std::int64_t n = 0;
  template <class V>
  void fields(V& v) {
    v("model", model), v("row", row), v("column", column), v("value", value);
    v("n", n, About{.title = "samples"});
  }
};

// `metric` and `chance` (the value of ids drawn evenly, of a task that of its blind guesser) are
// those of every row; where rows have different ones the metric is "bits" and the chance NaN, and
// each row says which it has.
struct EvalResult {
  std::string task, metric;
  double chance = 0;
  std::vector<EvalRow> rows;
  // By model and length; none of models that read other texts or count other tokens.
  std::vector<EvalDifference> differences;
  std::vector<PositionCurve> positions;
  // What a task's result has: what a length counts, what n counts ("samples", or "seeds" of a
  // sweep), and its map with what is on the axes.
  std::optional<std::string> length_unit, counted, rows_of, columns_of;
  std::vector<EvalCell> cells;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("task", task), v("metric", metric), v("chance", chance), v("rows", rows);
    v("differences", differences);
    v("length_unit", length_unit), v("counted", counted);
    v("rows_of", rows_of), v("columns_of", columns_of);
    v("cells", cells);
    v("positions", positions), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
