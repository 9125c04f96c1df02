#include "app/claims/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "app/figures/intervals.h"
#include "protocol/headings.h"

namespace phasescope::app {

namespace {

using nlohmann::json;
using protocol::ClaimRow;
using protocol::IntervalEnd;
using protocol::MeasuredNumber;

constexpr const char *kAgrees = "agrees", *kDisagrees = "disagrees", *kCannotTell = "cannot tell";

// ---- Reading ------------------------------------------------------------------------------------

const json* at(const json& value, const std::string& pointer) {
  const json::json_pointer place(pointer);
  return value.contains(place) ? &value.at(place) : nullptr;
}

bool fits(const json& row, const json& where) {
  for (const auto& [key, value] : where.items()) {
    if (!row.contains(key) || row.at(key) != value) return false;
  }
  return true;
}

std::vector<const json*> rows_at(const json& result, const std::string& list, const json& where) {
  std::vector<const json*> rows;
  const json* found = at(result, list);
  if (found == nullptr || !found->is_array()) return rows;
  for (const json& row : *found) {
    if (row.is_object() && fits(row, where)) rows.push_back(&row);
  }
  return rows;
}

// The members of a row that are no lists or objects, and an interval as it stands.
void add_plain_members(const json& row, const std::string& field, json& small) {
  for (const auto& [key, value] : row.items()) {
    const bool wanted = key == field && value.is_object();
    if (wanted || !value.is_structured()) small[key] = value;
  }
  if (!field.starts_with("/")) return;
  if (const json* value = at(row, field)) small[json::json_pointer(field)] = *value;
}

std::ptrdiff_t place_in(const json& list, const json* row) {
  return std::ranges::find_if(list, [row](const json& one) { return &one == row; }) - list.begin();
}

// The rows that one place of a claim may be about, each once, whatever other places ask of it.
class NeededRows {
 public:
  explicit NeededRows(const json& result) : result_(result) {}

  void add(const std::string& list, const json& where, const std::string& field) {
    const json* all = at(result_, list);
    if (all == nullptr || !all->is_array()) return;
    for (const json* row : rows_at(result_, list, where)) {
      json& small = rows_[list].try_emplace(place_in(*all, row), json::object()).first->second;
      add_plain_members(*row, field, small);
    }
  }

  json form() const {
    json kept = json::object();
    for (const auto& [list, rows] : rows_) {
      json& place = kept[json::json_pointer(list)] = json::array();
      for (const auto& [index, row] : rows) place.push_back(row);
    }
    return kept;
  }

 private:
  const json& result_;
  std::map<std::string, std::map<std::ptrdiff_t, json>> rows_;
};

MeasuredNumber with_interval(const std::string& name, const json& form) {
  const auto interval = protocol::from_json_form<protocol::Interval>(form);
  return {.name = name,
          .value = interval.mean,
          .low = interval.low,
          .high = interval.high,
          .n = interval.n};
}

// The number of a row whose interval stands beside it, as a number that has it itself.
json with_what_is_beside(const json& row, const json& value) {
  json form{{"value", value}};
  for (const char* part : {"low", "high", "n"}) {
    if (row.contains(part)) form[part] = row.at(part);
  }
  return form;
}

MeasuredNumber exact(const std::string& name, double value) {
  return {.name = name, .value = value, .low = value, .high = value};
}

std::optional<MeasuredNumber> number_in(const json& row, const std::string& name,
                                        const std::string& field) {
  const json* value = field.starts_with("/") ? at(row, field)
                      : row.contains(field)  ? &row.at(field)
                                             : nullptr;
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_string()) {
    const std::string text = value->get<std::string>();
    if (text != "nan" && text != "inf" && text != "-inf") {
      return MeasuredNumber{.name = name, .words = text};
    }
    return exact(name, protocol::detail::read_double(*value));
  }
  if (protocol::value_of_interval(*value) != nullptr) return with_interval(name, *value);
  if (!value->is_number()) return std::nullopt;
  const bool beside = !field.starts_with("/") && row.contains("low") && row.contains("high");
  return beside ? with_interval(name, with_what_is_beside(row, *value))
                : exact(name, value->get<double>());
}

// ---- Deciding -----------------------------------------------------------------------------------

void tell(ClaimRow& row, const char* verdict, std::string why) {
  row.verdict = verdict, row.why = std::move(why);
}

const MeasuredNumber* measured(const ClaimRow& row, const std::string& name) {
  const auto found = std::ranges::find(row.measured, name, &MeasuredNumber::name);
  return found == row.measured.end() ? nullptr : &*found;
}

std::string in_words(const MeasuredNumber& number) {
  if (!number.words.empty()) return number.words;
  const bool is_exact = number.low == IntervalEnd(number.value) && number.high == number.low;
  return is_exact ? widgets::short_number(number.value)
                  : with_ends(number.value, number.low, number.high);
}

// Differences of losses are in nats, whatever unit the values beside them have.
std::string unit_of(const json& difference) {
  if (difference.value("metric", "") != "loss") return "";
  const std::string per = difference.value("per", "");
  return per.empty() ? "nats" : "nats a " + per;
}

// `second` - `first`, as the result pairs them.
std::optional<MeasuredNumber> paired(const Claim& claim, const json& result,
                                     const std::string& first, const std::string& second) {
  if (!claim.differences) return std::nullopt;
  const auto model_of = [&](const std::string& name) {
    const auto place = std::ranges::find(claim.measured, name, &Place::name);
    return place == claim.measured.end() ? json() : place->where.value("model", json());
  };
  const std::string field =
      claim.differences->field == "value" ? "difference" : claim.differences->field;
  const json a = model_of(first), b = model_of(second);
  for (const bool turned : {false, true}) {
    json where = claim.differences->where;
    where["model"] = turned ? a : b, where["against"] = turned ? b : a;
    const auto rows = rows_at(result, claim.differences->list, where);
    if (rows.size() != 1) continue;
    auto found = number_in(
        *rows.front(), protocol::with_unit(second + " - " + first, unit_of(*rows.front())), field);
    if (!found || !turned) return found;
    found->value = -found->value;
    const IntervalEnd low = found->low;
    found->low = found->high ? IntervalEnd(-*found->high) : IntervalEnd();
    found->high = low ? IntervalEnd(-*low) : IntervalEnd();
    return found;
  }
  return std::nullopt;
}

enum class Side { above, below, open };

Side side_of_zero(const IntervalEnd& low, const IntervalEnd& high) {
  if (low && *low > 0) return Side::above;
  return high && *high < 0 ? Side::below : Side::open;
}

// On which side of `first` the second lies, and the difference where it is paired.
Side neighbours(const Claim& claim, const json& result, const MeasuredNumber& first,
                const MeasuredNumber& second, ClaimRow& row) {
  if (auto difference = paired(claim, result, first.name, second.name)) {
    row.differences.push_back(*difference);
    return side_of_zero(difference->low, difference->high);
  }
  if (first.high && second.low && *first.high < *second.low) return Side::above;
  return first.low && second.high && *second.high < *first.low ? Side::below : Side::open;
}

// Of one seed, or one text.
bool of_one_unit(const MeasuredNumber& difference) {
  return difference.n == 1 && !difference.low && !difference.high;
}

void judge_order(const Claim& claim, const json& result, ClaimRow& row) {
  const std::vector<std::string>& order = claim.predicate.order;
  std::string turned, open, single;
  const auto add = [](std::string& list, const std::string& words) {
    list += (list.empty() ? "" : ", ") + words;
  };
  for (std::size_t n = 0; n + 1 < order.size(); ++n) {
    const MeasuredNumber *first = measured(row, order[n]), *second = measured(row, order[n + 1]);
    const std::size_t told = row.differences.size();
    const Side side = neighbours(claim, result, *first, *second, row);
    const std::string pair = order[n] + " and " + order[n + 1];
    if (side == Side::below) add(turned, pair);
    if (side != Side::open) continue;
    const bool alone = row.differences.size() > told && of_one_unit(row.differences.back());
    if (!alone) {
      add(open, pair);
    } else if (row.differences.back().value != 0) {
      add(single,
          pair + (row.differences.back().value > 0 ? " as claimed" : " the other way round"));
    } else {
      add(single, pair + " alike");
    }
  }
  const std::string each = order.size() > 2 ? "; each pair is known at 95 %" : "";
  if (!turned.empty()) return tell(row, kDisagrees, "the other way round: " + turned + each);
  if (!single.empty()) {
    const std::string also = open.empty() ? "" : "; not told apart: " + open;
    return tell(row, kCannotTell, "one of each has no interval; it has " + single + also);
  }
  if (!open.empty()) return tell(row, kCannotTell, "not told apart: " + open + each);
  tell(row, kAgrees, "every difference is told from 0" + each);
}

void judge_sign(const Predicate& wanted, ClaimRow& row) {
  const MeasuredNumber& number = *measured(row, wanted.of);
  const std::string words = wanted.of + " is " + in_words(number);
  if (!number.low || !number.high) return tell(row, kCannotTell, words + ", without an interval");
  if (wanted.sign == "zero") {
    const double within = wanted.within;
    const std::string range = words + ", and within " + widgets::short_number(within) + " counts";
    if (*number.low >= -within && *number.high <= within) return tell(row, kAgrees, range);
    const bool outside = *number.low > within || *number.high < -within;
    return tell(row, outside ? kDisagrees : kCannotTell, range);
  }
  const Side side = side_of_zero(number.low, number.high);
  if (side == Side::open) return tell(row, kCannotTell, words + ", which holds 0");
  const bool as_claimed = (side == Side::above) == (wanted.sign == "positive");
  tell(row, as_claimed ? kAgrees : kDisagrees, words);
}

// The quotient of two positive intervals.
std::optional<MeasuredNumber> quotient(const MeasuredNumber& above, const MeasuredNumber& below) {
  MeasuredNumber ratio{.name = above.name + " / " + below.name, .value = above.value / below.value};
  const bool known = above.low && above.high && below.low && below.high && *above.low >= 0;
  if (!known || *below.low <= 0) return std::nullopt;
  ratio.low = *above.low / *below.high, ratio.high = *above.high / *below.low;
  return ratio;
}

void judge_ratio(const Predicate& wanted, ClaimRow& row) {
  std::optional<MeasuredNumber> ratio = *measured(row, wanted.ratio[0]);
  if (wanted.ratio.size() > 1) {
    ratio = quotient(*measured(row, wanted.ratio[0]), *measured(row, wanted.ratio[1]));
    if (ratio) row.differences.push_back(*ratio);
  }
  if (!ratio || !ratio->low || !ratio->high) {
    return tell(row, kCannotTell, "the ratio has no interval");
  }
  const std::string words = ratio->name + " is " + in_words(*ratio) + ", and " +
                            widgets::short_number(wanted.from) + " to " +
                            widgets::short_number(wanted.to) + " counts";
  if (*ratio->low >= wanted.from && *ratio->high <= wanted.to) return tell(row, kAgrees, words);
  const bool outside = *ratio->low > wanted.to || *ratio->high < wanted.from;
  tell(row, outside ? kDisagrees : kCannotTell, words);
}

void judge_holds(const Predicate& wanted, ClaimRow& row) {
  const std::string& said = measured(row, wanted.holds)->words;
  const char* verdict = said == "holds" ? kAgrees : said == "fails" ? kDisagrees : kCannotTell;
  tell(row, verdict, "the check says: " + said);
}

// What the premise says where it is not met; empty where it is, or where there is none.
std::string unmet(const Claim& claim, const json& result) {
  if (!claim.premise) return "";
  const Premise& premise = *claim.premise;
  double best = -std::numeric_limits<double>::infinity();
  for (const json* row : rows_at(result, premise.list, premise.where)) {
    if (const auto number = number_in(*row, "", premise.field)) {
      best = std::max(best, number->value);
    }
  }
  if (best >= premise.at_least) return "";
  return premise.words +
         (std::isfinite(best) ? ": the best is " + widgets::short_number(best) : "");
}

std::string absent(const Claim& claim, const json& result, ClaimRow& row) {
  std::string names;
  for (const Place& place : claim.measured) {
    if (auto number = number_at(result, place)) {
      row.measured.push_back(std::move(*number));
    } else {
      names += (names.empty() ? "" : ", ") + place.name;
    }
  }
  return names;
}

}  // namespace

std::optional<MeasuredNumber> number_at(const json& result, const Place& place) {
  const auto rows = rows_at(result, place.list, place.where);
  if (rows.size() != 1) return std::nullopt;
  auto number = number_in(*rows.front(), place.name, place.field);
  if (!number) return number;
  number->value *= place.scale;
  if (number->low) number->low = *number->low * place.scale;
  if (number->high) number->high = *number->high * place.scale;
  return number;
}

json needed_of(const json& result, const std::vector<const Claim*>& claims) {
  NeededRows rows(result);
  for (const Claim* claim : claims) {
    for (const Place& place : claim->measured) rows.add(place.list, place.where, place.field);
    if (claim->differences) {
      const Place& place = *claim->differences;
      rows.add(place.list, place.where, place.field == "value" ? "difference" : place.field);
    }
    if (claim->premise) {
      rows.add(claim->premise->list, claim->premise->where, claim->premise->field);
    }
  }
  return rows.form();
}

void judge(const Claim& claim, const json& result, ClaimRow& row) {
  row.measured.clear(), row.differences.clear();
  if (const std::string names = absent(claim, result, row); !names.empty()) {
    return tell(row, kCannotTell, "not measured yet: " + names);
  }
  if (const std::string words = unmet(claim, result); !words.empty()) {
    return tell(row, kCannotTell, words);
  }
  const Predicate& wanted = claim.predicate;
  if (!wanted.order.empty()) return judge_order(claim, result, row);
  if (!wanted.sign.empty()) return judge_sign(wanted, row);
  if (!wanted.ratio.empty()) return judge_ratio(wanted, row);
  judge_holds(wanted, row);
}

}  // namespace phasescope::app
