#include "formats/tokenizers/post_processors.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

std::int64_t read_id(const JsonFields& fields, const std::string& name, std::int64_t ids_end) {
  const Json& pair = fields.array(name);  // ["[SEP]", 102]
  if (pair.size() != 2 || !pair[1].is_number_unsigned() ||
      pair[1].get<std::uint64_t>() >= static_cast<std::uint64_t>(ids_end)) {
    fields.fail(name,
                fields.key_of(name) + " must be [\"token\", id] with an id of the vocabulary");
  }
  return pair[1].get<std::int64_t>();
}

TemplateIds read_surrounding(const JsonFields& fields, std::int64_t ids_end) {
  return {{read_id(fields, "cls", ids_end)}, {read_id(fields, "sep", ids_end)}};
}

TemplateIds read_byte_level(const JsonFields&, std::int64_t) { return {}; }

// The ids of one of a template's special tokens.
void append_ids(const JsonFields& fields, const std::string& name, std::int64_t ids_end,
                std::vector<std::int64_t>& ids) {
  const JsonFields known = fields.object("special_tokens");
  if (!known.has(name)) {
    fields.fail("special_tokens",
                "the template's token " + in_quotes(name) + " is not among its special_tokens");
  }
  const JsonFields token = known.object(name);
  for (const Json& id : token.array("ids")) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() >= static_cast<std::uint64_t>(ids_end)) {
      token.fail("ids", "the ids of " + in_quotes(name) + " must be ids of the vocabulary");
    }
    ids.push_back(id.get<std::int64_t>());
  }
}

TemplateIds read_pieces(const JsonFields& fields, std::int64_t ids_end) {
  TemplateIds ids;
  bool after = false;
  for (const JsonFields& piece : fields.objects("single")) {
    if (piece.has("Sequence")) {
      if (after || piece.object("Sequence").text("id") != "A") {
        piece.fail("Sequence", "the template of a single text must hold the sequence A once");
      }
      after = true;
    } else {
      append_ids(fields, piece.object("SpecialToken").text("id"), ids_end,
                 after ? ids.after : ids.before);
    }
  }
  if (!after) fields.fail("single", "the template of a single text must hold the sequence A once");
  return ids;
}

TemplateIds read_sequence(const JsonFields& fields, std::int64_t ids_end) {
  TemplateIds ids;
  for (const JsonFields& part : fields.objects("processors")) {
    TemplateIds more = read_template(part, ids_end);
    if (more.before.empty() && more.after.empty()) continue;
    if (!ids.before.empty() || !ids.after.empty()) {
      part.fail("type", "two post-processors that add tokens cannot follow each other");
    }
    ids = std::move(more);
  }
  return ids;
}

using Read = TemplateIds (*)(const JsonFields&, std::int64_t);
constexpr std::pair<const char*, Read> kPostProcessors[] = {
    {"TemplateProcessing", read_pieces},  {"ByteLevel", read_byte_level},
    {"BertProcessing", read_surrounding}, {"RobertaProcessing", read_surrounding},
    {"Sequence", read_sequence},
};

}  // namespace

TemplateIds read_template(const JsonFields& fields, std::int64_t ids_end) {
  const std::string type = fields.text("type");
  std::string names;
  for (const auto& [name, read] : kPostProcessors) {
    if (type == name) return read(fields, ids_end);
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fields.fail("type", "the type " + in_quotes(type) + " is not known", "known types: " + names);
}

}  // namespace phasescope::formats
