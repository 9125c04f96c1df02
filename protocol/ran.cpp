#include "protocol/messages/ran.h"

#include <algorithm>

namespace phasescope::protocol {
namespace {

using List = std::vector<Ran>;

// Words of the list's parts that are alike in `member`, in the order in which they begin.
template <class Member, class Words>
std::string words_of_parts(const List& all, Member member, const char* between, Words words) {
  std::string out;
  std::vector<List> parts;
  for (const Ran& one : all) {
    auto part = std::ranges::find_if(
        parts, [&](const List& list) { return list.front().*member == one.*member; });
    if (part == parts.end()) part = parts.insert(part, List{});
    part->push_back(one);
  }
  for (const List& part : parts) out += (out.empty() ? "" : between) + words(part);
  return out;
}

std::string once_each(const List& all) {
  std::set<std::string> texts;
  for (const Ran& one : all) texts.insert(one.text());
  std::string words;
  for (const std::string& text : texts) words += (words.empty() ? "" : ", ") + text;
  return words;
}

std::string by_dtype(const List& all) {
  return words_of_parts(all, &Ran::dtype, ", ", [](const List& part) {
    return once_each(part) + " (" + part.front().dtype + ")";
  });
}

}  // namespace

std::string words_of(const List& all, DtypesInWords dtypes) {
  if (all.empty()) return "none";
  return words_of_parts(all, &Ran::model, "; ", [dtypes](const List& part) {
    const auto& model = part.front().model;
    return (model ? *model + ": " : "") +
           (dtypes == DtypesInWords::said ? by_dtype(part) : once_each(part));
  });
}

}  // namespace phasescope::protocol
