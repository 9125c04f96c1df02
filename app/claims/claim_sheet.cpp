#include "app/claims/claim_sheet.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/near_names.h"
#include "formats/utf8.h"

namespace phasescope::app {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

template <class T>
std::vector<std::string> keys_of() {
  std::vector<std::string> keys;
  auto visit = [&keys]<class M>(const char* name, M&, const protocol::About& = {}) {
    keys.emplace_back(name);
  };
  T value{};
  value.fields(visit);
  return keys;
}

// What from_json_form would pass over.
template <class T>
void require_known(const json& object, const std::string& where) {
  if (!object.is_object()) throw formats::bad_input("must be an object", where);
  const std::vector<std::string> known = keys_of<T>();
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    throw formats::bad_input("no such key of a sheet of claims" + formats::near_names(key, known),
                             where + ", key " + key);
  }
}

void require_known_parts(const json& claim, const std::string& where) {
  require_known<Claim>(claim, where);
  const auto each = [&](const char* key, auto&& check) {
    for (const json& one : claim.value(key, json::array())) check(one, where + ", " + key);
  };
  each("published", require_known<protocol::PublishedNumber>);
  each("measured", require_known<Place>);
  if (claim.contains("differences")) require_known<Place>(claim["differences"], where);
  if (claim.contains("premise")) require_known<Premise>(claim["premise"], where);
  if (claim.contains("predicate")) require_known<Predicate>(claim["predicate"], where);
}

void require_whole(const Claim& claim, const std::string& where) {
  const Predicate& p = claim.predicate;
  const int kinds =
      (p.order.size() > 1) + (!p.ratio.empty()) + (!p.sign.empty()) + (!p.holds.empty());
  if (kinds != 1) {
    throw formats::bad_input("a claim has one predicate: an order, a sign, a ratio or what holds",
                             where);
  }
  if (claim.desk.empty()) {
    if (claim.limits.empty()) {
      throw formats::bad_input("a claim without a command says why in its limits", where);
    }
    return;
  }
  std::vector<std::string> wanted = p.order;
  wanted.insert(wanted.end(), p.ratio.begin(), p.ratio.end());
  for (const std::string& name : {p.of, p.holds}) {
    if (!name.empty()) wanted.push_back(name);
  }
  for (const std::string& name : wanted) {
    if (std::ranges::find(claim.measured, name, &Place::name) != claim.measured.end()) continue;
    throw formats::bad_input(
        "the predicate speaks of " + formats::in_quotes(name) + ", which is not measured", where);
  }
  const bool known =
      p.sign.empty() || p.sign == "positive" || p.sign == "negative" || p.sign == "zero";
  if (!known) throw formats::bad_input("a sign is positive, negative or zero", where);
}

}  // namespace

ClaimSheet claim_sheet(const json& sheet, const std::string& where) {
  require_known<ClaimSheet>(sheet, where);
  for (const json& claim : sheet.value("claims", json::array())) {
    require_known_parts(claim, where + ", " + claim.value("item", "a claim"));
  }
  ClaimSheet read;
  try {
    read = protocol::from_json_form<ClaimSheet>(sheet);
  } catch (const std::exception& error) {
    throw formats::bad_input(std::string("is no sheet of claims: ") + error.what(), where);
  }
  for (const Claim& claim : read.claims) require_whole(claim, where + ", " + claim.item);
  return read;
}

ClaimSheet claim_sheet_of_file(const fs::path& file) {
  return claim_sheet(formats::json_from_file(file), file.string());
}

std::vector<ClaimSheet> claim_sheets(const fs::path& folder, const std::string& word) {
  std::set<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.insert(entry.path());
  }
  if (files.empty()) throw formats::bad_input("there are no sheets of claims", folder.string());
  const auto lower = [](std::string text) {
    for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  std::vector<ClaimSheet> sheets;
  std::string papers;
  for (const fs::path& file : files) {
    ClaimSheet sheet = claim_sheet_of_file(file);
    papers += (papers.empty() ? "" : ", ") + sheet.paper;
    if (lower(sheet.paper).find(lower(word)) != std::string::npos) {
      sheets.push_back(std::move(sheet));
    }
  }
  if (sheets.empty()) {
    throw formats::bad_usage("no sheet of claims is about " + formats::in_quotes(word), "PAPER",
                             "there are " + papers);
  }
  return sheets;
}

}  // namespace phasescope::app
