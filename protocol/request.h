#pragma once
// Requests are plain structs that list their fields once:
//
//   struct MapRequest {
//     static constexpr const char* method = "map";  // of the worker
//     static constexpr const char* verb = "map";    // of the command line; "" where there is none
//     std::string pool = "mean";
//     template <class V> void fields(V& v) {
//       v("pool", pool, About{.help = "how a cell's pairs are pooled", .choices = "mean|max"});
//     }
//   };
//
// From that list follow the JSON of a request both ways with unknown names refused, the options of
// the command line with their help, choices and ranges, the command line that asks the same, and
// the page of methods. A part that several requests share lists its fields the same way; the
// request calls part.fields(v).
//
// Sections: one field | JSON | the command line | the page of methods.
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "protocol/about.h"
#include "protocol/field_types.h"
#include "protocol/json_form.h"

namespace phasescope::protocol {

// ---- one field ----------------------------------------------------------------------------------

enum class FieldKind { flag, value, list, repeated, optional_value, object };

// One field of one request object, without its type. read() and parse() throw RequestError
// "bad_usage" with a sentence that names the field.
struct BoundField {
  std::string key;
  About about;
  FieldKind kind = FieldKind::value;
  std::string type;  // "a whole number"
  std::function<nlohmann::json()> write;
  std::function<void(const nlohmann::json&)> read;
  // From and to the words of the command line; of a list, with commas; empty for objects.
  std::function<void(const std::string&)> parse;
  std::function<std::vector<std::string>()> words;
};

// "--leave-out-first" for "leave_out_first".
std::string option_name(const std::string& key);

// "mean|max" -> its words; none where a field takes anything.
std::vector<std::string> choices_of(const About& about);
std::vector<std::string> split_choices(const std::string& choices);
// "mean, max or sum"
std::string in_words(const std::vector<std::string>& choices);

// "rope (yarn x2),tapa" -> its parts; commas within parentheses belong to a part.
std::vector<std::string> split_words(const std::string& text);

namespace detail {

// How a type is read and written; request_fields.cpp has them all, so that no other file makes
// them.
template <class T>
struct FieldType {
  static BoundField bound(const char* name, T& member, const About& about);
  static FieldKind kind();
  static std::string type(const About& about);
  static nlohmann::json write(const T& value);
  static T read(const nlohmann::json& value, const About& about);
  static T parse(const std::string& word, const About& about);
  static std::vector<std::string> words(const T& value);
};

// Runs `step`; what it throws becomes a RequestError that names `where`.
void naming(const std::string& where, const std::function<void()>& step);

void add_to(std::vector<BoundField>& fields, BoundField field);

// The fields of an object that lives at least as long as they do.
template <class R>
std::vector<BoundField> bound_fields(R& object) {
  std::vector<BoundField> fields;
  auto visit = [&fields]<class M>(const char* name, M& member, const About& about = {}) {
    add_to(fields, FieldType<M>::bound(name, member, about));
  };
  object.fields(visit);
  return fields;
}

nlohmann::json written(const std::vector<BoundField>& fields,
                       const std::vector<BoundField>& defaults);
void read_into(const std::vector<BoundField>& fields, const nlohmann::json& params,
               const std::string& whose);
// What a field belongs to (About::of): the key of another field and the values that it has then;
// both empty of one that every request has.
struct Owner {
  std::string key;
  std::vector<std::string> values;
};
Owner owner_of(const About& about);
// Whether a field belongs to the request that `fields` are bound to.
bool belongs(const BoundField& field, const std::vector<BoundField>& fields);
// Throws RequestError "bad_usage" where it does not.
void require_belonging(const BoundField& field, const std::vector<BoundField>& fields);
// Throws RequestError "bad_usage" where a field differs from its default and what it needs does
// not, or what it excludes does too, or it belongs to other requests.
void check_together(const std::vector<BoundField>& fields, const std::vector<BoundField>& defaults);
std::string command_line(const std::string& verb, const std::vector<BoundField>& fields,
                         const std::vector<BoundField>& defaults);

}  // namespace detail

// ---- JSON ---------------------------------------------------------------------------------------

// The parameters of a request: the fields that differ from their defaults. One default has one
// place, the struct. Throws RequestError "bad_usage" for fields that mean nothing together.
template <class R>
nlohmann::json params_of(R request) {
  R defaults{};
  const auto fields = detail::bound_fields(request), unset = detail::bound_fields(defaults);
  detail::check_together(fields, unset);
  return detail::written(fields, unset);
}

// The other way. Throws RequestError "bad_usage" for names that no field has, for values of another
// form, outside their range or choices, or that mean nothing together; all in one sentence. null is
// an absent field.
template <class R>
R request_of(const nlohmann::json& params) {
  R request{}, defaults{};
  const auto fields = detail::bound_fields(request);
  detail::read_into(fields, params, R::method);
  detail::check_together(fields, detail::bound_fields(defaults));
  return request;
}

// The fields of a part that several requests share, of the parameters of one of them; at their
// defaults where it has no such part. Throws RequestError "bad_usage" as request_of().
template <class Part>
Part part_of(const nlohmann::json& params) {
  Part part{};
  for (const BoundField& field : detail::bound_fields(part)) {
    const auto found = params.find(field.key);
    if (found != params.end() && !found->is_null()) field.read(*found);
  }
  return part;
}

// ---- the command line ---------------------------------------------------------------------------

// "phasescope VERB MODEL --option value ...", what a shell takes apart again; options at their
// default are left out. Empty where the command line has no verb for the request.
template <class R>
std::string command_line(R request) {
  R defaults{};
  return detail::command_line(R::verb, detail::bound_fields(request),
                              detail::bound_fields(defaults));
}

// ---- the page of methods ------------------------------------------------------------------------

// A field as the page shows it.
struct FieldInfo {
  std::string key, type, fallback, help, choices, range;
  bool wire_only = false;
};

std::vector<FieldInfo> described(const std::vector<BoundField>& fields);

template <class R>
std::vector<FieldInfo> fields_of() {
  R request{};
  return described(detail::bound_fields(request));
}

struct MethodInfo {
  std::string name, help;
  std::vector<FieldInfo> fields;
};

// Markdown: a section a method with a table of its fields.
std::string page_of(const std::vector<MethodInfo>& methods);

}  // namespace phasescope::protocol
