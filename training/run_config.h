#pragma once
// The one run-configuration schema: {model, start, encoding, positions, data, task, train, eval}.
// Every key is a member of a struct below, so that reading, writing, checking and `--set` share one
// list. Unknown keys are errors that name the near ones. No LibTorch here.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/about.h"
#include "protocol/messages/jobs.h"

namespace phasescope::training {

using protocol::About;

// A decoder with RMS norms and a SwiGLU unless it says otherwise. Sizes in channels and tokens.
struct ModelSection {
  std::int64_t vocab_size = 256;
  std::int64_t context = 256;  // trained length, tokens
  std::int64_t layers = 4;
  std::int64_t width = 192;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;
  std::int64_t ffn_width = 512;
  std::string activation = "silu";
  bool gated = true;         // down(act(gate x) * up x); otherwise down(act(up x))
  std::string norm = "rms";  // layer: the mean is taken off first
  std::string norm_placement = "pre";
  bool causal = true;
  std::int64_t encoder_layers = 0;  // above 0: an encoder-decoder
  bool cross_positions = false;     // its decoder attends to the encoder's tokens at their places
  std::int64_t patch_side = 0;      // above 0: reads images in pieces of so many pixels a side
  std::int64_t patch_kernel = 0;    // pixels a side that a linear map reads of a piece
  std::int64_t patch_channels = 1;
  std::string pool = "none";    // softmax: one answer of all tokens
  bool tie_embeddings = false;  // the head is the embedding's transpose
  double embedding_scale = 1;   // embeddings are multiplied by it
  double norm_eps = 1e-5;
  double init_std = 0.05;    // residual outputs get init_std / sqrt(2 layers)
  double embedding_std = 0;  // of the embedding's first weights; 0: init_std
  std::string note;          // a departure from a paper, shown wherever the model is
  template <class V>
  void fields(V& v) {
    v("vocab_size", vocab_size, About{.help = "tokens; bytes are the first 256"});
    v("context", context, About{.help = "trained length", .unit = "tokens", .low = 2});
    v("layers", layers, About{.help = "how many", .low = 1, .high = 10'000});
    v("width", width, About{.help = "of the residual stream, a multiple of heads", .low = 1});
    v("heads", heads, About{.help = "of attention, a layer", .low = 1});
    v("kv_heads", kv_heads,
      About{.help = "heads of keys and values, which divide heads", .low = 1});
    v("ffn_width", ffn_width, About{.help = "inner width of the MLP", .low = 1});
    v("activation", activation,
      About{.help = "of the MLP",
            .choices = "silu|gelu|gelu_tanh|gelu_tanh_short|relu|relu_squared|quick_gelu|tanh"});
    v("gated", gated, About{.help = "a second product gates the MLP, as in a SwiGLU"});
    v("norm", norm, About{.help = "layer takes the mean off first", .choices = "rms|layer"});
    v("norm_placement", norm_placement,
      About{.help = "before each part, behind its sum, or around it",
            .choices = "pre|post|sandwich"});
    v("causal", causal, About{.help = "a token sees none that come after it"});
    v("encoder_layers", encoder_layers,
      About{.help = "above 0 an encoder of as many layers stands before the decoder",
            .low = 0,
            .high = 10'000});
    v("cross_positions", cross_positions,
      About{.help =
                "the decoder attends to the encoder's tokens at their places, by its encoding"});
    v("patch_side", patch_side,
      About{.help = "above 0 images are read, in pieces of so many pixels a side", .low = 0});
    v("patch_kernel", patch_kernel,
      About{.help = "pixels a side that a linear map reads of a piece; of several windows the "
                    "largest of what they give, above 0, stays",
            .low = 0});
    v("patch_channels", patch_channels, About{.help = "numbers a pixel", .low = 1});
    v("pool", pool,
      About{.help = "softmax: one answer, of the weighted mean of all tokens",
            .choices = "none|softmax"});
    v("tie_embeddings", tie_embeddings, About{.help = "the head is the embedding's transpose"});
    v("embedding_scale", embedding_scale,
      About{.help = "embeddings are multiplied by it, above 0"});
    v("norm_eps", norm_eps, About{.help = "of the norms, above 0"});
    v("init_std", init_std,
      About{.help = "deviation of the first weights, above 0; of residual outputs it is divided by "
                    "sqrt(2 layers)"});
    v("embedding_std", embedding_std,
      About{.help = "the same of the embedding; 0: init_std", .low = 0});
    v("note", note, About{.help = "a departure from a paper, shown wherever the model is"});
  }
};

// What the weights are before the first step: drawn, or those of a model that is there.
struct StartSection {
  // A folder or a bundled model; empty: random weights. The model section is then the opened
  // model's, and so are encoding and positions where the configuration names none.
  std::string model;
  std::int64_t context = 0;        // the length that an opened model is trained at; 0: its own
  std::vector<std::string> train;  // tensors, by patterns; none: all
  std::vector<std::string> freeze;
  std::int64_t lora_rank = 0;  // above 0: W + alpha / rank B A of the matrices that `lora` names
  double lora_alpha = 0;       // 0: twice the rank
  std::vector<std::string> lora = {"*.q_proj.weight", "*.v_proj.weight"};
  std::string lora_save = "merged";  // adapter: PEFT's layout, beside the model's own folder
  std::string model_sha256;          // filled in when a job starts
  template <class V>
  void fields(V& v) {
    v("model", model,
      About{.help = "a model whose weights training begins with, a folder or a bundled one; "
                    "empty: random weights"});
    v("context", context,
      About{.help = "length that it is trained at; 0: its own", .unit = "tokens", .low = 0});
    v("train", train, About{.help = "tensors that are trained, as patterns with *; none: all"});
    v("freeze", freeze, About{.help = "tensors that are not, as patterns with *"});
    v("lora_rank", lora_rank,
      About{.help = "above 0 products of two matrices of this rank are trained beside those that "
                    "start.lora names, and of the rest what start.train names",
            .low = 0,
            .high = 1e5});
    v("lora_alpha", lora_alpha,
      About{.help = "the product is multiplied by alpha / rank; 0: twice the rank", .low = 0});
    v("lora", lora, About{.help = "matrices that get such products, as patterns with *"});
    v("lora_save", lora_save,
      About{.help = "checkpoints hold the merged model, or the adapter alone",
            .choices = "merged|adapter"});
    v("model_sha256", model_sha256,
      About{.help = "filled in when a job starts; a resume refuses another model"});
  }
};

// What stands between a token's place in a window and its position, for any encoding; the members
// of model::PositionsConfig.
struct PositionsSection {
  std::string map = "identity";  // shift, interpolate, random, random_by_layer
  std::int64_t shift = 0;
  double factor = 1;
  std::int64_t range = 0;         // of the draws; 0: twice the context
  std::string draw = "training";  // always: outside training too
  std::int64_t seed = 1;          // of the draw outside training
  template <class V>
  void fields(V& v) {
    v("map", map,
      About{.help = "what stands between a token's place and its position",
            .choices = "identity|shift|interpolate|random|random_by_layer"});
    v("shift", shift, About{.help = "of map shift: where ids start"});
    v("factor", factor, About{.help = "of map interpolate: id i stands at i / factor"});
    v("range", range, About{.help = "of random maps: draws are below it; 0: twice the context"});
    v("draw", draw,
      About{.help = "random maps draw in training alone, or outside it too",
            .choices = "training|always"});
    v("seed", seed, About{.help = "of the draw outside training", .low = 0});
  }
};

struct DataSection {
  // "desk": the English texts that tools/make_corpus.py puts together; else the path of a text
  // file, of a folder of them or of a .jsonl file.
  std::string corpus = "desk";
  std::string validation = "desk";  // "desk": the bundled validation texts; else a .jsonl or text
  // A drawn model's: tokenizer.json or .model, or the folder that it is in. Empty: bytes.
  std::string tokenizer;
  std::string tokenizer_sha256;  // filled in when a job starts; a resume refuses another one
  std::int64_t bos = 0;          // the id at every window's start, where no tokenizer has one
  // apart: a token of a window sees those of its own document alone.
  std::string documents = "joined";
  std::string corpus_sha256;  // filled in when a job starts; a resume refuses another corpus
  template <class V>
  void fields(V& v) {
    v("corpus", corpus,
      About{.help = "desk: the English texts of the project; else a text file, a folder of "
                    "them or a .jsonl file"});
    v("validation", validation,
      About{.help = "desk: the bundled validation texts; else a .jsonl or text file"});
    v("tokenizer", tokenizer,
      About{.help = "of a model that is drawn: tokenizer.json or .model, or the folder that it is "
                    "in; empty: bytes"});
    v("tokenizer_sha256", tokenizer_sha256,
      About{.help = "filled in when a job starts; a resume refuses another tokenizer"});
    v("bos", bos,
      About{.help = "the id at every window's start, and between two documents", .low = 0});
    v("documents", documents,
      About{.help = "apart: in training a token sees those of its own document alone, which begins "
                    "behind data.bos",
            .choices = "joined|apart"});
    v("corpus_sha256", corpus_sha256,
      About{.help = "filled in when a job starts; a resume refuses another corpus"});
  }
};

// What is learnt in place of text: a task of tasks/, whose samples are drawn as training goes on.
struct TaskSection {
  std::string name;           // empty: text
  std::int64_t batch = 64;    // samples a step
  std::int64_t shortest = 1;  // lengths drawn, in the task's own unit; both parts of two alike
  std::int64_t longest = 8;
  std::int64_t longest_at_first = 0;  // the longest length grows from it; 0: it does not
  double growth = 0;                  // linearly over this share of the steps
  std::string draw = "sample";        // step: all samples of a step have one length
  double mean = 0;        // of lengths drawn from a normal distribution, cut to integers
  double deviation = 0;   // 0: they are even
  std::int64_t crop = 0;  // pixels that a training image is moved by at most
  bool flip = false;      // every second one is mirrored
  std::int64_t validation_shortest =
      0;  // of the samples that training is tested on; 0: as it trains
  std::int64_t validation_longest = 0;
  template <class V>
  void fields(V& v) {
    v("name", name,
      About{.help = "what is learnt in place of text: addition, missing_duplicate, ..."});
    v("batch", batch, About{.help = "samples a step", .low = 1, .high = 1e6});
    v("shortest", shortest, About{.help = "length drawn, in the task's own unit", .low = 0});
    v("longest", longest, About{.help = "length drawn, in the task's own unit", .low = 0});
    v("longest_at_first", longest_at_first,
      About{.help = "where the longest length begins to grow from; 0: it does not grow", .low = 0});
    v("growth", growth,
      About{.help = "share of the steps over which it grows", .low = 0, .high = 1});
    v("draw", draw,
      About{.help = "a length for every sample, or one for all samples of a step",
            .choices = "sample|step"});
    v("mean", mean, About{.help = "of normally distributed lengths", .low = 0});
    v("deviation", deviation,
      About{.help = "of normally distributed lengths; 0: all lengths alike", .low = 0});
    v("crop", crop,
      About{.help = "pixels that a training image is moved by at most, drawn for each",
            .low = 0,
            .high = 1000});
    v("flip", flip, About{.help = "every second training image is mirrored, drawn for each"});
    v("validation_shortest", validation_shortest,
      About{.help = "length of the samples that it is tested on; 0: as in training", .low = 0});
    v("validation_longest", validation_longest,
      About{.help = "length of the samples that it is tested on; 0: as in training", .low = 0});
  }
  bool operator==(const TaskSection&) const = default;
};

// Windows of `length` tokens for the share `share` of all steps; stages follow each other in the
// order listed, what is left of the steps has windows of the full context.
struct CurriculumStage {
  std::int64_t length = 0;
  double share = 0;
  template <class V>
  void fields(V& v) {
    v("length", length), v("share", share);
  }
  bool operator==(const CurriculumStage&) const = default;
};

struct TrainSection {
  std::int64_t steps = 2442;
  std::int64_t batch_tokens = 2048;  // a step, whatever the windows' length
  std::int64_t checkpoint_every = 200;
  std::int64_t keep_checkpoints = 2;
  std::vector<std::int64_t> keep_steps;  // checkpoints of these steps are never deleted
  std::string keep_best = "off";  // nor that of the best validation: bits (lowest), right (highest)
  std::int64_t seed = 1;
  std::string init = "named";  // how the first weights are drawn: named, sequential
  std::int64_t threads = 1;
  std::string device = "cpu";    // where the model lives: cpu, cuda, cuda:1
  std::string dtype = "bf16";    // of the matrix products; weights and sums stay f32
  std::string backend = "auto";  // auto, fused, plain, cuda-unverified
  bool atomic_dq = false;        // on a CUDA device: sums by atomic additions, in any order
  double learning_rate = 2e-3;
  std::string schedule = "cosine";  // how the rate falls behind its highest: cosine, linear
  double hold = 0;                  // share of the steps before it falls, the warm-up with them
  double final_share = 0.05;        // of the learning rate, at the last step
  std::int64_t warmup_steps = 100;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  // of matrices alone
  double clip = 1.0;          // global gradient norm; 0 is off
  // What is left out of a step at random (model/drops.h); nothing is in validations and probes.
  double dropout = 0;            // share of what attention and MLP give
  double embedding_dropout = 0;  // share of what the first layer reads
  double score_dropout = 0;      // share of the scores
  double drop_path = 0;          // layer n skips a branch of a sample with probability n times this
  double label_smoothing = 0;    // share of a target that is spread over all ids
  std::int64_t accumulate = 1;   // parts of a step that are read one after the other
  bool recompute = false;        // layers run again for their gradients, in place of being kept
  double average = 0;            // of the weights: each step it keeps this share of itself; 0: none
  std::int64_t patience = 0;  // validations without a better one before training ends; 0: all steps
  std::string spike = "off";  // of the loss: skip, rewind
  double spike_above = 2;     // times the mean of the last 50 losses
  bool csv = false;           // metrics.csv beside metrics.jsonl
  bool tensorboard = false;   // events.out.tfevents.* beside it
  std::vector<CurriculumStage> curriculum;
  template <class V>
  void fields(V& v) {
    v("steps", steps, About{.help = "of the optimiser", .low = 1});
    v("batch_tokens", batch_tokens,
      About{.help = "a step, whatever the windows' length; one window of the context at least",
            .low = 1,
            .high = 1e8});
    v("checkpoint_every", checkpoint_every, About{.help = "steps", .low = 1});
    v("keep_checkpoints", keep_checkpoints, About{.help = "the newest ones", .low = 2});
    v("keep_steps", keep_steps,
      About{.help = "checkpoints of these steps are never deleted", .low = 1});
    v("keep_best", keep_best,
      About{.help = "a checkpoint at the best validation so far too, which stays until a better "
                    "one and which checkpoints/best names: by fewest bits, or most targets right",
            .choices = "off|bits|right"});
    v("seed", seed, About{.help = "of the weights and the windows", .low = 0});
    v("init", init,
      About{.help =
                "first weights: each tensor's by its name, so that two encodings start with all "
                "that they have in common, or one draw after the other",
            .choices = "named|sequential"});
    v("threads", threads, About{.help = "0: all cores", .low = 0, .high = 1024});
    v("device", device, About{.help = "where the model lives and trains: cpu or cuda[:i]"});
    v("dtype", dtype,
      About{.help = "of the matrix products; weights and sums stay f32", .choices = "f32|bf16"});
    v("backend", backend,
      About{.help = "what runs attention", .choices = "auto|fused|plain|cuda-unverified"});
    v("atomic_dq", atomic_dq,
      About{.help =
                "on a CUDA device attention's gradients of queries and of tables may be added up "
                "atomically: faster where texts are long, but the last bits are others from run "
                "to run"});
    v("learning_rate", learning_rate, About{.help = "the highest, above 0"});
    v("schedule", schedule,
      About{.help = "how the learning rate falls", .choices = "cosine|linear"});
    v("hold", hold,
      About{.help = "share of the steps before it falls, the warm-up with them",
            .low = 0,
            .high = 1});
    v("final_share", final_share,
      About{.help = "of the learning rate, at the last step", .low = 0, .high = 1});
    v("warmup_steps", warmup_steps, About{.help = "steps until the highest rate", .low = 0});
    v("beta1", beta1, About{.help = "of AdamW, below 1", .low = 0});
    v("beta2", beta2, About{.help = "of AdamW, below 1", .low = 0});
    v("epsilon", epsilon, About{.help = "of AdamW, above 0"});
    v("weight_decay", weight_decay, About{.help = "of matrices alone", .low = 0});
    v("clip", clip, About{.help = "of the gradient's norm; 0 is off", .low = 0});
    v("dropout", dropout,
      About{.help = "share of the numbers that attention and MLP give that is left out, drawn anew "
                    "in each step; the rest is divided by what is left of 1",
            .low = 0});
    v("embedding_dropout", embedding_dropout,
      About{.help = "the same of what the first layer reads", .low = 0});
    v("score_dropout", score_dropout,
      About{.help = "share of the scores that are left out of the softmax; attention runs plain",
            .low = 0});
    v("drop_path", drop_path,
      About{.help =
                "layer n, from 0 on, adds nothing of its attention, and of its MLP, to a sample "
                "with probability n times this",
            .low = 0});
    v("label_smoothing", label_smoothing,
      About{.help = "share of each target that the training's loss spreads evenly over all ids",
            .low = 0,
            .high = 1});
    v("accumulate", accumulate,
      About{.help = "parts that a step's rows are read in, one after the other, in less memory",
            .low = 1,
            .high = 1e6});
    v("recompute", recompute,
      About{.help = "layers run again for their gradients: less memory, a third more time"});
    v("average", average,
      About{.help = "share of itself that a mean of the weights keeps in a step (0.999); 0: none",
            .low = 0});
    v("patience", patience,
      About{.help = "validations without a better one before training ends; 0: all steps",
            .low = 0});
    v("spike", spike,
      About{.help = "a loss that jumps: the step is left out, or training goes back to the last "
                    "checkpoint and on in another order",
            .choices = "off|skip|rewind"});
    v("spike_above", spike_above,
      About{.help = "a jump is so many times the mean of the last 50 losses, above 1"});
    v("csv", csv, About{.help = "metrics.csv beside metrics.jsonl"});
    v("tensorboard", tensorboard, About{.help = "a file of TensorBoard events beside it"});
    v("curriculum", curriculum,
      About{.help = "windows of a length for a share of the steps, one stage after the other"});
  }
};

// Validation while training.
struct EvalSection {
  std::int64_t every = 100;      // steps; 0: at the end alone
  std::int64_t windows = 64;     // of the context's length, spread over the validation texts
  std::int64_t probe_every = 0;  // steps between measurements of every head on one text; 0: none
  std::string probe_text;        // that text; empty: the beginning of the first validation text
  std::vector<std::string> probe_metrics = {"entropy", "sink", "previous_token", "induction"};
  template <class V>
  void fields(V& v) {
    v("every", every, About{.help = "steps between validations; 0: at the end alone", .low = 0});
    v("windows", windows,
      About{.help = "of the context's length, spread over the validation texts; samples of a task",
            .low = 1,
            .high = 1e6});
    v("probe_every", probe_every,
      About{.help = "steps between measurements of every head on one text; 0: none", .low = 0});
    v("probe_text", probe_text,
      About{.help = "that text, cut to the context; empty: the first validation text"});
    v("probe_metrics", probe_metrics,
      About{.help = "what is measured: keys of phasescope heads --metrics"});
  }
};

struct RunConfig {
  ModelSection model;
  StartSection start;
  // {"key": ..., options of the encoding}; the encoding's own list checks the options.
  nlohmann::json encoding = {{"key", "rope"}};
  PositionsSection positions;
  DataSection data;
  TaskSection task;
  TrainSection train;
  EvalSection eval;
  bool of_text() const { return task.name.empty(); }
  bool from_model() const { return !start.model.empty(); }
  template <class V>
  void fields(V& v) {
    v("model", model), v("start", start), v("encoding", encoding), v("positions", positions);
    v("data", data), v("task", task), v("train", train), v("eval", eval);
  }
};

// Why train.atomic_dq, where it is set, changes nothing in this run, as a sentence; empty where it
// may.
std::string note_of_atomic_dq(const TrainSection& train);

// Reads and checks a configuration; `where` names its file in errors. Throws Error "bad_input" with
// all problems in one message: unknown keys (with the near ones), wrong types, values out of range.
RunConfig run_config_from_json(const nlohmann::json& json, const std::string& where);
nlohmann::json to_json(const RunConfig& config);
RunConfig run_config_from_file(const std::filesystem::path& path);

// A configuration as it was written once, with the defaults of what came later.
nlohmann::json with_defaults(const nlohmann::json& config);

// The same as a checkpoint notes it: of a device its kind alone ("cuda" of "cuda:1"), since the
// number says where a process computed, and not what came out.
nlohmann::json as_noted(const nlohmann::json& config);

// Applies "a.b=c" to a configuration's JSON. The value is read as JSON where it is JSON, as text
// otherwise. Throws Error "bad_usage" for an address that the schema does not have (with the near
// ones) or an assignment without "=". Options of `encoding` are taken as they come.
void apply_setting(nlohmann::json& json, std::string_view assignment);

// Every dotted key of the schema, "train.steps" and so on; `encoding` is there as "encoding.key".
std::vector<std::string> known_keys();

// Every field of a configuration with what it is, its range and its value now, section by section;
// fields that it leaves out have their defaults. Options of `encoding` are not among them. What is
// no object has the defaults alone.
std::vector<protocol::ConfigField> fields_of_config(const nlohmann::json& config);

// The dotted keys whose values differ, for messages.
std::vector<std::string> differing_keys(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace phasescope::training
