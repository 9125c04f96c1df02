#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"

// Reading config.json: typed fields with ranges, all problems collected before one is reported, and
// both dialects of the rope fields. Nothing here knows a family; model/ translates.

namespace phasescope::formats {

// Collects what is wrong with a configuration, so that one error can list all of it.
class ConfigProblems {
 public:
  void add(std::string_view key, const std::string& sentence);
  bool empty() const { return list_.empty(); }
  // "key: sentence", in the order found.
  const std::vector<std::string>& list() const { return list_; }
  // Throws Error "bad_input" with the first ten problems, if any, and their number; `where`: the
  // file.
  void throw_if_any(const std::string& where) const;

 private:
  std::vector<std::string> list_;
};

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
};

// Ranges for common fields.
inline constexpr IntegerRange kCountRange{1, std::int64_t{1} << 31};
inline constexpr IntegerRange kLayerRange{1, 10'000};
inline constexpr NumberRange kPositiveRange{0.0, std::numeric_limits<double>::infinity(), true};

// The names of one field, the usual one first: {"hidden_size", "n_embd"}.
using FieldNames = std::initializer_list<std::string_view>;

// A view of one JSON object; keys that are absent or null read as nullopt. A value of the wrong
// type or out of range is put down in the problems and reads as nullopt. When two names of a field
// are there with different values, the first wins and a note shows both. The object and the
// problems must outlive the reader.
class ConfigReader {
 public:
  // `prefix` stands before key names in messages ("text_config."). An `object` that is no JSON
  // object is itself a problem, and then all fields are absent.
  ConfigReader(const Json& object, ConfigProblems& problems, std::string prefix = {});

  bool has(std::string_view key) const;
  bool has_or_null(std::string_view key) const;
  const Json* raw(std::string_view key) const;  // null where absent or null
  std::optional<std::int64_t> integer(FieldNames names, IntegerRange range = {}) const;
  std::optional<double> number(FieldNames names, NumberRange range = {}) const;
  std::optional<bool> boolean(FieldNames names) const;
  std::optional<std::string> text(FieldNames names) const;
  std::optional<std::vector<double>> numbers(FieldNames names, NumberRange range = {}) const;
  std::optional<std::vector<std::string>> texts(FieldNames names) const;

  // Fields with a default; the required_ forms put down a problem where the field is absent and
  // then give a harmless 1.
  std::int64_t integer_or(FieldNames names, std::int64_t fallback, IntegerRange range = {}) const;
  double number_or(FieldNames names, double fallback, NumberRange range = {}) const;
  bool boolean_or(FieldNames names, bool fallback) const;
  std::string text_or(FieldNames names, const std::string& fallback) const;
  std::int64_t required_integer(FieldNames names, IntegerRange range = kCountRange) const;
  // A field that transformers leaves out where it has its class's default: left_out() then names it
  // and the default.
  std::int64_t integer_of_class(std::string_view key, std::int64_t class_default,
                                IntegerRange range = kCountRange) const;

  // The object under `key`; nullopt where absent (a value that is no object is a problem).
  std::optional<ConfigReader> section(std::string_view key) const;

  void problem(std::string_view key, const std::string& sentence) const;
  ConfigProblems& problems() const { return *problems_; }
  const std::string& prefix() const { return prefix_; }
  // Clashes and other remarks for the load report.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& left_out() const { return left_out_; }
  // The keys that have one of these words in their name, are neither null nor a switch, and that
  // neither this reader nor a copy of it was ever asked for.
  std::vector<std::string> unread(FieldNames words) const;
  // The value of a key that neither this reader nor a copy of it was ever asked for; null where it
  // was, or where the file has none.
  const Json* unasked(std::string_view key) const;

 private:
  std::optional<std::string_view> pick(FieldNames names) const;

  const Json* object_;
  ConfigProblems* problems_;
  std::string prefix_;
  mutable std::vector<std::string> notes_, left_out_;
  std::shared_ptr<std::set<std::string, std::less<>>> asked_;  // keys, of this and its copies
};

// The rope fields of either dialect, as the file has them.
struct RawRope {
  std::string type = "default";  // default, linear, dynamic, yarn, longrope, llama3, proportional
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;
  std::optional<double> factor;
  std::optional<double> attention_factor;
  std::optional<double> beta_fast, beta_slow;
  std::optional<double> mscale, mscale_all_dim;
  std::optional<double> low_freq_factor, high_freq_factor;
  std::optional<std::int64_t> original_max_position_embeddings;
  std::optional<bool> truncate;
  std::vector<double> long_factor, short_factor;
  // Planes of each of a token's positions, by the family's axes; empty: one position.
  std::vector<std::int64_t> mrope_section;
  bool mrope_interleaved = false;
  std::optional<double> llama_4_scaling_beta;  // temperature of queries by position
  // Which of two clashing values was taken, both shown.
  std::vector<std::string> notes;
};

// Whether a family's rope turns by three positions of a token (mRoPE: time, height, width), and how
// their planes lie.
enum class RopeAxes { none, blocks, interleaved };

// The class defaults of a family, and what its class reads.
struct RopeDefaults {
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;
  std::optional<std::int64_t> original_max_position_embeddings = {};
  // Most classes turn whole heads where rope_type is "default", whatever partial_rotary_factor
  // says; the other types follow it in every class.
  bool whole_when_default = false;
  // At the top the base and the share that turns are rotary_emb_base and rotary_pct alone.
  bool neox_names = false;
  RopeAxes axes = RopeAxes::none;
  std::array<std::int64_t, 3> mrope_section = {};  // of the class; zeros: it has none
  bool scales_queries = false;                     // reads llama_4_scaling_beta
};

// Reads rope_parameters (transformers 5; with `layer_type`, its entry of that name where it is
// nested by layer type, which is a problem without one) or rope_theta + rope_scaling (older; where
// the latter says something it replaces all of rope_parameters). What is inside wins over what is
// outside, outside over `defaults`; a clash is noted with both values, and so is a key that no rope
// has, and a base of null. In one thing transformers has it the other way round:
// original_max_position_embeddings outside wins, unless the fields are nested
// (standardize_rope_params). Aliases: rotary_emb_base, rotary_pct, `type` for rope_type, su for
// longrope. With `head_dim` the rotated part is checked to be even, longrope's lists to have half
// its length and the sections of several axes to fill it. Sections and a scale of queries that the
// class does not read are left out, with a note.
RawRope read_rope(const ConfigReader& config, RopeDefaults defaults = {},
                  std::string_view layer_type = {}, std::optional<std::int64_t> head_dim = {});

// Says that Python code named by auto_map is never run; nullopt where there is none.
std::optional<std::string> remote_code_notice(const ConfigReader& config);

// Puts down problems of head counts: zero, or not dividing (read_rope sees to odd head sizes).
void check_heads(ConfigProblems& problems, std::int64_t hidden_size, std::int64_t heads,
                 std::int64_t key_heads, std::optional<std::int64_t> head_dim);

}  // namespace phasescope::formats
